import { describeError, isError } from '../../describe-error.ts'
import { describeKind, memberOf, quotedName } from '../../options/describe-value.ts'
import { isRecord } from '../../options/value-kinds.ts'
import { KitTelemetryError } from '../errors.ts'
import type { TelemetryLevel } from '../levels.ts'
import { errorWithHelp } from '../options.ts'
import type {
  TelemetryActor,
  TelemetryEmitInput,
  TelemetryEnvelope,
  TelemetryErrorInfo,
  TelemetryScope,
  TelemetrySource,
} from './envelope.ts'
import { limitedEnvelope, MAX_UNMEASURED_BYTES } from './limited-envelope.ts'
import type { RedactedValues, Redactor } from './redactor.ts'
import { createSessionId } from './session-id.ts'
import { isoTime, readTime } from './time.ts'
import { EVENT_BYTES, textBytes, valueBytes } from './weight.ts'

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

const TYPED = 'an object with a type'
const ERROR = 'an Error, or an object with name and message'

type Mutable<T> = { -readonly [Member in keyof T]: T[Member] }

/**
 * Builds the redacted, frozen envelope of an event. `redactor.bytes` is then its size in memory.
 * @param sessionId the session id, if it is already known.
 * @param attributes the attributes of the input, after a function was called.
 * @param warn is called if `input.time` is invalid.
 * @throws {KitTelemetryError} `TELEMETRY_EMIT_FAILED` if a member of `input` is malformed or too large.
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
  warn: (error: KitTelemetryError) => void,
): TelemetryEnvelope {
  const now = isoTime(Date.now())
  const time =
    input.time === undefined || input.time === null
      ? now
      : (readTime(input.time) ?? unreadable(name, now, warn))
  const id = sessionId ?? readSessionId(input) ?? context?.sessionId ?? createSessionId()
  const { service, environment, version } = origin
  const envelope: Mutable<TelemetryEnvelope> =
    version === undefined
      ? { name, time, level, service, environment, sessionId: id }
      : { name, time, level, service, environment, version, sessionId: id }

  const inherited = context?.redacted(redactor)
  let bytes = EVENT_BYTES + textBytes(id) + (inherited?.bytes ?? 0)
  const actor = input.actor ?? undefined
  if (actor !== undefined) {
    envelope.actor = redactor.actor(copyActor(actor))
    bytes += redactor.bytes
  } else if (inherited?.actor !== undefined) envelope.actor = inherited.actor
  const scope = input.scope ?? undefined
  if (scope !== undefined) {
    envelope.scope = redactor.scope(copyScope(scope))
    bytes += redactor.bytes
  } else if (inherited?.scope !== undefined) envelope.scope = inherited.scope
  if (attributes !== undefined) {
    envelope.attributes = redactor.map('attributes', attributes, inherited?.attributes)
    bytes += redactor.bytes
  } else if (inherited?.attributes !== undefined) envelope.attributes = inherited.attributes
  const error = input.error ?? undefined
  if (error !== undefined) {
    envelope.error = redactor.error(copyError(error))
    bytes += redactor.bytes
  }
  const source = input.source ?? undefined
  if (source !== undefined) {
    envelope.source = copySource(source)
    bytes += valueBytes(envelope.source)
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

/** Returns the session id of an input, if it has one. @throws {KitTelemetryError} `TELEMETRY_EMIT_FAILED` if it is malformed. */
export function readSessionId(input: TelemetryEmitInput): string | undefined {
  const id: unknown = input.sessionId ?? undefined
  if (id === undefined || (typeof id === 'string' && id !== '')) return id
  throw malformed('sessionId', 'a non-empty string', id)
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

/** Checks that some members of an input are objects. @throws {KitTelemetryError} `TELEMETRY_EMIT_FAILED` if one is not. */
export function checkObjects({ actor, scope, error, source }: TelemetryEmitInput): void {
  if (isPrimitive(actor)) throw malformed('actor', TYPED, actor)
  if (isPrimitive(scope)) throw malformed('scope', TYPED, scope)
  if (isPrimitive(error)) throw malformed('error', ERROR, error)
  if (isPrimitive(source)) throw malformed('source', 'an object', source)
}

function isPrimitive(value: unknown): boolean {
  return typeof value !== 'object' && value !== undefined && typeof value !== 'function'
}

/** Returns the type of an actor or scope. @throws {KitTelemetryError} `TELEMETRY_EMIT_FAILED` if it is malformed. */
export function readType(member: 'actor' | 'scope', value: unknown): string {
  const type = typeof value === 'object' && value !== null ? memberOf(value, 'type') : undefined
  if (typeof type === 'string' && type !== '') return type
  throw malformed(member, TYPED, value)
}

/** Copies an actor, except for its tags. @throws {KitTelemetryError} `TELEMETRY_EMIT_FAILED` if it is malformed. */
export function copyActor(value: object): TelemetryActor {
  const actor: Mutable<TelemetryActor> = { type: readType('actor', value) }
  const id = memberOf(value, 'id')
  const tags = memberOf(value, 'tags')
  if (id !== undefined && id !== null) actor.id = readId('actor.id', id)
  if (tags !== undefined && tags !== null) actor.tags = readTags('actor.tags', tags)
  return actor
}

/** Copies a scope, except for its tags. @throws {KitTelemetryError} `TELEMETRY_EMIT_FAILED` if it is malformed. */
export function copyScope(value: object): TelemetryScope {
  const type = readType('scope', value)
  const id = memberOf(value, 'id')
  const tags = memberOf(value, 'tags')
  const scope: Mutable<TelemetryScope> = { type, id: readId('scope.id', id) }
  if (tags !== undefined && tags !== null) scope.tags = readTags('scope.tags', tags)
  return scope
}

function copyError(value: object): TelemetryErrorInfo {
  if (isError(value)) return describeError(value)
  const [name, message] = [memberOf(value, 'name'), memberOf(value, 'message')]
  if (typeof name !== 'string' || typeof message !== 'string') {
    throw malformed('error', ERROR, value)
  }
  const info: Mutable<TelemetryErrorInfo> = { name, message }
  const [code, stack] = [memberOf(value, 'code'), memberOf(value, 'stack')]
  if (code !== undefined && code !== null) info.code = readId('error.code', code)
  if (stack !== undefined && stack !== null) info.stack = readText('error.stack', stack)
  return info
}

function copySource(value: unknown): TelemetrySource {
  if (typeof value !== 'object' || value === null || Array.isArray(value))
    throw malformed('source', 'an object', value)
  const [causer, file, line] = [memberOf(value, 'causer'), memberOf(value, 'file'), memberOf(value, 'line')]
  const source: Mutable<TelemetrySource> = {}
  if (causer !== undefined && causer !== null) source.causer = readText('source.causer', causer)
  if (file !== undefined && file !== null) source.file = readText('source.file', file)
  if (line !== undefined && line !== null) {
    if (typeof line !== 'number') throw malformed('source.line', 'a number', line)
    // Numbers that JSON cannot represent become strings, as everywhere in an envelope.
    source.line = Number.isFinite(line) ? line + 0 : (String(line) as unknown as number)
  }
  return Object.freeze(source)
}

function readText(member: string, value: unknown): string {
  if (typeof value === 'string') return value
  throw malformed(member, 'a string', value)
}

/** Returns an identifier as a string. Numbers are converted. */
function readId(member: string, value: unknown): string {
  return typeof value === 'number' || typeof value === 'bigint' ? String(value) : readText(member, value)
}

function readTags(member: string, value: unknown): Readonly<Record<string, unknown>> {
  if (isRecord(value)) return value
  throw malformed(member, 'an object', value)
}

function unreadable(name: string, now: string, warn: (error: KitTelemetryError) => void): string {
  warn(
    errorWithHelp(
      'TELEMETRY_EMIT_FAILED',
      `the time of event ${quotedName(name)} is invalid and was replaced with the current time. Use an RFC 3339 date-time with a time zone`,
    ),
  )
  return now
}

function malformed(member: string, expected: string, value: unknown): KitTelemetryError {
  return new KitTelemetryError(
    'TELEMETRY_EMIT_FAILED',
    `${member} must be ${expected}; received ${describeKind(value)}`,
    { details: { member } },
  )
}
