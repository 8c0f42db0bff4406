import { types } from '../../base/built-in-kinds.ts'
import { describeThrown, isError } from '../../base/describe-error.ts'
import { className, memberOf } from '../../base/options/describe-value.ts'
import { KEEP_EVERYTHING, type KeyNode, type KeyRules } from './redaction.ts'
import { dateText } from './time.ts'
import { CONTAINER_BYTES, ITEM_BYTES, MEMBER_BYTES, textBytes } from './weight.ts'

/** The maximum depth of a copied object or array. The copied object itself has the depth 0. */
const MAX_DEPTH = 8

/** The maximum number of values of an event. Otherwise, a few objects with shared references could become millions. */
const MAX_VALUES = 100_000

/** The name of a header. Those of HTTP/2 may begin with a colon. */
const HEADER_NAME = /^:?[!#$%&'*+.^_`|~\w-]+$/

const HAS_ENTRIES = /^\[object (?:Headers|URLSearchParams|FormData)\]$/

/** Stands for a value that JSON cannot represent, such as a function. */
const NOTHING: unique symbol = Symbol('nothing')

/** The objects that contain the object that is copied. */
interface Ancestors {
  readonly value: object
  readonly parent: Ancestors | undefined
}

/** The number of values that the current copy may still contain. Copying is synchronous, so one counter is enough. */
let remaining = 0

/** The bytes of the current copy in memory, as if it had no values except for its texts; and the bytes of the latest copy. */
let bytes = 0
let latestBytes = 0

/** `true` if plain objects inherit keys, because the application has added some to `Object.prototype`. */
let inheritsKeys = false

/**
 * Copies an object as frozen, redacted JSON in one pass. The copy shares no objects with `source`. If reading a value throws,
 * only its key is left out.
 * @param source an object. If it is not a plain object, its `toJSON` or its entries are used.
 * @param base the values that the copy starts with. They must be copied, redacted, and frozen.
 * @returns `undefined` if `source` is not an object of values by key, such as an array or a `Date`.
 * @throws errors while the keys of `source` itself are read.
 */
export function toRedactedJson(
  source: object,
  rules: KeyRules,
  base?: Readonly<Record<string, unknown>>,
): Readonly<Record<string, unknown>> | undefined {
  const outer = remaining
  const outerBytes = bytes
  remaining = MAX_VALUES
  bytes = CONTAINER_BYTES
  inheritsKeys = hasKeys(Object.prototype)
  try {
    const form = jsonForm(source, '')
    if (typeof form !== 'object' || form === null || Array.isArray(form)) return undefined
    const into: Record<string, unknown> = {}
    if (base !== undefined) copyMembers(base, into)
    fill(into, form as Record<string, unknown>, rules, rules.root, 0, { value: source, parent: undefined })
    return Object.freeze(into)
  } finally {
    latestBytes = bytes + MEMBER_BYTES * (MAX_VALUES - remaining)
    remaining = outer
    bytes = outerBytes
  }
}

/** Returns the bytes of the latest result of `toRedactedJson` in memory, without those of `base`. */
export function latestCopyBytes(): number {
  return latestBytes
}

function fill(
  into: Record<string, unknown>,
  source: Record<string, unknown>,
  rules: KeyRules,
  node: KeyNode,
  depth: number,
  ancestors: Ancestors,
): void {
  let previous: KeyNode | undefined
  let begun = 0
  if (hasOwnKeysOnly(source)) {
    try {
      // A fifth faster than `Object.keys`, if the value is read within the loop.
      for (const key in source) {
        begun++
        previous = rules.child(node, previous, key)
        if (previous.action === 'deny') continue
        if (!copiesInto(into, key, source[key], rules, previous, depth, ancestors)) return
      }
      return
    } catch {
      // One `try` for each key would be slower. The keys after the one that failed are copied below.
    }
  }
  for (const key of Object.keys(source).slice(begun)) {
    try {
      previous = rules.child(node, previous, key)
      if (previous.action === 'deny') continue
      if (!copiesInto(into, key, source[key], rules, previous, depth, ancestors)) return
    } catch {
      // The key is left out.
    }
  }
}

/** Returns `true` if `for` … `in` finds the same keys as `Object.keys`. */
function hasOwnKeysOnly(source: object): boolean {
  const prototype = Object.getPrototypeOf(source)
  return prototype === null || (prototype === Object.prototype && !inheritsKeys)
}

/** Returns `true` if an object has keys of its own. It allocates nothing. */
function hasKeys(object: object): boolean {
  for (const key in object) if (Object.hasOwn(object, key)) return true
  return false
}

/** Copies a member. @returns `false` if no further values may be copied. */
function copiesInto(
  into: Record<string, unknown>,
  key: string,
  value: unknown,
  rules: KeyRules,
  node: KeyNode,
  depth: number,
  ancestors: Ancestors,
): boolean {
  const copied =
    --remaining < 0 ? rules.cut('[Truncated]') : copyValue(value, key, rules, node, depth + 1, ancestors)
  bytes += textBytes(key)
  if (copied !== NOTHING) setOwn(into, key, copied)
  return remaining >= 0
}

function copyArray(
  source: readonly unknown[],
  rules: KeyRules,
  node: KeyNode,
  depth: number,
  ancestors: Ancestors,
): readonly unknown[] {
  const into: unknown[] = []
  const hasNames = rules.hasKeys && isNameList(source)
  for (let index = 0; index < source.length; index++) {
    if (--remaining < 0) {
      into.push(rules.cut('[Truncated]'))
      break
    }
    let copied: unknown
    try {
      const own = hasNames && index % 2 === 1 ? rules.resolve(node, String(source[index - 1])) : node
      copied = copyValue(source[index], String(index), rules, own, depth + 1, ancestors)
    } catch {
      copied = null
    }
    into.push(copied === NOTHING ? null : copied)
  }
  bytes += CONTAINER_BYTES - (MEMBER_BYTES - ITEM_BYTES) * into.length
  return Object.freeze(into)
}

/** Returns `true` for a pair, and for a list in which every other item reads like the name of a header, as in `rawHeaders`. */
function isNameList(list: readonly unknown[]): boolean {
  const { length } = list
  if (length === 0 || length % 2 === 1) return false
  for (let index = 0; index < length && index < remaining; index += 2) {
    const name = list[index]
    if (typeof name !== 'string' || !(length === 2 || HEADER_NAME.test(name))) return false
  }
  return true
}

/** Returns the node of an object whose `name` or `key` is the name of its `value`: it decides about the value. */
function nodeOf(form: Readonly<Record<string, unknown>>, rules: KeyRules, node: KeyNode): KeyNode {
  if (!rules.hasKeys || !Object.hasOwn(form, 'value')) return node
  const names = [memberOf(form, 'name'), memberOf(form, 'key')].filter((name) => typeof name === 'string')
  const nodes = ['value', ...names].map((name) => rules.resolve(node, name))
  const value = nodes.find(({ action }) => action === 'deny') ?? nodes.find(({ action }) => action === 'hash')
  return value === undefined ? node : { ...node, children: new Map([['value', value]]), first: undefined }
}

function copyText(value: string, rules: KeyRules): string {
  const text = rules.string(value)
  bytes += textBytes(text)
  return text
}

function copyValue(
  value: unknown,
  key: string,
  rules: KeyRules,
  node: KeyNode,
  depth: number,
  ancestors: Ancestors | undefined,
): unknown {
  if (node.action !== 'keep')
    return node.action === 'hash' ? hashed(value, key, rules, depth, ancestors) : NOTHING
  switch (typeof value) {
    case 'string':
      return copyText(value, rules)
    case 'number':
      // Adding zero changes -0, which JSON cannot represent, to 0.
      return Number.isFinite(value) ? value + 0 : rules.cut(String(value))
    case 'boolean':
      return value
    case 'bigint':
      return copyText(String(value), rules)
    case 'object':
      return value === null ? null : copyReference(value, key, rules, node, depth, ancestors)
    default:
      return NOTHING
  }
}

function copyReference(
  value: object,
  key: string,
  rules: KeyRules,
  node: KeyNode,
  depth: number,
  parents: Ancestors | undefined,
): unknown {
  for (let at = parents; at !== undefined; at = at.parent) {
    if (at.value === value) return rules.cut('[Circular]')
  }
  const form = jsonForm(value, key)
  if (typeof form !== 'object' || form === null) return copyValue(form, key, rules, node, depth, parents)
  let ancestors: Ancestors = { value, parent: parents }
  if (form !== value) {
    for (let at = parents; at !== undefined; at = at.parent) {
      if (at.value === form) return rules.cut('[Circular]')
    }
    ancestors = { value: form, parent: ancestors }
  }
  if (depth > MAX_DEPTH) return rules.cut('[Truncated]')
  if (Array.isArray(form)) return copyArray(form, rules, node, depth, ancestors)
  const name = hasKeys(form) ? undefined : className(form)
  if (name !== undefined && name !== 'Object') return copyText(`[${name}]`, rules)
  const into: Record<string, unknown> = {}
  bytes += CONTAINER_BYTES
  const record = form as Record<string, unknown>
  fill(into, record, rules, nodeOf(record, rules, node), depth, ancestors)
  return Object.freeze(into)
}

/** Returns the hash of the JSON form of a value that is not redacted or cut. */
function hashed(
  value: unknown,
  key: string,
  rules: KeyRules,
  depth: number,
  ancestors: Ancestors | undefined,
): unknown {
  if (typeof value === 'string') return rules.hash(value)
  const form = copyValue(value, key, KEEP_EVERYTHING, KEEP_EVERYTHING.root, depth, ancestors)
  if (form === NOTHING || form === null) return form
  return rules.hash(typeof form === 'object' ? JSON.stringify(form) : String(form))
}

/** Returns the value that JSON uses for an object: the object itself, a string, an array, or a plain object. */
function jsonForm(value: object, key: string): unknown {
  const prototype = Object.getPrototypeOf(value)
  const isPlain = prototype === Object.prototype || prototype === null || Array.isArray(value)
  const form = isPlain ? value : builtInForm(value)
  if (form !== value) return form
  const { toJSON } = value as { toJSON?: (key: string) => unknown }
  return typeof toJSON === 'function' ? ownForm(toJSON, value, key) : value
}

/** Returns the result of `toJSON`. The rejection of a promise is handled, although the promise is not sent. */
function ownForm(toJSON: (key: string) => unknown, value: object, key: string): unknown {
  const form: unknown = toJSON.call(value, key)
  if (types.isPromise(form)) Promise.prototype.then.call(form, undefined, () => {})
  return builtInForm(form)
}

function builtInForm(value: unknown): unknown {
  if (typeof value !== 'object' || value === null) return value
  if (types.isDate(value)) return dateText(value)
  if (types.isMap(value)) return mapEntries(value)
  if (types.isSet(value)) return take(Set.prototype.values.call(value))
  if (types.isTypedArray(value))
    return Array.from(value.subarray(0, Math.max(0, remaining) + 1) as Uint8Array)
  if (isError(value)) return describeThrown(value)
  if (types.isBoxedPrimitive(value)) return unboxed(value)
  if (types.isRegExp(value)) return String(value)
  return Symbol.iterator in value && HAS_ENTRIES.test(Object.prototype.toString.call(value))
    ? listEntries(value as Iterable<readonly [string, unknown]>)
    : value
}

/** Returns the values of headers or of a query by name. A name that is repeated has an array of values. */
function listEntries(list: Iterable<readonly [string, unknown]>): Record<string, unknown> {
  const entries: Record<string, unknown[]> = Object.create(null)
  for (const [name, value] of take(list) as (readonly [string, unknown])[]) {
    entries[name] ??= []
    entries[name].push(value)
  }
  return Object.fromEntries(
    Object.entries(entries).map(([name, values]) => [name, values.length === 1 ? values[0] : values]),
  )
}

/** Leaves out entries whose key is a symbol or an object, because different ones may have the same string form. */
function mapEntries(map: ReadonlyMap<unknown, unknown>): Record<string, unknown> {
  const entries: Record<string, unknown> = {}
  for (const [key, value] of take(Map.prototype.entries.call(map)) as [unknown, unknown][]) {
    if (key === null || !['symbol', 'object', 'function'].includes(typeof key))
      setOwn(entries, String(key), value)
  }
  return entries
}

/** Returns one item more than may still be copied, so that the copy shows where it was cut. */
function take(items: Iterable<unknown>): unknown[] {
  const taken: unknown[] = []
  for (const item of items) {
    taken.push(item)
    if (taken.length > remaining) break
  }
  return taken
}

function unboxed(value: object): unknown {
  if (types.isStringObject(value)) return String.prototype.valueOf.call(value)
  if (types.isNumberObject(value)) return Number.prototype.valueOf.call(value)
  if (types.isBooleanObject(value)) return Boolean.prototype.valueOf.call(value)
  return types.isBigIntObject(value) ? BigInt.prototype.valueOf.call(value) : undefined
}

/** Sets an own property, `__proto__` included. */
export function setOwn(target: Record<string, unknown>, key: string, value: unknown): void {
  if (key === '__proto__') {
    Object.defineProperty(target, key, { value, enumerable: true, configurable: true, writable: true })
  } else {
    target[key] = value
  }
}

type Values = Readonly<Record<string, unknown>>

/** Merges values over others into a frozen object. */
export function overlay(below: Values | undefined, above: Values | undefined): Values | undefined {
  if (below === undefined || above === undefined) return above ?? below
  const merged: Record<string, unknown> = {}
  copyMembers(below, merged)
  copyMembers(above, merged)
  return Object.freeze(merged)
}

/** A spread of a frozen object, and a second spread, are several times slower than this loop. */
export function copyMembers(from: object, into: Record<string, unknown>): void {
  for (const key of Object.keys(from)) setOwn(into, key, (from as Values)[key])
}
