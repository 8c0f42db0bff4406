import { describeError, isError } from '../../describe-error.ts'
import { memberOf, quotedName } from '../../options/describe-value.ts'
import { KitTelemetryError } from '../errors.ts'
import type { TelemetryLevel } from '../levels.ts'
import type {
  TelemetryActor,
  TelemetryEmitInput,
  TelemetryEnvelope,
  TelemetryErrorInfo,
  TelemetryScope,
  TelemetrySource,
} from './envelope.ts'
import type { Redactor } from './redactor.ts'
import { createSessionId } from './session-id.ts'
import { isoTime, readTime } from './time.ts'
/** What every envelope of a manager carries. */
export interface EnvelopeOrigin {
  readonly service: string
  readonly environment: string
  readonly version: string | undefined
}

/** The session that an event is emitted in. */
export interface EnvelopeContext {
  readonly sessionId: string
  /** The values that an event takes over from its session, redacted. */
  redacted(redactor: Redactor): {
    readonly [Member in 'actor' | 'scope' | 'attributes']: TelemetryEnvelope[Member] | undefined
  }
}

type Mutable<T> = { -readonly [Member in keyof T]: T[Member] }

/**
 * Builds the redacted, frozen envelope of an event.
 * @param sessionId when it is known already
 * @param attributes the input's, any function called
 * @param warn told when `input.time` could not be read
 * @throws {KitTelemetryError} `TELEMETRY_EMIT_FAILED` when a member of `input` is malformed
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
  const actor = input.actor ?? undefined
  if (actor !== undefined) envelope.actor = redactor.actor(copyActor(actor))
  else if (inherited?.actor !== undefined) envelope.actor = inherited.actor
  const scope = input.scope ?? undefined
  if (scope !== undefined) envelope.scope = redactor.scope(copyScope(scope))
  else if (inherited?.scope !== undefined) envelope.scope = inherited.scope
  if (attributes !== undefined)
    envelope.attributes = redactor.map('attributes', attributes, inherited?.attributes)
  else if (inherited?.attributes !== undefined) envelope.attributes = inherited.attributes
  const error = input.error ?? undefined
  if (error !== undefined) envelope.error = redactor.error(copyError(error))
  const source = input.source ?? undefined
  if (source !== undefined) envelope.source = copySource(source)
  return Object.freeze(envelope)
}

/** The session id of an input, if it has one. @throws {KitTelemetryError} `TELEMETRY_EMIT_FAILED` */
export function readSessionId(input: TelemetryEmitInput): string | undefined {
  const id: unknown = input.sessionId ?? undefined
  if (id === undefined || (typeof id === 'string' && id !== '')) return id
  throw malformed('sessionId', 'a string that is not empty', id)
}

/** What an input has as attributes, a function called. @throws what the function throws */
export function resolveAttributes(input: TelemetryEmitInput): unknown {
  const given: unknown = input.attributes ?? undefined
  const attributes: unknown = typeof given === 'function' ? (given() ?? undefined) : given
  if (attributes instanceof Promise) attributes.then(undefined, () => {})
  return attributes
}

/** @throws {KitTelemetryError} `TELEMETRY_EMIT_FAILED` */
export function checkAttributes(attributes: unknown): object | undefined {
  if (attributes === undefined) return undefined
  if (typeof attributes === 'object' && !Array.isArray(attributes) && !(attributes instanceof Promise))
    return attributes as object
  throw malformed('attributes', 'an object, or a function that returns one', attributes)
}

/** The type of an actor or scope. @throws {KitTelemetryError} `TELEMETRY_EMIT_FAILED` */
export function readType(member: 'actor' | 'scope', given: unknown): string {
  const type = typeof given === 'object' && given !== null ? memberOf(given, 'type') : undefined
  if (typeof type === 'string' && type !== '') return type
  throw malformed(member, 'an object with a type', given)
}

/** A copy of an actor; its tags are still the caller's. @throws {KitTelemetryError} `TELEMETRY_EMIT_FAILED` */
export function copyActor(given: object): TelemetryActor {
  const actor: Mutable<TelemetryActor> = { type: readType('actor', given) }
  const id = memberOf(given, 'id')
  const tags = memberOf(given, 'tags')
  if (id !== undefined && id !== null) actor.id = readId('actor.id', id)
  if (tags !== undefined && tags !== null) actor.tags = readTags('actor.tags', tags)
  return actor
}

/** A copy of a scope; its tags are still the caller's. @throws {KitTelemetryError} `TELEMETRY_EMIT_FAILED` */
export function copyScope(given: object): TelemetryScope {
  const type = readType('scope', given)
  const id = memberOf(given, 'id')
  const tags = memberOf(given, 'tags')
  const scope: Mutable<TelemetryScope> = { type, id: readId('scope.id', id) }
  if (tags !== undefined && tags !== null) scope.tags = readTags('scope.tags', tags)
  return scope
}

function copyError(given: object): TelemetryErrorInfo {
  if (isError(given)) return describeError(given)
  const [name, message] = [memberOf(given, 'name'), memberOf(given, 'message')]
  if (typeof name !== 'string' || typeof message !== 'string') {
    throw malformed('error', 'an Error, or an object with name and message', given)
  }
  const info: Mutable<TelemetryErrorInfo> = { name, message }
  const [code, stack] = [memberOf(given, 'code'), memberOf(given, 'stack')]
  if (code !== undefined && code !== null) info.code = readId('error.code', code)
  if (stack !== undefined && stack !== null) info.stack = readText('error.stack', stack)
  return info
}

function copySource(given: unknown): TelemetrySource {
  if (typeof given !== 'object' || given === null || Array.isArray(given))
    throw malformed('source', 'an object', given)
  const [causer, file, line] = [memberOf(given, 'causer'), memberOf(given, 'file'), memberOf(given, 'line')]
  const source: Mutable<TelemetrySource> = {}
  if (causer !== undefined && causer !== null) source.causer = readText('source.causer', causer)
  if (file !== undefined && file !== null) source.file = readText('source.file', file)
  if (line !== undefined && line !== null) {
    if (typeof line !== 'number') throw malformed('source.line', 'a number', line)
    // What JSON has no number for is a text, as everywhere in an envelope.
    source.line = Number.isFinite(line) ? line + 0 : (String(line) as unknown as number)
  }
  return Object.freeze(source)
}

function readText(member: string, value: unknown): string {
  if (typeof value === 'string') return value
  throw malformed(member, 'a string', value)
}

/** Identifiers are text; one that is a number becomes so. */
function readId(member: string, value: unknown): string {
  return typeof value === 'number' || typeof value === 'bigint' ? String(value) : readText(member, value)
}

function readTags(member: string, value: unknown): Readonly<Record<string, unknown>> {
  if (typeof value === 'object' && value !== null && !Array.isArray(value))
    return value as Record<string, unknown>
  throw malformed(member, 'an object', value)
}

function unreadable(name: string, now: string, warn: (error: KitTelemetryError) => void): string {
  warn(
    new KitTelemetryError(
      'TELEMETRY_EMIT_FAILED',
      `the time of event ${quotedName(name)} could not be read, so it carries the present; give an RFC 3339 date-time with a zone`,
    ),
  )
  return now
}

function malformed(member: string, expected: string, given: unknown): KitTelemetryError {
  const kind = given === null ? 'null' : Array.isArray(given) ? 'an array' : `a value of type ${typeof given}`
  return new KitTelemetryError('TELEMETRY_EMIT_FAILED', `${member} must be ${expected}; received ${kind}`)
}
