import { counted } from './counted.ts'

/** The maximum number of characters of a value that a message repeats. */
const MAX_LENGTH = 60

/** A longer string that is not a URL is described by its length, because it may be a misplaced token. */
const MAX_TEXT = 32

/**
 * Describes the value of an option for an error message. Numbers, booleans, short strings, and the origin of a URL are
 * shown; everything else is described by its kind and size. Use `describeKind` for a value that may be a secret.
 */
export function describeValue(value: unknown): string {
  if (typeof value === 'string') return describeText(value)
  if (typeof value === 'number' || typeof value === 'boolean' || value === undefined || value === null)
    return Object.is(value, -0) ? '-0' : String(value)
  return describeOther(value)
}

/** Describes a value only by its kind and size. */
export function describeKind(value: unknown): string {
  if (typeof value === 'string') return sized('string', value.length, 'character')
  if (typeof value === 'number' || typeof value === 'boolean') return `a ${typeof value}`
  return value === undefined || value === null ? String(value) : describeOther(value)
}

/** Returns a name in quotes, without control characters, cut to 60 characters. */
export function quotedName(name: string): string {
  return `'${cut(escaped(name))}'`
}

/** Returns a name as `quotedName` does, or the kind of a value that is not a string. */
export function describeName(value: unknown): string {
  return typeof value === 'string' ? quotedName(value) : describeKind(value)
}

function describeText(text: string): string {
  const origin = httpOrigin(text)
  if (origin !== undefined) return `'${cut(origin)}'`
  // The part before an @ or after a ? may be a password or a key.
  if (text === '' || text.length > MAX_TEXT || /[@?]/.test(text))
    return sized('string', text.length, 'character')
  return quotedName(text)
}

/** Returns scheme, host, and port of an HTTP URL. The path is left out, because that of a webhook is a secret. */
function httpOrigin(text: string): string | undefined {
  if (!/^https?:\/\//i.test(text) || !URL.canParse(text)) return undefined
  const { origin, pathname } = new URL(text)
  return pathname === '/' ? origin : `${origin}/…`
}

/** Describes a value that is not a string, number, or boolean. */
function describeOther(value: unknown): string {
  if (typeof value === 'function') return describeFunction(value)
  if (typeof value !== 'object') return `a ${typeof value}`
  try {
    if (Array.isArray(value)) return sized('array', value.length, 'item')
    if (ArrayBuffer.isView(value)) return sized(className(value) ?? 'view', value.byteLength, 'byte')
    const name = className(value)
    if (name !== undefined && name !== 'Object') return `${article(name)} ${name}`
    return sized('object', Object.keys(value as object).length, 'member')
  } catch {
    // Every trap of a proxy may throw.
    return 'an object'
  }
}

function describeFunction(value: unknown): string {
  const [, name] = /^class\s+([\w$]+)/.exec(Function.prototype.toString.call(value)) ?? []
  return name === undefined ? 'a function' : `the class ${cut(name)}`
}

/** Returns the class name of an object from its prototype, never from a member of the object. */
export function className(value: unknown): string | undefined {
  const prototype: unknown = Object.getPrototypeOf(value)
  if (prototype === null) return undefined
  const maker: unknown = Object.getOwnPropertyDescriptor(prototype, 'constructor')?.value
  const name: unknown = typeof maker === 'function' ? maker.name : undefined
  return typeof name === 'string' && /^[A-Za-z_$][\w$]{0,59}$/.test(name) ? name : undefined
}

function sized(kind: string, size: number, unit: string): string {
  if (size === 0) return `an empty ${kind}`
  return `${article(kind)} ${kind} ${kind === 'object' ? 'with' : 'of'} ${counted(size, unit)}`
}

function article(noun: string): string {
  return /^[aeiou]/i.test(noun) ? 'an' : 'a'
}

function cut(text: string): string {
  return text.length > MAX_LENGTH ? `${text.slice(0, MAX_LENGTH - 1)}…` : text
}

/** Escapes the characters that could break a line of a log, or hide in it. */
function escaped(text: string): string {
  return text
    .slice(0, MAX_LENGTH + 1)
    .replace(/[\p{C}\p{Zl}\p{Zp}]/gu, (character) => `\\u{${character.codePointAt(0)?.toString(16)}}`)
}

/** Returns a member of an object, or `undefined` if reading it throws. */
export function memberOf(object: object, key: PropertyKey): unknown {
  try {
    return (object as Readonly<Record<PropertyKey, unknown>>)[key]
  } catch {
    return undefined
  }
}
