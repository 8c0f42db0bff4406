import { inspect, types } from 'node:util'
import { cutText } from '../cut-text.ts'
import { memberOf } from '../options/describe-value.ts'
import { tryOrUndefined } from '../try-or-undefined.ts'
import { Haystack, Needle } from './secret-needle.ts'

/** A place where a secret was found. */
export interface Finding {
  /** The number of the secret, counting from 1. */
  readonly secret: number
  readonly form: string
  readonly place: string
}

/** The maximum number of values from accessors, `toJSON`, and the like. They can return new values forever. */
const MAX_MADE = 100_000

/** The maximum number of accessors and the like on the way to a value. */
const MAX_MAKERS = 8

/** The maximum length of a place in a message. */
const MAX_PLACE = 200

/** A value that has yet to be searched. */
interface Pending {
  readonly value: unknown
  readonly place: string
  /** The number of accessors and the like on the way to it. */
  readonly makers: number
  /** The key of the value, if it has to be searched too. */
  readonly key?: string
}

/** Searches values of any kind for secrets. It visits each object once, in the order in which objects are printed. */
export class LeakSearch {
  readonly findings: Finding[] = []
  /** The places of values that cannot be searched, each with advice. */
  readonly opaque: string[] = []
  readonly #needles: readonly Needle[]
  readonly #seen = new Set<object>()
  readonly #pending: Pending[] = []
  #made = 0

  constructor(secrets: readonly string[]) {
    this.#needles = secrets.map((secret, index) => new Needle(secret, index + 1))
  }

  /** Searches a list of events, or a single one. */
  search(events: unknown): void {
    const list: unknown = Array.isArray(events) || events instanceof Set ? [...events] : [events]
    for (const [index, event] of (list as unknown[]).entries()) this.#searchEvent(event, index)
    if (!Array.isArray(events)) return
    // The list may be bytes, and may have properties.
    for (const text of numericTexts(events)) this.#look(text, 'the list')
    for (const { key, value } of propertiesOf(events, isIndex))
      this.#searchAll({ value, place: String(key), makers: 0 }, 'the list')
  }

  /** @param index the index of the event in the list */
  #searchEvent(event: unknown, index: number): void {
    const name = typeof event === 'object' && event !== null ? memberOf(event, 'name') : undefined
    const named = typeof name === 'string' && name !== '' && this.#isClean(name) ? ` (${name})` : ''
    this.#searchAll({ value: event, place: '', makers: 0 }, `event ${index + 1}${named}`)
  }

  #searchAll(first: Pending, label: string): void {
    this.#pending.push(first)
    for (let next = this.#pending.pop(); next !== undefined; next = this.#pending.pop()) {
      const { value, place, makers, key } = next
      const at = place === '' ? label : `${label} at ${place}`
      if (key !== undefined) this.#look(key, `${at}, the key itself`)
      const members = this.#visit(value, at)
      if (members.length > 0) this.#defer(members, place, makers)
    }
  }

  /** Searches a value itself. @returns its members */
  #visit(value: unknown, at: string): readonly Member[] {
    const isFunction = typeof value === 'function'
    if (!isFunction && (typeof value !== 'object' || value === null)) {
      if (value !== undefined) this.#look(String(value), at)
      return NOTHING
    }
    if (this.#seen.has(value)) return NOTHING
    this.#seen.add(value)
    try {
      const advice = adviceFor(value)
      if (advice !== undefined) this.opaque.push(`${advice} (${cutText(at, MAX_PLACE, '…')})`)
      for (const text of textsOf(value)) this.#look(text, at)
      return isFunction ? propertiesOf(value) : membersOf(value)
    } catch {
      // A proxy may throw. It does so for loggers and transports as well.
      return NOTHING
    }
  }

  #defer(members: readonly Member[], place: string, makers: number): void {
    const batch: Pending[] = []
    for (const [index, { key, value, isMade }] of members.entries()) {
      const isNew = isMade === true && typeof value === 'object' && value !== null
      if (isNew && !this.#mayMake(makers)) continue
      const isClean = typeof key === 'number' || this.#isClean(key)
      batch.push({
        value,
        place: placeOf(place, isClean ? key : `(key ${index + 1})`),
        makers: isNew ? makers + 1 : makers,
        ...(!isClean && { key }),
      })
    }
    for (let index = batch.length - 1; index >= 0; index--) this.#pending.push(batch[index] as Pending)
  }

  #mayMake(makers: number): boolean {
    if (makers >= MAX_MAKERS) return false
    if (++this.#made <= MAX_MADE) return true
    throw new RangeError(
      `expectNoLeak() reads at most ${MAX_MADE} values from accessors and toJSON(). Pass fewer values at once.`,
    )
  }

  #isClean(text: string): boolean {
    const haystack = new Haystack(text)
    return this.#needles.every((needle) => haystack.formOf(needle) === undefined)
  }

  #look(text: string, place: string): void {
    const haystack = new Haystack(text)
    for (const needle of this.#needles) {
      const form = haystack.formOf(needle)
      if (form !== undefined)
        this.findings.push({ secret: needle.number, form, place: cutText(place, MAX_PLACE, '…') })
    }
  }
}

