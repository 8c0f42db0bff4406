import { also, optional, type RulesFor } from '../../base/options/option-rules.ts'
import { environmentVariable } from '../../base/runtime.ts'
import { standardStreamErrors, wasWritten, watchStandardStreams } from '../../base/standard-streams.ts'
import { auditObstacle, minPriority, type TelemetryTransport } from '../delivery/transport.ts'
import type { TelemetryEnvelope, TelemetryErrorInfo } from '../envelope/envelope.ts'
import { KitTelemetryError } from '../errors.ts'
import { LEVEL_PRIORITY, type TelemetryLevel } from '../levels.ts'
import { telemetryOptions } from '../options.ts'
import { escapeUnsafe, JsonLineWriter, traceIds } from './json-line.ts'
import {
  fieldsOf,
  type LineNames,
  namedLineWriter,
  type ObjectLoggerTransportOptions,
  pinoLineWriter,
} from './logger-objects.ts'
import { minLevel, readTransportOptions } from './transport-options.ts'

const { checkBoolean, invalidKind, oneOf, unusableOption } = telemetryOptions

/** A logger with one method per level, such as `console`, pino, or winston. */
export interface LineLogger {
  debug(line: string): unknown
  info(line: string): unknown
  warn(line: string): unknown
  error(line: string): unknown
  /** Receives `fatal` events. If it is missing, `error` receives them. */
  fatal?(line: string): unknown
}

/** The options of `LoggerTransportAdapter.create()`. */
export interface LoggerTransportOptions {
  /** The logger that receives one line for each event, by the method of its level. */
  readonly logger: LineLogger
  /**
   * The format of a line. `json` is the envelope as JSON. `pretty` is
   * `12:00:00.000 ERROR billing.invoice.failed actor=user:u1 scope=org:o1 session=ses_… key=value … Error: message`, with
   * the time in UTC, and the stack with its causes on indented lines. It has colors if the logger is `console`, the output is a
   * terminal, and the environment variable `NO_COLOR` is not set. `pino` is a line as pino writes it, with numeric levels, `time` in milliseconds, `pid`, `hostname`,
   * `name`, `msg`, and `err`. It is for a logger that writes lines unchanged, such as `console`. Defaults to `pretty`.
   */
  readonly format?: 'json' | 'pino' | 'pretty' | undefined
  /**
   * The names of the members of a line with `format: 'json'`: those of structured logging in Google Cloud, or of the Elastic
   * Common Schema. Defaults to the names of the envelope.
   */
  readonly names?: 'google-cloud' | 'ecs' | undefined
  /** The minimum level. Events below it are ignored. Defaults to `debug`. */
  readonly minLevel?: TelemetryLevel | undefined
  /** Adds the time to each line. Defaults to `true`. */
  readonly includeTimestamp?: boolean | undefined
}

/** Returns the line of an event, or the object that is passed to the logger before the name. */
type ArgumentsOf = (envelope: TelemetryEnvelope) => string | object

type LogMethod = (given: string | object, name?: string) => unknown

/** The logger, of which the format determines what its methods take. */
type CallableLogger = Readonly<Record<Exclude<TelemetryLevel, 'fatal'>, LogMethod>> & {
  readonly fatal: LogMethod
}

type Format = NonNullable<(LoggerTransportOptions | ObjectLoggerTransportOptions)['format']>

const RULES = {
  logger: checkLogger,
  format: optional(oneOf<Format>(['json', 'object', 'pino', 'pretty']), 'pretty'),
  names: optional(
    also(oneOf<LineNames>(['google-cloud', 'ecs']), (option, _names, { format }) => {
      if (format !== 'json')
        throw unusableOption(option, "can be used only with format: 'json'", "Set format: 'json'")
    }),
  ),
  minLevel: optional(minLevel, 'debug'),
  includeTimestamp: optional<boolean>(checkBoolean),
} satisfies RulesFor<LoggerTransportOptions>

/**
 * Writes one line for each event to a logger. Control characters are escaped, so that an event cannot forge a line.
 *
 * @example
 * ```ts
 * import { KitTelemetry, LoggerTransportAdapter } from 'mcp-gatekit/telemetry'
 *
 * KitTelemetry.create().addTransport(LoggerTransportAdapter.create({ logger: console, format: 'json' }))
 * ```
 * @see docs/reference/transports.md
 */
export class LoggerTransportAdapter implements TelemetryTransport {
  readonly type: string = 'logger'
  readonly #logger: CallableLogger
  /** @internal */
  readonly [minPriority]: number
  readonly #argumentsOf: ArgumentsOf
  /** @internal */
  readonly [auditObstacle]: string | undefined

  private constructor(logger: CallableLogger, lowest: number, argumentsOf: ArgumentsOf, writesAll: boolean) {
    if (!writesAll)
      this[auditObstacle] =
        "Set format: 'json' for the logger without names, and omit minLevel and includeTimestamp"
    this.#logger = logger
    this[minPriority] = lowest
    this.#argumentsOf = argumentsOf
  }

