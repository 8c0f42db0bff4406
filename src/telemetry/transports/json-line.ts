import { copyWellFormed } from '../../base/runtime.ts'
import { AUDIT_MAC } from '../delivery/transport.ts'
import type { TelemetryEnvelope, TelemetryTrace } from '../envelope/envelope.ts'

/** The maximum number of keys whose JSON is kept. Clients may send any number of keys. */
const MAX_KEPT = 4096

/** The maximum total length of the JSON that is kept for keys, in UTF-16 units. */
const MAX_KEPT_LENGTH = 1_048_576

/** The maximum length of a key whose JSON is kept, in UTF-16 units. */
const MAX_KEPT_KEY = 256

/** The characters that could end a line, control a terminal, or reverse the reading direction. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: the pattern matches control characters on purpose
const UNSAFE = /[\u0000-\u001f\u007f-\u009f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff]/g

/** All characters except printable ASCII without `"` and `\`. */
const NEEDS_ESCAPING = /[^ !#-[\]-~]/

/** The length up to which a loop over the characters is faster than a regular expression. */
const SHORT = 12

/** The members of an envelope in the order in which a manager sets them. */
const LAYOUT =
  'name time level service environment version sessionId actor scope attributes error source trace'.split(' ')

/**
 * The JSON of a key, and the texts before its value: those of the first key of an object, of a key after a value, and of a key
 * after a string. The last one begins with the quote that ends that string. Concatenating few long strings is faster than many
 * short ones.
 */
interface KeyText {
  readonly json: string
  readonly beforeValue: readonly string[]
  readonly beforeString: readonly string[]
  readonly key: string
  /** The first key in the latest object that was the value of this key, and the key that followed this one last. */
  firstInside: KeyText | undefined
  following: KeyText | undefined
}

/** The session, actor, and scope of an event, and their JSON from the second such event on. */
interface SessionText {
  readonly sessionId: string
  readonly actor: object | undefined
  readonly scope: object | undefined
  readonly text: string | undefined
}

/**
 * Writes envelopes as lines of JSON. A line is the result of `JSON.stringify` with unsafe characters escaped. It is faster
 * than `JSON.stringify`, because envelopes consist only of JSON values, and because the JSON of members that many events
 * share is kept: service, session, and keys.
 */
export class JsonLineWriter {
  readonly #includeTimestamp: boolean
  readonly #hasTraceIds: boolean
  readonly #keys = new Map<string, KeyText>()
  #keysLength = 0
  /** Stands for the key of the attributes. */
  readonly #attributes: { firstInside: KeyText | undefined } = { firstInside: undefined }
  /** By actor or, without one, by scope. An entry lives as long as the session keeps that object. */
  readonly #sessions = new WeakMap<object, SessionText>()
  readonly #time = latest((time: unknown) => `,"time":${memberText(time)}`)
  readonly #trace = latest(traceText)
  #service: unknown
  #environment: unknown
  #version: unknown
  #origin = ''

  /** @param hasTraceIds writes the ids of `trace` at the top level, except for the lines of an audit log. */
  constructor(includeTimestamp: boolean, hasTraceIds = false) {
    this.#includeTimestamp = includeTimestamp
    this.#hasTraceIds = hasTraceIds
  }

  write(envelope: TelemetryEnvelope): string {
    try {
      if (isLaidOut(envelope)) return this.#line(envelope)
    } catch {
      // Envelopes that a manager did not create may contain any value.
    }
    const fields = this.#hasTraceIds ? withTraceIds(envelope) : envelope
    const { time: _, ...timeless } = fields
    return escapeUnsafe(JSON.stringify(this.#includeTimestamp ? fields : timeless))
  }

  #line(envelope: TelemetryEnvelope): string {
    const { attributes, error, source, trace } = envelope
    let line = `{"name":${this.#keptText(envelope.name)}`
    if (this.#includeTimestamp) line += this.#time(envelope.time)
    line += `,"level":${this.#keptText(envelope.level)}${this.#originOf(envelope)}${this.#session(envelope)}`
    if (attributes !== undefined) line += `,"attributes":${this.#value(attributes, this.#attributes)}`
    if (error !== undefined) line += `,"error":${this.#value(error)}`
    if (source !== undefined) line += `,"source":${this.#value(source)}`
    if (trace === undefined) return `${line}}`
    if (!this.#hasTraceIds || isAudited(envelope)) return `${line},"trace":${this.#value(trace)}}`
    return line + (Object.isFrozen(trace) ? this.#trace(trace) : traceText(trace))
  }

  /** Returns the JSON of a name or level, which many events share. @throws {TypeError} if it is not a string. */
  #keptText(member: string): string {
    return (this.#keys.get(member) ?? this.#key(member)).json
  }

  /** Returns the JSON of the origin, which the events of one manager share. */
  #originOf({ service, environment, version }: TelemetryEnvelope): string {
    if (service !== this.#service || environment !== this.#environment || version !== this.#version) {
      const end = version === undefined ? '' : `,"version":${memberText(version)}`
      this.#origin = flat(`,"service":${memberText(service)},"environment":${memberText(environment)}${end}`)
      this.#service = service
      this.#environment = environment
      this.#version = version
    }
    return this.#origin
  }

  #session({ sessionId, actor, scope }: TelemetryEnvelope): string {
    const about = actor ?? scope
    if (about === undefined) return `,"sessionId":${memberText(sessionId)}`
    const known = this.#sessions.get(about)
    const recurs =
      known !== undefined && known.sessionId === sessionId && known.actor === actor && known.scope === scope
    if (recurs && known.text !== undefined) return known.text
    let text = `,"sessionId":${memberText(sessionId)}`
    if (actor !== undefined) text += `,"actor":${this.#value(actor)}`
    if (scope !== undefined) text += `,"scope":${this.#value(scope)}`
    // Objects that are not frozen could change before the next event.
    const keeps = recurs && Object.isFrozen(actor) && Object.isFrozen(scope)
    this.#sessions.set(about, { sessionId, actor, scope, text: keeps ? flat(text) : undefined })
    return text
  }

  /**
   * @param parent the key of the value, if it is known.
   * @throws {TypeError} if `value` is not a JSON value.
   */
  #value(value: unknown, parent?: Pick<KeyText, 'firstInside'>): string {
    switch (typeof value) {
      case 'string':
        return stringText(value)
      case 'number':
        return Number.isFinite(value) ? `${value}` : 'null'
      case 'boolean':
        return value ? 'true' : 'false'
      case 'object':
        if (value === null) return 'null'
        return Array.isArray(value)
          ? this.#array(value)
          : this.#object(value as Record<string, unknown>, parent)
      default:
        throw new TypeError('not JSON')
    }
  }

  #object(object: Record<string, unknown>, parent: Pick<KeyText, 'firstInside'> | undefined): string {
    const keys = plainKeys(object)
    if (keys.length === 0) return '{}'
    let text = ''
    // The index of the text before the next value: 0 for the first one, 1 after a value, 2 after a string without its quote.
    let place = 0
    let previous: KeyText | undefined
    for (let index = 0; index < keys.length; index++) {
      const key = keys[index] as string
      const value = object[key]
      const expected = previous === undefined ? parent?.firstInside : previous.following
      const keyText =
        expected !== undefined && expected.key === key ? expected : this.#keyAfter(parent, previous, key)
      previous = keyText
      const isPlainText = typeof value === 'string' && isPlain(value)
      text += isPlainText
        ? keyText.beforeString[place] + value
        : keyText.beforeValue[place] + this.#value(value, keyText)
      place = isPlainText ? 2 : 1
    }
    return text + (place === 2 ? '"}' : '}')
  }

  #array(array: readonly unknown[]): string {
    if ('toJSON' in array) throw new TypeError('not JSON')
    let text = '['
    for (let index = 0; index < array.length; index++) {
      if (index > 0) text += ','
      text += this.#value(array[index])
    }
    return `${text}]`
  }

  /** Returns the text of a key, and expects it in the same place of the next object. */
  #keyAfter(
    parent: Pick<KeyText, 'firstInside'> | undefined,
    previous: KeyText | undefined,
    key: string,
  ): KeyText {
    const keyText = this.#keys.get(key) ?? this.#key(key)
    if (key.length > MAX_KEPT_KEY) return keyText
    if (previous !== undefined) previous.following = keyText
    else if (parent !== undefined) parent.firstInside = keyText
    return keyText
  }

  #key(key: string): KeyText {
    const json = memberText(key)
    const before = [`{${json}:`, `,${json}:`, `",${json}:`]
    const beforeValue = before.map(flat)
    const beforeString = before.map((text) => flat(`${text}"`))
    const keyText: KeyText = {
      json,
      beforeValue,
      beforeString,
      key,
      firstInside: undefined,
      following: undefined,
    }
    if (key.length > MAX_KEPT_KEY) return keyText
    // Seven texts contain the JSON of the key.
    this.#keysLength += 7 * json.length
    if (this.#keys.size >= MAX_KEPT || this.#keysLength > MAX_KEPT_LENGTH) {
      this.#keys.clear()
      // The removed texts refer to one another.
      this.#attributes.firstInside = undefined
      this.#keysLength = 0
    }
    this.#keys.set(key, keyText)
    return keyText
  }
}

