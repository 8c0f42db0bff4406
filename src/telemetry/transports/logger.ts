import type { TelemetryTransport } from '../delivery/transport.ts'
import type { TelemetryEnvelope } from '../envelope/envelope.ts'
import { LEVEL_PRIORITY, type TelemetryLevel } from '../levels.ts'
import { telemetryOptions } from '../options.ts'
import { checkMinLevel, readTargetOptions } from './http/target-options.ts'
import { escapeUnsafe, JsonLineWriter } from './json-line.ts'

const { checkBoolean, checkOneOf, invalidKind } = telemetryOptions

/** A logger that takes one line of text per call; `console`, pino, winston and the like fit. */
export interface LineLogger {
  debug(line: string): unknown
  info(line: string): unknown
  warn(line: string): unknown
  error(line: string): unknown
  /** Used for `fatal` events where it exists; else `error` is. */
  fatal?(line: string): unknown
}

/** What `LoggerTransportAdapter.create()` takes. */
export interface LoggerTransportOptions {
  /** Gets one line for each event, by the method of its level. */
  readonly logger: LineLogger
  /**
   * `json`: the envelope. Default `pretty`:
   * `12:00:00.000 ERROR billing.invoice.failed actor=user:u1 scope=org:o1 session=ses_… key=value … Error: message`,
   * the time in UTC.
   */
  readonly format?: 'json' | 'pretty' | undefined
  /** Events below it are left out. Default `debug`. */
  readonly minLevel?: TelemetryLevel | undefined
  /** Whether lines carry the time. Default true. */
  readonly includeTimestamp?: boolean | undefined
}

/**
 * Writes one line per event to a logger. Control characters in whatever an event holds are escaped, so that no event
 * can forge a line.
 */
export class LoggerTransportAdapter implements TelemetryTransport {
  readonly type: string = 'logger'
  readonly #logger: LineLogger
  readonly #minPriority: number
  readonly #line: (envelope: TelemetryEnvelope) => string

  private constructor(
    logger: LineLogger,
    minPriority: number,
    line: (envelope: TelemetryEnvelope) => string,
  ) {
    this.#logger = logger
    this.#minPriority = minPriority
    this.#line = line
  }

  /**
   * Makes the transport.
   * @throws {KitTelemetryError} `TELEMETRY_CONFIGURATION_INVALID` for an option that cannot be
   */
  static create(options: LoggerTransportOptions): LoggerTransportAdapter {
    const {
      logger,
      format = 'pretty',
      minLevel = 'debug',
      includeTimestamp = true,
    } = readTargetOptions('LoggerTransportAdapter', options, ['logger'], {
      logger: checkLogger,
      format: (option, value) => checkOneOf(option, value, ['json', 'pretty']),
      minLevel: checkMinLevel,
      includeTimestamp: checkBoolean,
    })
    const writer = new JsonLineWriter(includeTimestamp)
    return new LoggerTransportAdapter(
      logger,
      LEVEL_PRIORITY[minLevel],
      format === 'json'
        ? (envelope) => writer.write(envelope)
        : (envelope) => prettyLine(envelope, includeTimestamp),
    )
  }

  handle(envelope: TelemetryEnvelope): void {
    const { level } = envelope
    if (LEVEL_PRIORITY[level] < this.#minPriority) return
    const logger = this.#logger
    const line = this.#line(envelope)
    const written: unknown =
      level === 'fatal'
        ? typeof logger.fatal === 'function'
          ? logger.fatal(line)
          : logger.error(line)
        : logger[level](line)
    // The line counts as delivered; a logger that promises more must at least not bring the process down.
    if (written instanceof Promise) written.then(undefined, () => {})
  }
}

/** What a value without quotes may not have. */
const NEEDS_QUOTES = /[\s"]/

function prettyLine(envelope: TelemetryEnvelope, includeTimestamp: boolean): string {
  const { actor, scope, attributes, error } = envelope
  let line = includeTimestamp ? `${envelope.time.slice(11, 23)} ` : ''
  line += `${envelope.level.toUpperCase()} ${escapeUnsafe(envelope.name)}`
  if (actor !== undefined)
    line += ` actor=${text(actor.id === undefined ? actor.type : `${actor.type}:${actor.id}`)}`
  if (scope !== undefined) line += ` scope=${text(`${scope.type}:${scope.id}`)}`
  line += ` session=${text(envelope.sessionId)}`
  if (attributes !== undefined) {
    for (const key of Object.keys(attributes)) line += ` ${keyText(key)}=${valueText(attributes[key])}`
  }
  if (error !== undefined) line += ` ${escapeUnsafe(`${error.name}: ${error.message}`)}`
  return line
}

function valueText(value: unknown): string {
  return typeof value === 'string' ? text(value) : escapeUnsafe(JSON.stringify(value))
}

function keyText(key: string): string {
  return key.includes('=') ? escapeUnsafe(JSON.stringify(key)) : text(key)
}

function text(value: string): string {
  return escapeUnsafe(value === '' || NEEDS_QUOTES.test(value) ? JSON.stringify(value) : value)
}

function checkLogger(option: string, value: unknown): void {
  const logger = value as Partial<LineLogger> | null | undefined
  const complete = (['debug', 'info', 'warn', 'error'] as const).every(
    (method) => typeof logger?.[method] === 'function',
  )
  if (!complete)
    throw invalidKind(option, 'must be an object with the methods debug, info, warn, and error', value)
}
