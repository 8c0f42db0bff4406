import { cutText } from '../../base/cut-text.ts'
import { utf8Length } from '../../base/runtime.ts'
import { tryOrUndefined } from '../../base/try-or-undefined.ts'
import { KitTelemetryError } from '../errors.ts'
import type { TelemetryEnvelope } from './envelope.ts'

/** The maximum size of an event as JSON, in bytes. */
const MAX_JSON_BYTES = 2 ** 20

/**
 * The weight up to which the JSON of an event cannot be too large. A byte in memory becomes at most six bytes of JSON: a
 * control character becomes `\u0000`.
 */
export const MAX_UNMEASURED_BYTES: number = MAX_JSON_BYTES / 6

/** The attribute that contains the names of the parts that were removed, and the bytes that are reserved for it. */
const TRUNCATED = 'kit.truncated'
const TRUNCATED_BYTES = 8_192

/** The maximum number of these names, and their maximum length. */
const MAX_NAMES = 10
const MAX_NAME_LENGTH = 100

/** The members of an envelope that have parts that can be removed: all attributes, and the tags or the stack of the others. */
const OWNERS = ['attributes', 'actor', 'scope', 'error'] as const
const REMOVABLE = ['tags', 'stack', 'attributes']

/** A part that can be removed. */
interface Part {
  readonly path: string
  readonly name: string
  readonly bytes: number
}

/**
 * Returns an envelope whose JSON has at most 1 MiB. If it has more, the largest parts are removed: attributes, the tags of the
 * actor or the scope, or the stack of the error. The attribute `kit.truncated` then contains their names.
 * @throws {KitTelemetryError} `TELEMETRY_EMIT_FAILED` if the envelope is too large even without these parts.
 */
export function limitedEnvelope(envelope: TelemetryEnvelope): TelemetryEnvelope {
  if (jsonBytes(envelope) <= MAX_JSON_BYTES) return envelope
  const parts = partsOf(envelope)
  let left = MAX_JSON_BYTES - TRUNCATED_BYTES - jsonBytes(without(envelope, parts))
  if (left < 0)
    throw new KitTelemetryError(
      'TELEMETRY_EMIT_FAILED',
      'the event is larger than 1 MiB without its attributes, tags, and stack',
    )
  const removed = parts.slice(
    parts.findIndex(({ bytes }) => {
      left -= bytes
      return left < 0
    }),
  )
  const limited = without(envelope, removed)
  const attributes = { ...limited.attributes, [TRUNCATED]: namesOf(removed.reverse()) }
  return Object.freeze({ ...limited, attributes: Object.freeze(attributes) })
}

/** Returns the parts of an envelope, the smallest first. */
function partsOf(envelope: TelemetryEnvelope): Part[] {
  const parts: Part[] = []
  for (const owner of OWNERS) {
    const isAttribute = owner === 'attributes'
    for (const [key, value] of Object.entries(envelope[owner] ?? {})) {
      if (!isAttribute && !REMOVABLE.includes(key)) continue
      const path = `${owner}.${key}`
      parts.push({ path, name: isAttribute ? key : path, bytes: memberBytes(key, value) })
    }
  }
  return parts.sort((one, other) => one.bytes - other.bytes)
}

function without(envelope: TelemetryEnvelope, parts: readonly Part[]): TelemetryEnvelope {
  const removed = new Set(parts.map(({ path }) => path))
  const copy: Record<string, unknown> = { ...envelope }
  for (const owner of OWNERS) {
    const value = envelope[owner]
    if (value === undefined) continue
    const kept = Object.entries(value).filter(([key]) => !removed.has(`${owner}.${key}`))
    if (kept.length < Object.keys(value).length) copy[owner] = Object.freeze(Object.fromEntries(kept))
  }
  return copy as unknown as TelemetryEnvelope
}

function namesOf(parts: readonly Part[]): readonly string[] {
  const names = parts.slice(0, MAX_NAMES).map(({ name }) => cutText(name, MAX_NAME_LENGTH, '…'))
  if (parts.length > MAX_NAMES) names.push(`… and ${parts.length - MAX_NAMES} more`)
  return Object.freeze(names)
}

/** Returns the bytes of a JSON value as JSON in UTF-8, or infinity if that would be too long for a string. */
function jsonBytes(value: unknown): number {
  return tryOrUndefined(() => utf8Length(JSON.stringify(value))) ?? Number.POSITIVE_INFINITY
}

/** Returns the bytes of a member of an object as JSON, including a comma. */
function memberBytes(key: string, value: unknown): number {
  return jsonBytes(key) + 1 + jsonBytes(value) + 1
}