/** Escapes the unsafe characters of a line, as JSON does. */
export function escapeUnsafe(line: string): string {
  return line.replace(UNSAFE, (unsafe) => {
    if (unsafe === '\n') return '\\n'
    if (unsafe === '\r') return '\\r'
    if (unsafe === '\t') return '\\t'
    return `\\u${unsafe.charCodeAt(0).toString(16).padStart(4, '0')}`
  })
}

/** Returns the JSON of a member that must be a string. @throws {TypeError} for any other value. */
function memberText(member: unknown): string {
  if (typeof member !== 'string') throw new TypeError('not an envelope')
  return stringText(member)
}

/** Returns a string as JSON. */
function stringText(text: string): string {
  return isPlain(text) ? `"${text}"` : escapeUnsafe(JSON.stringify(text))
}

/** Returns `true` if a string does not need escaping. This check is faster than escaping, and most strings pass it. */
function isPlain(text: string): boolean {
  if (text.length > SHORT) return !NEEDS_ESCAPING.test(text)
  for (let index = 0; index < text.length; index++) {
    const code = text.charCodeAt(index)
    if (code < 0x20 || code > 0x7e || code === 0x22 || code === 0x5c) return false
  }
  return true
}

/** Returns `true` if an object has the members of an envelope only, in their order. */
function isLaidOut(envelope: TelemetryEnvelope): boolean {
  const members = plainKeys(envelope)
  let known = 0
  for (const member of LAYOUT) if (known < members.length && members[known] === member) known++
  return known === members.length
}

