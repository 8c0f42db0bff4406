import { utf8Length } from '../../../runtime.ts'
import type { OtlpAttributes, OtlpRecord, OtlpValue } from './otlp-record.ts'

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
  /** The bytes of known keys, including the syntax around them. */
  readonly keys: Map<string, number>
  readonly textBytes: (text: string) => number
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
  keys: new Map(),
  textBytes: (text) => (text.length > MAX_COUNTED ? longJsonBytes(text) : shortBytes(text, true)) + 2,
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
  keys: new Map(),
  textBytes: (text) => (text.length > MAX_COUNTED ? utf8Length(text) : shortBytes(text, false)),
}

/** The length up to which counting is faster than `utf8Length`. */
const MAX_COUNTED = 40

/** The maximum number of known keys, and their maximum length. */
const MAX_KEYS = 1_000
const MAX_KEY_LENGTH = 64

/** The characters that JSON escapes. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: the pattern matches control characters on purpose
const ESCAPED = /["\\\x00-\x1f]/

/** Returns the bytes of a log record in a request, or a few more. */
export type Weigh = (record: OtlpRecord, attributes: OtlpAttributes) => number

export function weighIn(encoding: 'json' | 'protobuf'): Weigh {
  const parts = encoding === 'json' ? JSON_ENCODING : PROTOBUF_ENCODING
  return ({ eventName }, attributes) =>
    parts.record + 2 * parts.textBytes(eventName) + weighMap(attributes, parts)
}

/** Returns the bytes of attributes in a request, or a few more. */
export function weighAttributes(attributes: OtlpAttributes, encoding: 'json' | 'protobuf'): number {
  return weighMap(attributes, encoding === 'json' ? JSON_ENCODING : PROTOBUF_ENCODING)
}

function weighMap(attributes: OtlpAttributes, parts: Encoding): number {
  let weight = 0
  for (const key of Object.keys(attributes)) weight += keyBytes(key, parts) + weigh(attributes[key], parts)
  return weight
}

/** Returns the bytes of a key. Keys repeat, so their size is kept. */
function keyBytes(key: string, parts: Encoding): number {
  const known = parts.keys.get(key)
  if (known !== undefined) return known
  const bytes = parts.entry + parts.textBytes(key)
  if (key.length > MAX_KEY_LENGTH) return bytes
  if (parts.keys.size === MAX_KEYS) parts.keys.clear()
  parts.keys.set(key, bytes)
  return bytes
}

function weigh(value: OtlpValue | undefined, parts: Encoding): number {
  switch (typeof value) {
    case 'string':
      return parts.text + parts.textBytes(value)
    case 'number':
      return parts.number(value)
    case 'boolean':
      return parts.boolean
    case 'object': {
      if (value === null) return parts.null
      if (!Array.isArray(value)) return parts.map + weighMap(value, parts)
      let weight = parts.list
      for (const item of value) weight += weigh(item, parts)
      return weight
    }
    default:
      return parts.null
  }
}

/** Returns the bytes of a well-formed string in UTF-8, optionally escaped as in JSON. */
function shortBytes(text: string, escaped: boolean): number {
  let bytes = text.length
  for (let index = 0; index < text.length; index++) {
    const unit = text.charCodeAt(index)
    if (unit >= 0x80) bytes += unit >= 0x800 && (unit < 0xd800 || unit > 0xdfff) ? 2 : 1
    else if (escaped && (unit < 0x20 || unit === 0x22 || unit === 0x5c)) bytes += unit < 0x20 ? 5 : 1
  }
  return bytes
}

function longJsonBytes(text: string): number {
  return ESCAPED.test(text) ? utf8Length(JSON.stringify(text)) - 2 : utf8Length(text)
}