/** A member of an object. */
interface Member {
  readonly key: string | number
  readonly value: unknown
  /** `true` if code of the object returned the value, which may be a new one each time. */
  readonly isMade?: boolean
}

const NOTHING: readonly Member[] = []

/** Returns advice for a value that cannot be read, or whose content would be gone after it was read. */
function adviceFor(value: object): string | undefined {
  if (types.isPromise(value)) return 'expectNoLeak() cannot search a promise; await it'
  if (value instanceof Request || value instanceof Response)
    return 'expectNoLeak() cannot search a Request or Response; pass its headers, and await its text()'
  if (value instanceof Blob) return 'expectNoLeak() cannot search a Blob or File; await its text()'
  if (value instanceof ReadableStream)
    return 'expectNoLeak() cannot search a ReadableStream; read it, and pass its chunks'
  if (types.isWeakMap(value) || types.isWeakSet(value))
    return 'expectNoLeak() cannot search a WeakMap or WeakSet; pass its values'
  if (isIterator(value))
    return 'expectNoLeak() cannot search a generator or an iterator; pass its values, as in [...values]'
  return undefined
}

/** Returns `true` for a generator or another iterator, whose values are gone after they were read. */
function isIterator(value: object): boolean {
  const has = (key: PropertyKey): boolean => typeof memberOf(value, key) === 'function'
  return has('next') && (has(Symbol.iterator) || has(Symbol.asyncIterator))
}

/** Returns the string forms of an object. */
function textsOf(value: object): string[] {
  if (types.isBoxedPrimitive(value)) return [String(unboxed(value))]
  if (types.isDate(value) || types.isRegExp(value) || value instanceof URL) return [String(value)]
  if (ArrayBuffer.isView(value)) {
    const { buffer, byteOffset, byteLength } = value
    return [...textsOfBytes(Buffer.from(buffer, byteOffset, byteLength)), ...numericTexts(value)]
  }
  if (types.isAnyArrayBuffer(value)) return textsOfBytes(Buffer.from(value))
  if (Array.isArray(value)) return numericTexts(value)
  return ownTexts(value)
}

/** Returns the result of a custom `toString()`, which a logger or a template string may write. */
function ownTexts(value: object): string[] {
  const print = memberOf(value, 'toString')
  if (typeof print !== 'function' || BUILT_IN_TO_STRING.has(print)) return []
  const text = tryOrUndefined(() => print.call(value) as unknown)
  return typeof text === 'string' ? [text] : []
}

const BUILT_IN_TO_STRING: ReadonlySet<unknown> = new Set([
  Object.prototype.toString,
  Error.prototype.toString,
  Function.prototype.toString,
])

function textsOfBytes(bytes: Buffer): string[] {
  return [bytes.toString('utf8'), bytes.toString('utf16le'), bytes.subarray(1).toString('utf16le')]
}

/** Returns the strings that a list of numbers stands for, as bytes or as codes of characters. */
function numericTexts(value: object): string[] {
  const numbers = value as ArrayLike<unknown>
  const { length } = numbers
  if (typeof length !== 'number' || length === 0 || types.isUint8Array(value)) return []
  const codes: number[] = []
  let areBytes = true
  for (let index = 0; index < length; index++) {
    const code = numbers[index]
    if (typeof code !== 'number' || !Number.isInteger(code) || code < 0 || code > 0x10_ffff) return []
    areBytes &&= code <= 0xff
    codes.push(code)
  }
  const text = codes.map((code) => String.fromCodePoint(code)).join('')
  return areBytes ? [Buffer.from(codes).toString(), text] : [text]
}

function unboxed(value: object): unknown {
  return types.isSymbolObject(value) ? Symbol.prototype.valueOf.call(value) : value.valueOf()
}

/** Returns the members of an object. */
function membersOf(value: object): Member[] {
  if (ArrayBuffer.isView(value) || types.isAnyArrayBuffer(value)) return propertiesOf(value, isIndex)
  if (types.isStringObject(value)) return propertiesOf(value, isIndex)
  if (Array.isArray(value)) return propertiesOf(value)
  const entries = entriesOf(value)
  return [...entries, ...propertiesOf(value), ...madeBy(value)]
}