  /**
   * Creates the transport.
   * @param options the logger, and the format of the lines.
   * @throws {KitTelemetryError} `TELEMETRY_CONFIGURATION_INVALID` if an option is invalid.
   */
  static create(options: LoggerTransportOptions): LoggerTransportAdapter
  /**
   * Creates the transport for a logger that receives events as objects.
   * @param options the logger.
   * @throws {KitTelemetryError} `TELEMETRY_CONFIGURATION_INVALID` if an option is invalid.
   */
  static create(options: ObjectLoggerTransportOptions): LoggerTransportAdapter
  static create(options: LoggerTransportOptions | ObjectLoggerTransportOptions): LoggerTransportAdapter {
    const read = readTransportOptions('LoggerTransportAdapter.create', options, RULES, ['logger'])
    const { logger, format, names, includeTimestamp = format !== 'object' } = read
    return new LoggerTransportAdapter(
      logger,
      LEVEL_PRIORITY[read.minLevel],
      argumentsWriter(logger, format, names, includeTimestamp),
      format === 'json' && names === undefined && read.minLevel === 'debug' && includeTimestamp,
    )
  }

  /**
   * Writes an event to the logger.
   * @param envelope the event.
   */
  handle(envelope: TelemetryEnvelope): Promise<void> | void {
    const { level } = envelope
    if (LEVEL_PRIORITY[level] < this[minPriority]) return
    const logger = this.#logger
    const method = level === 'fatal' && typeof logger.fatal !== 'function' ? 'error' : level
    const given = this.#argumentsOf(envelope)
    watchStandardStreams()
    const written: unknown =
      typeof given === 'string' ? logger[method](given) : logger[method](given, envelope.name)
    // The line counts as delivered. The rejection of a logger must not end the process.
    if (written instanceof Promise) written.then(undefined, () => {})
    // It is not known to which stream the logger writes. After a first error, each line waits for its outcome.
    if (standardStreamErrors() > 0) return wasWritten().then(failUnwritten)
  }
}

function failUnwritten(isWritten: boolean): void {
  if (isWritten) return
  throw new KitTelemetryError(
    'TELEMETRY_TRANSPORT_FAILED',
    'transport "logger": stdout or stderr is closed; 1 event is lost',
  )
}

function argumentsWriter(
  logger: CallableLogger,
  format: Format,
  names: LineNames | undefined,
  includeTimestamp: boolean,
): ArgumentsOf {
  if (format === 'pretty')
    return (envelope) => prettyLine(envelope, includeTimestamp, painter(logger, envelope.level))
  if (format === 'pino') return pinoLineWriter(includeTimestamp)
  if (format === 'object') return (envelope) => fieldsOf(envelope, includeTimestamp)
  if (names !== undefined) return namedLineWriter(names, includeTimestamp)
  const writer = new JsonLineWriter(includeTimestamp, true)
  return (envelope) => writer.write(envelope)
}

/** The characters that need quotes. */
const NEEDS_QUOTES = /[\s"]/

/** The ANSI colors of the levels. Stacks have that of `debug`. */
const COLORS: Readonly<Record<TelemetryLevel, number>> = {
  debug: 90,
  info: 32,
  warn: 33,
  error: 31,
  fatal: 35,
}

type Paint = (color: number, text: string) => string

/** Returns a function that colors a text if `console` writes events of a level to a terminal. */
function painter(logger: unknown, level: TelemetryLevel): Paint {
  const { stdout, stderr } =
    logger === console ? ((globalThis as { process?: Partial<NodeJS.Process> }).process ?? {}) : {}
  const stream = LEVEL_PRIORITY[level] < LEVEL_PRIORITY.warn ? stdout : stderr
  return stream?.isTTY === true && !environmentVariable('NO_COLOR')
    ? (color, text) => `\u001b[${color}m${text}\u001b[39m`
    : (_color, text) => text
}

function prettyLine(envelope: TelemetryEnvelope, includeTimestamp: boolean, paint: Paint): string {
  const { level, actor, scope, attributes, error, trace } = envelope
  let line = includeTimestamp ? `${envelope.time.slice(11, 23)} ` : ''
  line += `${paint(COLORS[level], level.toUpperCase())} ${escapeUnsafe(envelope.name)}`
  if (actor !== undefined)
    line += ` actor=${text(actor.id === undefined ? actor.type : `${actor.type}:${actor.id}`)}`
  if (scope !== undefined) line += ` scope=${text(`${scope.type}:${scope.id}`)}`
  line += ` session=${text(envelope.sessionId)}`
  if (attributes !== undefined) {
    for (const key of Object.keys(attributes)) line += ` ${keyText(key)}=${valueText(attributes[key])}`
  }
  if (trace !== undefined) for (const [key, id] of Object.entries(traceIds(trace))) line += ` ${key}=${id}`
  if (error === undefined) return line
  return `${line} ${escapeUnsafe(`${error.name}: ${error.message}`)}${paint(COLORS.debug, stackText(error))}`
}

/** Returns the stack of an error with its causes, each line after a line break and indented. */
function stackText({ name, message, stack = '' }: TelemetryErrorInfo): string {
  const head = `${name}: ${message}`
  const lines = (stack.startsWith(head) ? stack.slice(head.length) : stack).split(/\r?\n/)
  const shown = lines.filter((line) => line.trim() !== '')
  return shown.map((line) => `\n  ${escapeUnsafe(line)}`).join('')
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

function checkLogger(option: string, value: unknown): CallableLogger {
  const logger = value as Partial<LineLogger> | null | undefined
  const complete = (['debug', 'info', 'warn', 'error'] as const).every(
    (method) => typeof logger?.[method] === 'function',
  )
  if (complete) return value as CallableLogger
  throw invalidKind(option, 'must be an object with the methods debug, info, warn, and error', value)
}
