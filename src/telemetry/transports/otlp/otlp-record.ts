import type { TelemetryEnvelope } from '../../envelope/envelope.ts'
import type { TelemetryLevel } from '../../levels.ts'

/** A value an OpenTelemetry log record can carry. */
export type OtlpValue = string | number | boolean | null | OtlpValue[] | OtlpAttributes

export interface OtlpAttributes {
  [key: string]: OtlpValue
}

/** What is given to `emit` of an OpenTelemetry logger. */
export interface OtlpRecord {
  readonly eventName: string
  /** The event's name once more, for backends that ignore `eventName`. */
  readonly body: string
  /**
   * Seconds and nanoseconds since 1970. When the envelope's time does not fit, the moment of emit instead, or absent when
   * that is now, which the SDK fills in.
   */
  readonly timestamp?: [number, number]
  /** When the event was emitted; absent when that is now, which the SDK fills in. */
  readonly observedTimestamp?: [number, number]
  readonly severityNumber: number
  readonly severityText: string
  readonly attributes?: OtlpAttributes
}

/** The OpenTelemetry severity number of each level. */
const SEVERITY: Readonly<Record<TelemetryLevel, number>> = {
  debug: 5,
  info: 9,
  warn: 13,
  error: 17,
  fatal: 21,
}

/** From here on, nanoseconds since 1970 no longer fit into 63 bits, and a collector refuses them. */
const END_OF_TIME_MS = 2 ** 63 / 1e6

/**
 * The record of an envelope, without attributes. The `context` member stays out, so that the SDK
 * takes the active one.
 * @param emittedAtMs when the event was emitted, unless that is now.
 */
export function toOtlpRecord(envelope: TelemetryEnvelope, emittedAtMs?: number): OtlpRecord {
  const name = wellFormed(envelope.name)
  const severityNumber = SEVERITY[envelope.level]
  const severityText = envelope.level
  const observedTimestamp = emittedAtMs === undefined ? undefined : highResolution(emittedAtMs)
  const timeMs = Date.parse(envelope.time)
  const fits = timeMs >= 0 && timeMs < END_OF_TIME_MS
  const timestamp = fits ? highResolution(timeMs) : observedTimestamp
  return {
    eventName: name,
    body: name,
    ...(timestamp && { timestamp }),
    ...(observedTimestamp && { observedTimestamp }),
    severityNumber,
    severityText,
  }
}

/** Seconds and nanoseconds since 1970, at least 1 nanosecond, since 0 means that the time is unknown. */
function highResolution(ms: number): [number, number] {
  if (ms === 0) return [0, 1]
  const seconds = Math.floor(ms / 1000)
  return [seconds, (ms - seconds * 1000) * 1e6]
}

/**
 * Writes the attributes of an envelope into `target`: its own under their own keys, nested values
 * as maps and arrays, then those derived from its other members, which win, except over `error.type`.
 * An attribute whose key is empty is left out, as OpenTelemetry forbids it.
 * @param record what `toOtlpRecord` made of the envelope
 * @returns `target`
 */
export function writeOtlpAttributes(
  envelope: TelemetryEnvelope,
  record: OtlpRecord,
  target: OtlpAttributes,
): OtlpAttributes {
  const { actor, scope, error, source } = envelope
  if (envelope.attributes !== undefined) {
    writeMap(envelope.attributes, target)
    if (Object.hasOwn(target, '')) delete target['']
  }
  target['session.id'] = wellFormed(envelope.sessionId)
  if (actor !== undefined) {
    target['kit.actor.type'] = wellFormed(actor.type)
    if (actor.id !== undefined) {
      target['kit.actor.id'] = wellFormed(actor.id)
      if (actor.type === 'user') target['user.id'] = wellFormed(actor.id)
    }
    if (actor.tags !== undefined) target['kit.actor.tags'] = writeMap(actor.tags, {})
  }
  if (scope !== undefined) {
    target['kit.scope.type'] = wellFormed(scope.type)
    target['kit.scope.id'] = wellFormed(scope.id)
    if (scope.tags !== undefined) target['kit.scope.tags'] = writeMap(scope.tags, {})
  }
  if (error !== undefined) {
    target['exception.type'] = wellFormed(error.name)
    target['exception.message'] = wellFormed(error.message)
    if (error.stack !== undefined) target['exception.stacktrace'] = wellFormed(error.stack)
    // Conventions give it values of their own, such as `tool_error`.
    if (!Object.hasOwn(target, 'error.type')) target['error.type'] = wellFormed(error.code ?? error.name)
  }
  if (source !== undefined) {
    if (source.file !== undefined) target['code.file.path'] = wellFormed(source.file)
    if (source.line !== undefined) target['code.line.number'] = sendableNumber(source.line)
    if (source.causer !== undefined) target['kit.source.causer'] = wellFormed(source.causer)
  }
  // The record's timestamp is the moment of emit then. What the application said is not lost.
  if (record.timestamp === record.observedTimestamp || record.timestamp === undefined)
    target['kit.time'] = wellFormed(envelope.time)
  return target
}

function writeMap(from: Readonly<Record<string, unknown>>, target: OtlpAttributes): OtlpAttributes {
  for (const key of Object.keys(from)) {
    const value = toValue(from[key])
    if (value !== undefined) writeKey(target, wellFormed(key), value)
  }
  return target
}

function writeKey(target: OtlpAttributes, key: string, value: OtlpValue): void {
  if (key === '__proto__') {
    Object.defineProperty(target, key, { value, enumerable: true, configurable: true, writable: true })
  } else {
    target[key] = value
  }
}

/** `value` as both encodings and any collector take it; `undefined` for what is left out. */
function toValue(value: unknown): OtlpValue | undefined {
  switch (typeof value) {
    case 'string':
      return wellFormed(value)
    case 'number':
      return sendableNumber(value)
    case 'boolean':
      return value
    case 'bigint':
      return String(value)
    case 'object':
      if (value === null) return null
      if (Array.isArray(value)) return value.map((item) => toValue(item) ?? null)
      return writeMap(value as Readonly<Record<string, unknown>>, {})
    default:
      return undefined
  }
}

/**
 * JSON has no word for NaN and the infinities, and OTLP no room for integers of 2^63 and more:
 * a collector refuses a whole batch for one of them. What may have lost digits travels as text.
 */
function sendableNumber(value: number): number | string {
  if (Number.isSafeInteger(value)) return value
  return Number.isInteger(value) || !Number.isFinite(value) ? String(value) : value
}

/** Replaces lone surrogates, which UTF-8 cannot carry. */
function wellFormed(text: string): string {
  // In every Node this package runs on, but not yet in the library typings of its target.
  return (text as string & { toWellFormed(): string }).toWellFormed()
}
