/** Most characters of what was given that a message repeats. */
const MAX_LENGTH = 60

/** Longer texts that are no address are told by their length: they may be a token that was put in the wrong place. */
const MAX_TEXT = 32

/**
 * What was given for an option, for the message of an error: the value itself where that helps and cannot be a secret
 * (numbers, `true`, short texts, the origin of a URL), else its kind and size. Never what an object or array holds.
 * For what may be a secret there is `describeKind`.
 */
export function describeValue(value: unknown): string {
  if (typeof value === 'string') return describeText(value)
  if (typeof value === 'number' || typeof value === 'boolean' || value === undefined || value === null)
    return Object.is(value, -0) ? '-0' : String(value)
  return describeOther(value)
}

/** As `describeValue`, by kind and size alone. */
export function describeKind(value: unknown): string {
  if (typeof value === 'string') return sized('string', value.length, 'character')
  if (typeof value === 'number' || typeof value === 'boolean') return `a ${typeof value}`
  return value === undefined || value === null ? String(value) : describeOther(value)
}

/** A name that was given, such as that of an option: in quotes, without control characters, cut where it is long. */
export function quotedName(name: string): string {
  return `'${cut(escaped(name))}'`
}

function describeText(text: string): string {
  const origin = httpOrigin(text)
  if (origin !== undefined) return `'${cut(origin)}'`
  // What stands before an @ or behind a ? may be a password, or a key.
  if (text === '' || text.length > MAX_TEXT || /[@?]/.test(text))
    return sized('string', text.length, 'character')
  return quotedName(text)
}

/** Of an http(s) URL scheme, host and port. Its path may be a secret, as that of a webhook is. */
function httpOrigin(text: string): string | undefined {
  if (!/^https?:\/\//i.test(text) || !URL.canParse(text)) return undefined
  const { origin, pathname } = new URL(text)
  return pathname === '/' ? origin : `${origin}/…`
}

/** Of anything but a text, a number or a truth value. */
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
    // A proxy may refuse every look at it.
    return 'an object'
  }
}

function describeFunction(value: unknown): string {
  const [, name] = /^class\s+([\w$]+)/.exec(Function.prototype.toString.call(value)) ?? []
  return name === undefined ? 'a function' : `the class ${cut(name)}`
}

/** The name of the class an object is of: its prototype says so, never a member of its own. */
function className(value: unknown): string | undefined {
  const prototype: unknown = Object.getPrototypeOf(value)
  if (prototype === null) return undefined
  const maker: unknown = Object.getOwnPropertyDescriptor(prototype, 'constructor')?.value
  const name: unknown = typeof maker === 'function' ? maker.name : undefined
  return typeof name === 'string' && /^[A-Za-z_$][\w$]{0,59}$/.test(name) ? name : undefined
}

function sized(kind: string, size: number, unit: string): string {
  if (size === 0) return `an empty ${kind}`
  return `${article(kind)} ${kind} ${kind === 'object' ? 'with' : 'of'} ${size} ${unit}${size === 1 ? '' : 's'}`
}

function article(noun: string): string {
  return /^[aeiou]/i.test(noun) ? 'an' : 'a'
}

function cut(text: string): string {
  return text.length > MAX_LENGTH ? `${text.slice(0, MAX_LENGTH - 1)}…` : text
}

/** Nothing that could break a line of a log, or hide in it. */
function escaped(text: string): string {
  return text
    .slice(0, MAX_LENGTH + 1)
    .replace(/[\p{C}\p{Zl}\p{Zp}]/gu, (character) => `\\u{${character.codePointAt(0)?.toString(16)}}`)
}

/** What `given` says under `key`; undefined where asking throws, which costs that member alone. */
export function memberOf(given: object, key: string): unknown {
  try {
    return (given as Readonly<Record<string, unknown>>)[key]
  } catch {
    return undefined
  }
}