/** Returns the keys of a plain object. @throws {TypeError} for any other object. */
function plainKeys(object: object): string[] {
  const prototype = Object.getPrototypeOf(object)
  if (prototype !== Object.prototype && prototype !== null) throw new TypeError('not JSON')
  return Object.keys(object)
}

/** Returns a function that keeps the JSON of the latest value, which consecutive events share. */
function latest<Value>(textOf: (value: Value) => string): (value: Value) => string {
  let last: Value | undefined
  let text = ''
  return (value) => {
    if (value !== last) {
      text = flat(textOf(value))
      last = value
    }
    return text
  }
}

/** Copies a string. A concatenated string keeps its parts, which every line that contains it would have to join again. */
function flat(text: string): string {
  return copyWellFormed(text)
}

/** Returns the members of an envelope with the ids of `trace` at the top level, except for those of an audit log. */
export function withTraceIds(envelope: TelemetryEnvelope): Omit<TelemetryEnvelope, 'trace'> {
  const { trace, ...rest } = envelope
  return trace === undefined || isAudited(envelope) ? envelope : { ...rest, ...traceIds(trace) }
}

/** The names and the flags are those of OpenTelemetry for lines of JSON. */
export function traceIds({ traceId, spanId, flags }: TelemetryTrace): Readonly<Record<string, string>> {
  return { trace_id: traceId, span_id: spanId, trace_flags: flags.toString(16).padStart(2, '0') }
}

/** Returns the JSON of the ids of a trace as further members. */
function traceText(trace: TelemetryTrace): string {
  return escapeUnsafe(`,${JSON.stringify(traceIds(trace)).slice(1)}`)
}

/** The MAC of a line of an audit log covers its members. */
function isAudited({ attributes }: TelemetryEnvelope): boolean {
  return attributes !== undefined && Object.hasOwn(attributes, AUDIT_MAC)
}
