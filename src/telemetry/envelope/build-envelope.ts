import { describeThrown, type ErrorTexts, linksOf } from '../../base/describe-error.ts'
import { describeKind, memberOf } from '../../base/options/describe-value.ts'
import { isRecord } from '../../base/options/value-kinds.ts'
import { KitTelemetryError } from '../errors.ts'
import type { TelemetryLevel } from '../levels.ts'
import type {
  TelemetryActor,
  TelemetryEmitInput,
  TelemetryEnvelope,
  TelemetryScope,
  TelemetrySource,
  TelemetryTrace,
} from './envelope.ts'
import { limitedEnvelope, MAX_UNMEASURED_BYTES } from './limited-envelope.ts'
import { overlay } from './redacted-json.ts'
import type { RedactedValues, Redactor } from './redactor.ts'
import { createSessionId } from './session-id.ts'
import { isoTime, readTime } from './time.ts'
import { EVENT_BYTES, TRACE_BYTES, textBytes, valueBytes } from './weight.ts'

/** The members that all envelopes of a manager have. */
export interface EnvelopeOrigin {
  readonly service: string
  readonly environment: string
  readonly version: string | undefined
}

/** The session in which an event is emitted. */
export interface EnvelopeContext {
  readonly sessionId: string
  /** Returns the redacted values that an event inherits from its session. */
  redacted(redactor: Redactor): RedactedValues
}

/** Receives the problem of a member of an input that is left out, or throws it. */
export type ReportMember = (problem: KitTelemetryError) => void

type Mutable<T> = { -readonly [Member in keyof T]: T[Member] }

/**
 * Builds the redacted, frozen envelope of an event. `redactor.bytes` is then its size in memory.
 * @param sessionId the session id, if it is already known.
 * @param attributes the attributes of the input, after a function was called.
 * @param common the redacted attributes of every event, whose bytes are `redactor.bytes`.
 * @param trace the active span.
 * @param report is called for each member of `input` that cannot be read, and is left out.
 * @throws {KitTelemetryError} `TELEMETRY_EMIT_FAILED` if the event is too large.
 */
export function buildEnvelope(
  origin: EnvelopeOrigin,
  redactor: Redactor,
  name: string,
  level: TelemetryLevel,
  input: TelemetryEmitInput,
  context: EnvelopeContext | undefined,
  sessionId: string | undefined,
  attributes: object | undefined,
  common: Readonly<Record<string, unknown>> | undefined,
  trace: TelemetryTrace | undefined,
  report: ReportMember,
): TelemetryEnvelope {
  const time = readOwnTime(input.time, report) ?? isoTime(Date.now())
  const id = sessionId ?? readSessionId(input, report) ?? context?.sessionId ?? createSessionId()
  const { service, environment, version } = origin
  const envelope: Mutable<TelemetryEnvelope> =
    version === undefined
      ? { name, time, level, service, environment, sessionId: id }
      : { name, time, level, service, environment, version, sessionId: id }

  let bytes = EVENT_BYTES + textBytes(id) + (common === undefined ? 0 : redactor.bytes)
  const inherited = context?.redacted(redactor)
  bytes += inherited?.bytes ?? 0
  const base = overlay(common, inherited?.attributes)
  const actor = copyActor(input.actor, report)
  if (actor !== undefined) {
    envelope.actor = redactor.actor(actor)
    bytes += redactor.bytes
  } else if (inherited?.actor !== undefined) envelope.actor = inherited.actor
  const scope = copyScope(input.scope, report)
  if (scope !== undefined) {
    envelope.scope = redactor.scope(scope)
    bytes += redactor.bytes
  } else if (inherited?.scope !== undefined) envelope.scope = inherited.scope
  if (attributes !== undefined) {
    envelope.attributes = redactor.map('attributes', attributes, base)
    bytes += redactor.bytes
  } else if (base !== undefined) envelope.attributes = base
  const error = input.error ?? undefined
  if (error !== undefined) {
    envelope.error = redactor.error(copyError(error))
    bytes += redactor.bytes
  }
  const source = copySource(input.source, report)
  if (source !== undefined) {
    envelope.source = source
    bytes += valueBytes(envelope.source)
  }
  if (trace !== undefined) {
    envelope.trace = trace
    bytes += TRACE_BYTES
  }
  Object.freeze(envelope)
  if (bytes <= MAX_UNMEASURED_BYTES) {
    redactor.bytes = bytes
    return envelope
  }
  const limited = limitedEnvelope(envelope)
  redactor.bytes = limited === envelope ? bytes : EVENT_BYTES + valueBytes(limited)
  return limited
}

/** Returns the session id of an input, if it has one that can be read. */
export function readSessionId({ sessionId }: TelemetryEmitInput, report: ReportMember): string | undefined {
  const id = readId('sessionId', sessionId, report)
  if (id !== '') return id
  report(malformed('sessionId', ID, id))
  return undefined
}

