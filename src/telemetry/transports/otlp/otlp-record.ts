import type * as Api from '@opentelemetry/api'
import type { Resource } from '@opentelemetry/resources'
import type * as Sdk from '@opentelemetry/sdk-logs'
import { VERSION } from '../../../base/version.ts'
import type { TelemetryEnvelope } from '../../envelope/envelope.ts'
import type { TelemetryLevel } from '../../levels.ts'
import type { SdkLogRecord } from './otlp-export-slot.ts'

/** A value that an OpenTelemetry log record can contain. */
export type OtlpValue = string | number | boolean | null | OtlpValue[] | OtlpAttributes

export interface OtlpAttributes {
  [key: string]: OtlpValue
}

/** The argument of `emit` of an OpenTelemetry logger. */
export interface OtlpRecord {
  readonly eventName: string
  /** The name of the event, for backends that ignore `eventName`. */
  readonly body: string
  /**
   * The time of the event, in seconds and nanoseconds since 1970. If OTLP cannot represent it, the time of `emit`, which is
   * missing if it is now, because the SDK sets it.
   */
  readonly timestamp?: [number, number]
  /** The time of `emit`. Missing if it is now, because the SDK sets it. */
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

/** The time from which on nanoseconds since 1970 exceed 63 bits, so that a collector rejects them. */
const END_OF_TIME_MS = 2 ** 63 / 1e6

/**
 * Returns the record of an envelope, without attributes. It does not have a `context`, so that the SDK uses the active one.
 * @param emittedAtMs when the event was emitted, unless that is now.
 */
export function toOtlpRecord(envelope: TelemetryEnvelope, emittedAtMs?: number): OtlpRecord {
  const { context: _, ...record } = otlpRecordIn(undefined, envelope, emittedAtMs ?? 0)
  if (emittedAtMs !== undefined) return record
  const { timestamp, observedTimestamp, ...rest } = record
  return eventTimeMs(envelope) === undefined ? rest : { ...rest, timestamp }
}

/**
 * Returns the record of an envelope in a context, without attributes.
 * @param emittedAtMs when the event was emitted.
 */
function otlpRecordIn<Context>(
  context: Context,
  envelope: TelemetryEnvelope,
  emittedAtMs: number,
): Required<Omit<OtlpRecord, 'attributes'>> & { readonly context: Context } {
  const name = wellFormed(envelope.name)
  const timeMs = eventTimeMs(envelope)
  const observedTimestamp = highResolution(emittedAtMs)
  return {
    eventName: name,
    body: name,
    timestamp: timeMs === undefined ? observedTimestamp : highResolution(timeMs),
    observedTimestamp,
    severityNumber: SEVERITY[envelope.level],
    severityText: envelope.level,
    context,
  }
}

/** Returns the time of an event, in milliseconds since 1970, or `undefined` if OTLP cannot represent it. */
export function eventTimeMs({ time }: TelemetryEnvelope): number | undefined {
  const timeMs = Date.parse(time)
  return timeMs >= 0 && timeMs < END_OF_TIME_MS ? timeMs : undefined
}

/** Returns seconds and nanoseconds since 1970, at least 1 nanosecond, because 0 means that the time is unknown. */
function highResolution(ms: number): [number, number] {
  if (ms === 0) return [0, 1]
  const seconds = Math.floor(ms / 1000)
  return [seconds, (ms - seconds * 1000) * 1e6]
}

/**
 * Writes the attributes of an envelope to `target`, with nested values as maps and arrays. Attributes that are derived from
 * other members of the envelope override them, except for `error.type`. Attributes with an empty key are left out, because
 * OpenTelemetry does not allow them.
 * @returns `target`
 */
export function writeOtlpAttributes(envelope: TelemetryEnvelope, target: OtlpAttributes): OtlpAttributes {
  const { attributes, actor, scope, error, source } = envelope
  // A limit on the number of attributes drops the last ones. Assigning a key again does not move it.
  writeEssentials(envelope, target)
  if (attributes !== undefined) {
    writeMap(attributes, target)
    if (Object.hasOwn(target, '')) delete target['']
    writeEssentials(envelope, target)
  }
  if (actor?.tags !== undefined) target['kit.actor.tags'] = writeMap(actor.tags, {})
  if (scope !== undefined) {
    target['kit.scope.type'] = wellFormed(scope.type)
    target['kit.scope.id'] = wellFormed(scope.id)
    if (scope.tags !== undefined) target['kit.scope.tags'] = writeMap(scope.tags, {})
  }
  if (error !== undefined) {
    // Semantic conventions define values for it, such as `tool_error`.
    if (!Object.hasOwn(target, 'error.type')) target['error.type'] = wellFormed(error.code ?? error.name)
    if (error.attributes !== undefined) target['kit.error.attributes'] = writeMap(error.attributes, {})
  }
  if (source !== undefined) {
    if (source.file !== undefined) target['code.file.path'] = wellFormed(source.file)
    if (source.line !== undefined) target['code.line.number'] = sendableNumber(source.line)
    if (source.causer !== undefined) target['kit.source.causer'] = wellFormed(source.causer)
  }
  // The timestamp of the record is then the time of `emit`. The original time is kept as an attribute.
  if (eventTimeMs(envelope) === undefined) target['kit.time'] = wellFormed(envelope.time)
  return target
}

/** Writes the exception, the actor, and the session. */
function writeEssentials({ actor, error, sessionId }: TelemetryEnvelope, target: OtlpAttributes): void {
  if (error !== undefined) {
    target['exception.type'] = wellFormed(error.name)
    target['exception.message'] = wellFormed(error.message)
    if (error.stack !== undefined) target['exception.stacktrace'] = wellFormed(error.stack)
  }
  if (actor !== undefined) {
    target['kit.actor.type'] = wellFormed(actor.type)
    if (actor.id !== undefined) {
      target['kit.actor.id'] = wellFormed(actor.id)
      if (actor.type === 'user') target['user.id'] = wellFormed(actor.id)
    }
  }
  // Redaction may have removed it.
  if (sessionId !== undefined) target['session.id'] = wellFormed(sessionId)
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

/** Returns a value that both encodings and every collector accept, or `undefined` if it is left out. */
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
 * Returns a number that OTLP can represent. JSON cannot represent NaN and the infinities, and OTLP cannot represent integers
 * from 2^63 on. A collector rejects a whole batch because of one of them. Numbers that may have lost digits become strings.
 */
function sendableNumber(value: number): number | string {
  if (Number.isSafeInteger(value)) return value
  return Number.isInteger(value) || !Number.isFinite(value) ? String(value) : value
}

/** Replaces lone surrogates, which UTF-8 cannot represent. */
function wellFormed(text: string): string {
  // All supported versions of Node have this method, but the types of the compilation target do not.
  return (text as string & { toWellFormed(): string }).toWellFormed()
}

/** The name of the instrumentation scope. Its version is that of the package. */
export const SCOPE_NAME = 'mcp-gatekit'

/** An event that waits for its request. It takes less memory than a record of the SDK. */
export interface OtlpEvent {
  readonly envelope: TelemetryEnvelope
  /** When the event was emitted, in milliseconds since 1970. */
  readonly emittedAtMs: number
  /** The span that was active then. */
  readonly span: Api.SpanContext | undefined
}

/** Creates the records of the OpenTelemetry SDK for events, when they are sent. */
export class OtlpRecords {
  readonly #api: typeof Api
  readonly #logger: { emit(record: OtlpRecord & { readonly context: Api.Context }): void }
  #created: SdkLogRecord | undefined

  constructor(api: typeof Api, sdk: typeof Sdk, resource: Resource) {
    this.#api = api
    const processor: Sdk.LogRecordProcessor = {
      onEmit: (record) => {
        this.#created = record
      },
      forceFlush: () => Promise.resolve(),
      shutdown: () => Promise.resolve(),
    }
    const provider = new sdk.LoggerProvider({ resource, processors: [processor] })
    this.#logger = provider.getLogger(SCOPE_NAME, VERSION)
  }

  /** Returns the active span. */
  activeSpan(): Api.SpanContext | undefined {
    const { context, trace } = this.#api
    return trace.getSpanContext(context.active())
  }

  /** @throws {Error} if the SDK cannot create a record. */
  create({ envelope, emittedAtMs, span }: OtlpEvent): SdkLogRecord {
    const { ROOT_CONTEXT, trace } = this.#api
    const context = span === undefined ? ROOT_CONTEXT : trace.setSpanContext(ROOT_CONTEXT, span)
    this.#created = undefined
    this.#logger.emit(otlpRecordIn(context, envelope, emittedAtMs))
    const record = this.#created as SdkLogRecord | undefined
    if (record === undefined) throw new Error('The OpenTelemetry SDK did not create a record')
    this.#created = undefined
    // They are not passed to `emit`, which would copy them, and would drop those beyond 128 and maps with a key `constructor`.
    writeOtlpAttributes(envelope, record.attributes as OtlpAttributes)
    return record
  }
}
