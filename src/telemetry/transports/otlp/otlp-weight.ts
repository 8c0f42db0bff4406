import { utf8Length } from '../../../runtime.ts'
import type { TelemetryEnvelope } from '../../envelope/envelope.ts'
import { eventTimeMs, sendableNumber, wellFormed } from './otlp-record.ts'

/** The maximum number of bytes of each part of a log record in a request. */
interface Encoding {
  /** A record without its strings and attributes. */
  readonly record: number
  /** The syntax around a key and its value. */
  readonly entry: number
  /** The syntax around a string, a list, or a map. */
  readonly text: number
  readonly list: number
  readonly map: number
  readonly null: number
  readonly boolean: number
  readonly number: (value: number) => number
  /** The quotes of a string, which JSON also escapes. */
  readonly quotes: 0 | 2
  /** The bytes of known keys that are plain, including the syntax around them. */
  readonly keys: Map<string, number>
}

/** The sizes in JSON: `{"key":…,"value":…},`, `{"stringValue":…}`, `{"arrayValue":{"values":[…]}},`, and so on. */
const JSON_ENCODING: Encoding = {
  record: 380,
  entry: 19,
  text: 17,
  list: 29,
  map: 30,
  null: 3,
  boolean: 20,
  number: (value) => (Number.isInteger(value) ? (value < 1e5 && value > -1e5 ? 20 : 31) : 42),
  quotes: 2,
  keys: new Map(),
}

/** The sizes in protobuf: a tag of one byte, and a length of up to four bytes. */
const PROTOBUF_ENCODING: Encoding = {
  record: 100,
  entry: 15,
  text: 5,
  list: 10,
  map: 10,
  null: 5,
  boolean: 7,
  number: () => 16,
  quotes: 0,
  keys: new Map(),
}

/** The length up to which a loop is faster than a regular expression. */
const MAX_COUNTED = 40

/** The maximum number of known keys, and their maximum length. */
const MAX_KEYS = 1_000
const MAX_KEY_LENGTH = 64

/** The characters that JSON escapes, and all characters except ASCII. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: the pattern matches control characters on purpose
const NOT_ONE_BYTE = /["\\\x00-\x1f\x80-\uffff]/

/**
 * Weighs events: calculates the bytes of a log record in a request, or a few more. It does so for each event in `emit`, and
 * remembers the keys and the latest session, which repeat.
 */
export class OtlpWeight {
  readonly #parts: Encoding
  /** `true` unless the current event contains a value that must be changed before it is sent. */
  #isPlain = true
  #latest:
    | { readonly [Member in 'sessionId' | 'actor' | 'scope']: TelemetryEnvelope[Member] | undefined }
    | undefined
  #latestBytes = 0

  constructor(encoding: 'json' | 'protobuf') {
    this.#parts = encoding === 'json' ? JSON_ENCODING : PROTOBUF_ENCODING
  }

  /**
   * `true` if the attributes of the event that was weighed last can be sent as they are. All strings are ASCII, which is
   * always well-formed, no key is empty or `__proto__`, and the numbers are those that OTLP can represent.
   */
  get isPlain(): boolean {
    return this.#isPlain
  }

  /** Returns the bytes of the record of an event. */
  weigh(envelope: TelemetryEnvelope): number {
    const { name, attributes, error, source } = envelope
    const parts = this.#parts
    let weight = parts.record + 2 * (this.#key(name) - parts.entry) + this.#session(envelope)
    if (error !== undefined) {
      weight += this.#member('exception.type', error.name) + this.#member('exception.message', error.message)
      weight += this.#member('exception.stacktrace', error.stack)
      weight += this.#member('error.type', error.code ?? error.name)
    }
    if (source !== undefined) {
      weight += this.#member('code.file.path', source.file) + this.#member('code.line.number', source.line)
      weight += this.#member('kit.source.causer', source.causer)
    }
    if (eventTimeMs(envelope) === undefined) weight += this.#member('kit.time', envelope.time)
    this.#isPlain = true
    if (attributes === undefined) return weight
    weight += this.attributes(attributes)
    // An attribute with an empty key is not sent.
    if (!this.#isPlain && Object.hasOwn(attributes, '')) weight -= this.#key('') + this.#value(attributes[''])
    return weight
  }

  /** Returns the bytes of attributes. */
  attributes(attributes: Readonly<Record<string, unknown>>): number {
    let weight = 0
    for (const key of Object.keys(attributes)) weight += this.#key(key) + this.#value(attributes[key])
    return weight
  }

  #session(envelope: TelemetryEnvelope): number {
    const { sessionId, actor, scope } = envelope
    const latest = this.#latest
    if (
      latest !== undefined &&
      latest.sessionId === sessionId &&
      latest.actor === actor &&
      latest.scope === scope
    )
      return this.#latestBytes
    let weight = this.#member('session.id', sessionId)
    weight += this.#member('kit.actor.type', actor?.type) + this.#member('kit.actor.tags', actor?.tags)
    weight += this.#member('kit.actor.id', actor?.id) + this.#member('user.id', actor?.id)
    weight += this.#member('kit.scope.type', scope?.type) + this.#member('kit.scope.tags', scope?.tags)
    weight += this.#member('kit.scope.id', scope?.id)
    // Objects that are not frozen could change.
    const keeps = isFrozen(actor) && isFrozen(scope)
    this.#latest = keeps ? { sessionId, actor, scope } : undefined
    this.#latestBytes = weight
    return weight
  }

  #member(key: string, value: unknown): number {
    return value === undefined ? 0 : this.#key(key) + this.#value(value)
  }

  /** Returns the bytes of a key, including the syntax around it. Keys repeat, so their size is kept. */
  #key(key: string): number {
    const known = this.#parts.keys.get(key)
    if (known !== undefined) return known
    const isPlain = this.#isPlain
    this.#isPlain = key !== '' && key !== '__proto__'
    const bytes = this.#parts.entry + this.#text(key)
    if (this.#isPlain && key.length <= MAX_KEY_LENGTH) {
      if (this.#parts.keys.size === MAX_KEYS) this.#parts.keys.clear()
      this.#parts.keys.set(key, bytes)
    }
    this.#isPlain &&= isPlain
    return bytes
  }

  #value(value: unknown): number {
    const parts = this.#parts
    switch (typeof value) {
      case 'string':
        return parts.text + this.#text(value)
      case 'number':
        return this.#number(value)
      case 'boolean':
        return parts.boolean
      case 'bigint':
        this.#isPlain = false
        return this.#value(String(value))
      case 'object': {
        if (value === null) return parts.null
        if (!Array.isArray(value))
          return parts.map + this.attributes(value as Readonly<Record<string, unknown>>)
        let weight = parts.list
        for (const item of value) weight += this.#value(item)
        return weight
      }
      default:
        this.#isPlain = false
        return parts.null
    }
  }

  #number(value: number): number {
    const sent = sendableNumber(value)
    if (sent === value) return this.#parts.number(value)
    this.#isPlain = false
    return this.#value(sent)
  }

  /** Returns the bytes of a string in UTF-8, escaped as in JSON if that is the encoding. */
  #text(text: string): number {
    if (isOneBytePerUnit(text)) return text.length + this.#parts.quotes
    const sent = wellFormed(text)
    const bytes = utf8Length(sent)
    if (bytes !== text.length) this.#isPlain = false
    return this.#parts.quotes === 0 ? bytes : utf8Length(JSON.stringify(sent))
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

function isFrozen(value: object | undefined): boolean {
  return value === undefined || Object.isFrozen(value)
}