/** Returns the attributes of an input. Calls a function, whose errors are thrown. */
export function resolveAttributes(input: TelemetryEmitInput): unknown {
  const value: unknown = input.attributes ?? undefined
  const attributes: unknown = typeof value === 'function' ? (value() ?? undefined) : value
  if (attributes instanceof Promise) attributes.then(undefined, () => {})
  return attributes
}

/** Returns attributes that are an object. @throws {KitTelemetryError} `TELEMETRY_EMIT_FAILED` for any other value. */
export function checkAttributes(attributes: unknown): object | undefined {
  if (attributes === undefined) return undefined
  if (typeof attributes === 'object' && !Array.isArray(attributes) && !(attributes instanceof Promise))
    return attributes as object
  throw malformed('attributes', 'an object, or a function that returns one', attributes)
}

/** Returns the type of an actor or a scope, or `undefined` if there is none. */
export function readType(
  member: 'actor' | 'scope',
  value: unknown,
  report: ReportMember,
): string | undefined {
  if (value === undefined || value === null) return undefined
  const type = typeof value === 'object' ? memberOf(value, 'type') : undefined
  if (typeof type === 'string' && type !== '') return type
  report(malformed(member, 'an object with a type', value))
  return undefined
}

/** Copies an actor, except for its tags. Members that cannot be read are left out; without a type, the actor is. */
export function copyActor(value: unknown, report: ReportMember): TelemetryActor | undefined {
  const type = readType('actor', value, report)
  if (type === undefined) return undefined
  const actor: Mutable<TelemetryActor> = { type }
  const id = readId('actor.id', memberOf(value as object, 'id'), report)
  const tags = readTags('actor.tags', memberOf(value as object, 'tags'), report)
  if (id !== undefined) actor.id = id
  if (tags !== undefined) actor.tags = tags
  return actor
}

/** Copies a scope, except for its tags. Tags that cannot be read are left out; without a type or an id, the scope is. */
export function copyScope(value: unknown, report: ReportMember): TelemetryScope | undefined {
  const type = readType('scope', value, report)
  if (type === undefined) return undefined
  const given = memberOf(value as object, 'id')
  const id = readId('scope.id', given, report)
  if (given === undefined || given === null) report(malformed('scope.id', ID, given))
  if (id === undefined) return undefined
  const tags = readTags('scope.tags', memberOf(value as object, 'tags'), report)
  return tags === undefined ? { type, id } : { type, id, tags }
}

/** Describes an error. One that was described before keeps its causes. */
function copyError(value: unknown): ErrorTexts {
  if (typeof value === 'object' && value !== null && linksOf(value) !== undefined) return value as ErrorTexts
  return describeThrown(value, (text) => text, textForm)
}

function copySource(value: unknown, report: ReportMember): TelemetrySource | undefined {
  if (value === undefined || value === null) return undefined
  if (typeof value !== 'object' || Array.isArray(value)) {
    report(malformed('source', 'an object', value))
    return undefined
  }
  const source: Mutable<TelemetrySource> = {}
  for (const member of ['causer', 'file'] as const) {
    const text = memberOf(value, member) ?? undefined
    if (typeof text === 'string') source[member] = text
    else if (text !== undefined) report(malformed(`source.${member}`, 'a string', text))
  }
  const line = memberOf(value, 'line') ?? undefined
  // Numbers that JSON cannot represent become strings, as everywhere in an envelope.
  if (typeof line === 'number')
    source.line = Number.isFinite(line) ? line + 0 : (String(line) as unknown as number)
  else if (line !== undefined) report(malformed('source.line', 'a number', line))
  return Object.freeze(source)
}

function readOwnTime(value: unknown, report: ReportMember): string | undefined {
  if (value === undefined || value === null) return undefined
  const time = readTime(value)
  if (time === undefined)
    report(malformed('time', 'a Date, or an RFC 3339 date-time with a time zone', value))
  return time
}

const ID = 'a string, a number, or an object with a toString of its own'

/** Returns an identifier as a string. */
function readId(member: string, value: unknown, report: ReportMember): string | undefined {
  if (value === undefined || value === null || typeof value === 'string') return value ?? undefined
  if (typeof value === 'number' || typeof value === 'bigint') return String(value)
  const text = typeof value === 'object' && !Array.isArray(value) ? textForm(value) : undefined
  if (text === undefined) report(malformed(member, ID, value))
  return text
}

/** Returns the text of an object that has one of its own. */
function textForm(value: object): string | undefined {
  try {
    const text = String(value)
    return text === '' || text.startsWith('[object ') ? undefined : text
  } catch {
    return undefined
  }
}

function readTags(
  member: string,
  value: unknown,
  report: ReportMember,
): Readonly<Record<string, unknown>> | undefined {
  if (value === undefined || value === null) return undefined
  if (isRecord(value)) return value
  report(malformed(member, 'an object', value))
  return undefined
}

function malformed(member: string, expected: string, value: unknown): KitTelemetryError {
  return new KitTelemetryError(
    'TELEMETRY_EMIT_FAILED',
    `${member} must be ${expected}; received ${describeKind(value)}`,
    { details: { member } },
  )
}
