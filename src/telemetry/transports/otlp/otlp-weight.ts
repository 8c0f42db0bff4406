import { utf8Length } from '../../../base/runtime.ts'
import type { TelemetryEnvelope } from '../../envelope/envelope.ts'

/** The maximum bytes of a record in JSON, without the members of its event. A record in protobuf is smaller. */
const RECORD_BYTES = 700

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
  const { name, time, sessionId, actor, scope, attributes, error, source } = envelope
  // The name, the id of a user, and the type of an error are sent twice.
  let bytes = RECORD_BYTES + 2 * textBytes(name) + textBytes(time) + textBytes(sessionId)
  if (actor !== undefined) bytes += valueBytes(actor) + textBytes(actor.id)
  if (scope !== undefined) bytes += valueBytes(scope)
  if (attributes !== undefined) bytes += valueBytes(attributes)
  if (error !== undefined) bytes += valueBytes(error) + textBytes(error.code ?? error.name)
  return source === undefined ? bytes : bytes + valueBytes(source)
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
function textBytes(text: string | undefined): number {
  if (text === undefined) return 0
  return NOT_ONE_BYTE.test(text) ? utf8Length(JSON.stringify(text)) : text.length
}