/** Returns the entries of a collection. */
function entriesOf(value: object): Member[] {
  if (types.isMap(value))
    return Array.from(Map.prototype.entries.call(value), ([key, member], index) =>
      pairOf(key, member, index),
    ).flat()
  if (types.isSet(value))
    return Array.from(Set.prototype.values.call(value), (member, index) => ({ key: index, value: member }))
  if (value instanceof Headers || value instanceof URLSearchParams || value instanceof FormData)
    return Array.from(value as Iterable<[string, unknown]>, ([key, member]) => ({ key, value: member }))
  if (value instanceof WeakRef) return [{ key: 'deref()', value: value.deref() }]
  return iterated(value)
}

/** Returns the values of an iterable object of the application, at most one more than may be searched. */
function iterated(value: object): Member[] {
  const members: Member[] = []
  if (typeof memberOf(value, Symbol.iterator) !== 'function' || isIterator(value)) return members
  tryOrUndefined(() => {
    for (const member of value as Iterable<unknown>) {
      members.push({ key: members.length, value: member, isMade: true })
      if (members.length > MAX_MADE) break
    }
  })
  return members
}

/** Returns the members of an entry of a map, whose key may be an object. */
function pairOf(key: unknown, value: unknown, index: number): Member[] {
  if ((typeof key !== 'object' && typeof key !== 'function') || key === null)
    return [{ key: String(key), value }]
  return [
    { key: `(key ${index + 1})`, value: key },
    { key: `(value ${index + 1})`, value },
  ]
}

/** Returns the own properties of an object, including those that are not enumerable and those whose key is a symbol. */
function propertiesOf(value: object, leavesOut: (key: string) => boolean = () => false): Member[] {
  const isArray = Array.isArray(value)
  const isFunction = typeof value === 'function'
  return Reflect.ownKeys(value).flatMap((key): Member[] => {
    if (typeof key === 'symbol') return [memberAt(value, key, String(key))]
    if (isArray && key === 'length') return []
    if (isFunction && ['name', 'length', 'prototype', 'caller', 'arguments'].includes(key)) return []
    if (leavesOut(key)) return []
    return [memberAt(value, key, isArray && isIndex(key) ? Number(key) : key)]
  })
}

function memberAt(value: object, property: string | symbol, key: string | number): Member {
  const isMade = tryOrUndefined(() => Reflect.getOwnPropertyDescriptor(value, property)?.get) !== undefined
  return { key, value: memberOf(value, property), isMade }
}

/** Returns the values that an object's class returns when the object is read, serialized as JSON, or printed. */
function madeBy(value: object): Member[] {
  const members = accessorsOf(value).map((property) => ({
    key: String(property),
    value: memberOf(value, property),
    isMade: true,
  }))
  const toJSON = memberOf(value, 'toJSON')
  if (typeof toJSON === 'function' && !(value instanceof URL) && !types.isDate(value))
    members.push({ key: 'toJSON()', value: tryOrUndefined(() => toJSON.call(value, '')), isMade: true })
  const print = memberOf(value, inspect.custom)
  if (typeof print === 'function' && !isBuiltIn(value))
    members.push({
      key: 'inspect()',
      value: tryOrUndefined(() => print.call(value, 2, {}, inspect)),
      isMade: true,
    })
  return members
}

/** Returns the accessors that an object inherits from classes of the application. */
function accessorsOf(value: object): PropertyKey[] {
  const found = new Set<PropertyKey>()
  let prototype: unknown = Object.getPrototypeOf(value)
  for (let depth = 0; depth < 32 && isOfApplication(prototype); depth++) {
    for (const property of Reflect.ownKeys(prototype)) {
      if (Reflect.getOwnPropertyDescriptor(prototype, property)?.get !== undefined) found.add(property)
    }
    prototype = Object.getPrototypeOf(prototype)
  }
  return [...found].filter((property) => property !== '__proto__' && !Object.hasOwn(value, property))
}

/** Returns `false` for the classes of the platform. Their members are handled above, and some accessors must not be read. */
function isOfApplication(prototype: unknown): prototype is object {
  if (typeof prototype !== 'object' || prototype === null) return false
  const maker = Object.getOwnPropertyDescriptor(prototype, 'constructor')?.value as unknown
  if (typeof maker !== 'function') return true
  const { name } = maker
  return (globalThis as Readonly<Record<string, unknown>>)[name] !== maker
}

function isBuiltIn(value: object): boolean {
  return !isOfApplication(Object.getPrototypeOf(value))
}

function isIndex(key: string): boolean {
  return /^\d+$/.test(key)
}

function placeOf(place: string, key: string | number): string {
  if (typeof key === 'number') return `${place}[${key}]`
  return place === '' ? key : `${place}.${key}`
}
