import { utf8Length } from '../../../runtime.ts'
import type { TelemetryEnvelope } from '../../envelope/envelope.ts'

/** The maximum bytes of a record in JSON, without the members of its event. A record in protobuf is smaller. */
const RECORD_BYTES = 400

/** The maximum bytes around a key and its value, and around a string, a list, or a map: `{"key":"…","value":…},`. */
const ENTRY_BYTES = 21
const TEXT_BYTES = 19
const LIST_BYTES = 30

/** The maximum bytes of any other value. A number that OTLP cannot represent is sent as a string. */
const VALUE_BYTES = 44

/** The characters that JSON escapes, and all characters except ASCII. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: the pattern matches control characters on purpose
const NOT_ONE_BYTE = /["\\\x00-\x1f\x80-\uffff]/

/** Returns the maximum bytes of the record of an event in a request. */
export function otlpWeight(envelope: TelemetryEnvelope): number {
  const { name, actor, error } = envelope
  // These are sent twice.
  const repeated = textBytes(name) + textBytes(actor?.id ?? '') + textBytes(error?.code ?? error?.name ?? '')
  return RECORD_BYTES + repeated + valueBytes(envelope)
}

function valueBytes(value: unknown): number {
  if (typeof value === 'string') return TEXT_BYTES + textBytes(value)
  if (typeof value === 'bigint') return VALUE_BYTES + String(value).length
  if (typeof value !== 'object' || value === null) return VALUE_BYTES
  let bytes = LIST_BYTES
  if (Array.isArray(value)) {
    for (const item of value) bytes += valueBytes(item)
  } else {
    for (const key of Object.keys(value))
      bytes += ENTRY_BYTES + textBytes(key) + valueBytes((value as Readonly<Record<string, unknown>>)[key])
  }
  return bytes
}

/** Returns the maximum bytes of a string. Protobuf needs no more than JSON. */
function textBytes(text: string): number {
  return NOT_ONE_BYTE.test(text) ? utf8Length(JSON.stringify(text)) : text.length
}
