import { watchStandardStreams } from '../../base/standard-streams.ts'
import { KitTelemetryError } from '../errors.ts'

/** Receives the problems of the library itself. `console`, pino, and similar loggers fit. */
export interface TelemetryLogger {
  /** Reports that an event was lost, or that a transport does not work. */
  error(message: string, error?: unknown): unknown
  /** Reports that events were dropped or were still pending at a deadline, or that a part of an event is invalid. */
  warn(message: string, error?: unknown): unknown
}

/** The minimum time between two reports of one problem that repeats, in milliseconds. */
const REPEAT_MS = 1000

/** The minimum time between two reports that events were lost because of a limit, in milliseconds. */
export const LOSS_REPEAT_MS = 10_000

/** The maximum number of kinds of problems that are written to the console. */
const MAX_KINDS = 100

const HINT = 'Shown once. Call withLogger() with a logger to get every report, or with false to get none.'

/**
 * Reports problems that the application would not notice otherwise. They go to its logger. Without a logger, each kind of
 * problem is written to the console once. A message contains the error code, because some loggers ignore the second argument.
 * Never throws, even if the logger does.
 */
export class Reporter {
  readonly #logger: TelemetryLogger | ConsoleLogger | undefined
  readonly #lastReports = new Map<unknown, number>()
  #reporting = false

  /** @param logger `false` for no reports, and `undefined` for the console. */
  constructor(logger: TelemetryLogger | false | undefined) {
    this.#logger = logger === undefined ? new ConsoleLogger() : logger === false ? undefined : logger
  }

  /**
   * @param subject the object of the error, such as a transport. Kinds of problems are counted for each subject.
   * @param kind the kind of problem. Defaults to the code of the error.
   */
  error(error: KitTelemetryError, subject?: unknown, kind: string = error.code): void {
    this.#write('error', `${error.code}: ${error.message}`, error, kind, subject)
  }

  /** Like `error`, but reports at most once a second for the same `subject`. */
  repeatedError(subject: unknown, error: KitTelemetryError): void {
    if (this.isDue(subject)) this.error(error, subject)
  }

  /** Like `warning`, but reports at most once a second for the same `kind`. */
  repeatedWarning(kind: string, message: string): void {
    if (this.isDue(kind)) this.warning(message, undefined, kind)
  }

  /** Returns `true` if a problem was not reported within the last `ms` milliseconds. The caller reports it then. */
  isDue(problem: unknown, ms: number = REPEAT_MS): boolean {
    const now = performance.now()
    if (now - (this.#lastReports.get(problem) ?? Number.NEGATIVE_INFINITY) < ms) return false
    this.#lastReports.set(problem, now)
    return true
  }

  /** @param kind the kind of problem. Defaults to the code of the error, or else to the message. */
  warning(message: string, error?: KitTelemetryError, kind?: string): void {
    const text = error === undefined ? message : `${error.code}: ${error.message}`
    this.#write('warn', text, error, kind ?? error?.code ?? message, undefined)
  }

  #write(
    method: 'error' | 'warn',
    message: string,
    error: KitTelemetryError | undefined,
    kind: string,
    subject: unknown,
  ): void {
    const logger = this.#logger
    // A logger may emit events. Their failures are not reported while it is called.
    if (logger === undefined || this.#reporting) return
    this.#reporting = true
    watchStandardStreams()
    try {
      if (logger instanceof ConsoleLogger) {
        logger.writeOnce(`${method} ${kind}`, subject, message)
        return
      }
      const result = error === undefined ? logger[method](message) : logger[method](message, error)
      Promise.resolve(result).then(undefined, () => {})
    } catch {
      // A report that the logger rejects is lost.
    } finally {
      this.#reporting = false
    }
  }
}

/** Writes each kind of problem once, as a line without the error itself, whose causes may hold secrets. */
class ConsoleLogger {
  readonly #written = new Map<unknown, Set<string>>()
  #left = MAX_KINDS

  writeOnce(kind: string, subject: unknown, message: string): void {
    const kinds = this.#written.get(subject) ?? new Set()
    if (kinds.has(kind) || this.#left === 0) return
    this.#left--
    this.#written.set(subject, kinds.add(kind))
    console.error(`mcp-gatekit: ${message} (${HINT})`)
  }
}

/**
 * Returns the transport's own error if it has that code. Otherwise returns an error with the name of `cause`, but not its
 * message, which may quote an event.
 */
export function transportError(
  type: string,
  code: 'TELEMETRY_TRANSPORT_FAILED' | 'TELEMETRY_TRANSPORT_INIT_FAILED',
  what: string,
  cause: unknown,
): KitTelemetryError {
  const named = `transport ${JSON.stringify(type)}`
  if (KitTelemetryError.is(cause) && cause.code === code) {
    return cause.message.includes(named)
      ? cause
      : new KitTelemetryError(code, `${named}: ${cause.message}`, {
          cause,
          ...(cause.details !== undefined && { details: cause.details }),
        })
  }
  return new KitTelemetryError(code, `${named} ${what}${kindOf(cause)}`, { cause })
}

/** Returns the parts of an error that do not contain secrets: ` (TypeError)`, ` (Error ECONNREFUSED)`. */
function kindOf(cause: unknown): string {
  try {
    const { name, code } = cause as { name?: unknown; code?: unknown }
    const words = [name, code].filter((word) => typeof word === 'string' && /^[\w.-]{1,64}$/.test(word))
    return words.length === 0 ? '' : ` (${words.join(' ')})`
  } catch {
    return ''
  }
}
