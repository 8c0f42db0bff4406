import { environmentVariable } from '../../base/runtime.ts'
import type { TelemetryEnvelope } from '../envelope/envelope.ts'
import type { TelemetryLevel } from '../levels.ts'
import { escapeUnsafe, withTraceIds } from './json-line.ts'

/** The numbers of the levels in pino. */
const PINO_LEVELS: Readonly<Record<TelemetryLevel, number>> = {
  debug: 20,
  info: 30,
  warn: 40,
  error: 50,
  fatal: 60,
}

/**
 * Returns a function that writes envelopes as pino writes lines. The attributes stay in one member, so that none of them can
 * replace a member of the line.
 */
export function pinoLineWriter(includeTimestamp: boolean): (envelope: TelemetryEnvelope) => string {
  const process = (globalThis as { process?: Partial<NodeJS.Process> }).process
  const host = { pid: process?.pid, hostname: process?.getBuiltinModule?.('node:os')?.hostname() }
  return (envelope) => {
    const { name, time, level, service, error, ...rest } = withTraceIds(envelope)
    return escapeUnsafe(
      JSON.stringify({
        level: PINO_LEVELS[level],
        ...(includeTimestamp && { time: Date.parse(time) }),
        ...host,
        name: service,
        msg: name,
        ...rest,
        ...(error !== undefined && { err: pinoError(error) }),
      }),
    )
  }
}

/** Returns an error with the members of pino's serializer for errors. */
function pinoError({ name, attributes, ...rest }: NonNullable<TelemetryEnvelope['error']>): object {
  return { ...attributes, type: name, ...rest }
}

/** A logger whose methods take an object and a message, such as pino. */
export interface ObjectLogger {
  debug(fields: object, name: string): unknown
  info(fields: object, name: string): unknown
  warn(fields: object, name: string): unknown
  error(fields: object, name: string): unknown
  /** Receives `fatal` events. If it is missing, `error` receives them. */
  fatal?(fields: object, name: string): unknown
}

/** The options of `LoggerTransportAdapter.create()` for a logger that receives events as objects. */
export interface ObjectLoggerTransportOptions {
  /** The logger that receives the members of each event and its name, by the method of its level. */
  readonly logger: ObjectLogger
  /**
   * Passes the members of the envelope as an object, with the error as `err`. The logger writes the name, the level, and the
   * time, so the object does not contain them.
   */
  readonly format: 'object'
  /** The minimum level. Events below it are ignored. Defaults to `debug`. */
  readonly minLevel?: TelemetryLevel | undefined
  /** Adds the `time` of the event to the object. Defaults to `false`. */
  readonly includeTimestamp?: boolean | undefined
}

/**
 * Returns the members of an envelope as fields of a line. Loggers write members of their own for the name, the level, and the
 * time. The serializer of pino for errors changes the error, so it gets a copy. A copy without a prototype keeps its name there.
 */
export function fieldsOf(envelope: TelemetryEnvelope, includeTimestamp: boolean): object {
  const { name: _name, level: _level, time, error, ...rest } = withTraceIds(envelope)
  return {
    ...(includeTimestamp && { time }),
    ...rest,
    ...(error !== undefined && { err: errorFields(error) }),
  }
}

function errorFields({ attributes, ...error }: NonNullable<TelemetryEnvelope['error']>): object {
  return Object.assign(Object.create(null), attributes, error)
}

/** The names of the members of a line that a service expects. */
export type LineNames = 'google-cloud' | 'ecs'

/** Returns a function that writes envelopes with the names of a service. */
export function namedLineWriter(
  names: LineNames,
  includeTimestamp: boolean,
): (envelope: TelemetryEnvelope) => string {
  const fields = names === 'ecs' ? ecsFields : googleCloudFields
  return (envelope) => {
    const { time, ...rest } = fields(envelope)
    const timestamp = { [names === 'ecs' ? '@timestamp' : 'time']: time }
    return escapeUnsafe(JSON.stringify(includeTimestamp ? { ...timestamp, ...rest } : rest))
  }
}

const SEVERITIES: Readonly<Record<TelemetryLevel, string>> = {
  debug: 'DEBUG',
  info: 'INFO',
  warn: 'WARNING',
  error: 'ERROR',
  fatal: 'CRITICAL',
}

/** The fields of structured logging of Google Cloud. `stack_trace` is what its Error Reporting reads. */
function googleCloudFields(envelope: TelemetryEnvelope): { readonly time: string } {
  const { time, name, level, error, trace, ...rest } = envelope
  const { stack, ...shownError } = error ?? {}
  const project = environmentVariable('GOOGLE_CLOUD_PROJECT')
  return {
    time,
    ...{ severity: SEVERITIES[level], message: name },
    ...(trace && {
      'logging.googleapis.com/trace': project ? `projects/${project}/traces/${trace.traceId}` : trace.traceId,
      'logging.googleapis.com/spanId': trace.spanId,
      'logging.googleapis.com/trace_sampled': (trace.flags & 1) === 1,
    }),
    ...rest,
    ...(error && { error: shownError, stack_trace: stack }),
  }
}

/** The fields of the Elastic Common Schema. Members that it does not have keep their names. */
function ecsFields(envelope: TelemetryEnvelope): { readonly time: string } {
  const { time, name, level, service, environment, version, error, source, trace, ...rest } = envelope
  return {
    time,
    ...{ 'log.level': level, message: name, 'ecs.version': '8.11.0' },
    ...{ 'service.name': service, 'service.environment': environment, 'service.version': version },
    ...(trace && { 'trace.id': trace.traceId, 'span.id': trace.spanId }),
    ...rest,
    ...(error && {
      'error.type': error.name,
      'error.message': error.message,
      'error.code': error.code,
      'error.stack_trace': error.stack,
      'error.attributes': error.attributes,
    }),
    ...(source && {
      'log.origin.file.name': source.file,
      'log.origin.file.line': source.line,
      'log.origin.function': source.causer,
    }),
  }
}
