import { utf8Length } from '../../../runtime.ts'
import type { TelemetryEnvelope } from '../../envelope/envelope.ts'
import { eventTimeMs, sendableNumber } from './otlp-record.ts'

/** The maximum bytes of a record in JSON without its strings and other attributes. A record in protobuf is smaller. */
const RECORD_BYTES = 430

/** The maximum bytes of the attributes of other members of an event, without their values. */
const ACTOR_BYTES = 190
const SCOPE_BYTES = 145
const ERROR_BYTES = 230
const SOURCE_BYTES = 60
const TIME_BYTES = 50

/** The maximum bytes around a key and its value, and around a string, a list, or a map: `{"key":"…","value":…},`. */
const ENTRY_BYTES = 21
const TEXT_BYTES = 19
const LIST_BYTES = 29
const MAP_BYTES = 30

/** The maximum bytes of any other value. A number that OTLP cannot represent is sent as a string. */
const VALUE_BYTES = 44

/** The length up to which a loop is faster than a regular expression. */
const MAX_COUNTED = 40

/** The maximum number of known keys, and their maximum length. */
const MAX_KEYS = 1_000
const MAX_KEY_LENGTH = 64

/** The characters that JSON escapes, and all characters except ASCII. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: the pattern matches control characters on purpose
const NOT_ONE_BYTE = /["\\\x00-\x1f\x80-\uffff]/

/** Weighs events: calculates the maximum bytes of their log records in a request. It does so for each event in `emit`. */
export class OtlpWeight {
  /** The plain keys of attributes, which repeat. */
  readonly #plainKeys = new Set<string>()
  #isPlain = true

  /**
   * `true` if the attributes of the event that was weighed last can be sent as they are. All strings are ASCII, which is
   * always well-formed, no key is empty or `__proto__`, and the numbers are those that OTLP can represent.
   */
  get isPlain(): boolean {
    return this.#isPlain
  }

  /** Returns the maximum bytes of the record of an event. */
  weigh(envelope: TelemetryEnvelope): number {
    const { name, time, sessionId, actor, scope, attributes, error, source } = envelope
    let bytes = RECORD_BYTES + 2 * this.#text(name) + this.#text(sessionId)
    if (actor !== undefined)
      bytes += ACTOR_BYTES + this.#text(actor.type) + 2 * this.#text(actor.id) + this.#value(actor.tags)
    if (scope !== undefined)
      bytes += SCOPE_BYTES + this.#text(scope.type) + this.#text(scope.id) + this.#value(scope.tags)
    if (error !== undefined) {
      bytes += ERROR_BYTES + 2 * this.#text(error.name) + this.#text(error.message)
      bytes += this.#text(error.stack) + this.#text(error.code)
      if (error.attributes !== undefined) bytes += MAP_BYTES + ENTRY_BYTES + this.#value(error.attributes)
    }
    if (eventTimeMs(envelope) === undefined) bytes += TIME_BYTES + this.#text(time)
    if (source !== undefined) bytes += SOURCE_BYTES + this.#value(source)
    this.#isPlain = true
    return attributes === undefined ? bytes : bytes + this.#attributes(attributes)
  }

  #attributes(attributes: Readonly<Record<string, unknown>>): number {
    let bytes = 0
    for (const key of Object.keys(attributes)) bytes += this.#key(key) + this.#value(attributes[key])
    return bytes
  }

  #key(key: string): number {
    if (this.#plainKeys.has(key)) return ENTRY_BYTES + key.length
    if (key === '' || key === '__proto__' || !isOneBytePerUnit(key)) {
      this.#isPlain = false
    } else if (key.length <= MAX_KEY_LENGTH) {
      if (this.#plainKeys.size === MAX_KEYS) this.#plainKeys.clear()
      this.#plainKeys.add(key)
    }
    return ENTRY_BYTES + this.#text(key)
  }

  #value(value: unknown): number {
    switch (typeof value) {
      case 'string':
        return TEXT_BYTES + this.#text(value)
      case 'number':
        if (sendableNumber(value) !== value) this.#isPlain = false
        return VALUE_BYTES
      case 'boolean':
        return VALUE_BYTES
      case 'object':
        if (value === null) return VALUE_BYTES
        if (!Array.isArray(value)) return MAP_BYTES + this.#attributes(value as Record<string, unknown>)
        return value.reduce<number>((bytes, item) => bytes + this.#value(item), LIST_BYTES)
      default:
        this.#isPlain = false
        return VALUE_BYTES + String(value).length
    }
  }

  /** Returns the maximum bytes of a string. Protobuf needs no more than JSON. */
  #text(text = ''): number {
    if (isOneBytePerUnit(text)) return text.length
    this.#isPlain = false
    return utf8Length(JSON.stringify(text))
  }
}

/** Returns `true` if a string is ASCII without characters that JSON escapes. */
function isOneBytePerUnit(text: string): boolean {
  if (text.length > MAX_COUNTED) return !NOT_ONE_BYTE.test(text)
  for (let index = 0; index < text.length; index++) {
    const unit = text.charCodeAt(index)
    if (unit < 0x20 || unit > 0x7f || unit === 0x22 || unit === 0x5c) return false
  }
  return true
}
