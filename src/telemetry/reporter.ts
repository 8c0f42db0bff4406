import type { KitTelemetryError } from './errors.ts'

/** Where the library tells of its own troubles; `console`, pino and the like fit. */
export interface TelemetryLogger {
  /** An event was lost for good, or a transport does not work. */
  error(message: string, error?: unknown): unknown
  /** Events were dropped, or were still on their way at a deadline; or a part of one could not be read. */
  warn(message: string, error?: unknown): unknown
}

/** At most one report a second of what repeats. */
const REPEAT_MS = 1000

/**
 * Tells the application's logger what never reaches the application itself. A message names the code by itself,
 * since some loggers drop the second argument. Whatever the logger does, nothing is thrown.
 */
export class Reporter {
  readonly #logger: TelemetryLogger | undefined
  readonly #lastReports = new Map<unknown, number>()
  #reporting = false

  constructor(logger: TelemetryLogger | undefined) {
    this.#logger = logger
  }

  error(error: KitTelemetryError): void {
    this.#write('error', `${error.code}: ${error.message}`, error)
  }

  /** `error`, but at most once a second for the same `subject`. */
  repeatedError(subject: unknown, error: KitTelemetryError): void {
    const now = performance.now()
    if (now - (this.#lastReports.get(subject) ?? Number.NEGATIVE_INFINITY) < REPEAT_MS) return
    this.#lastReports.set(subject, now)
    this.error(error)
  }

  warning(message: string, error?: KitTelemetryError): void {
    this.#write('warn', error === undefined ? message : `${error.code}: ${error.message}`, error)
  }

  #write(method: 'error' | 'warn', message: string, error: KitTelemetryError | undefined): void {
    // A logger that emits events of its own must not be told of their failures within the telling.
    if (this.#logger === undefined || this.#reporting) return
    this.#reporting = true
    try {
      const result =
        error === undefined ? this.#logger[method](message) : this.#logger[method](message, error)
      Promise.resolve(result).then(undefined, () => {})
    } catch {
      // The logger is the last resort; there is nobody left to tell.
    } finally {
      this.#reporting = false
    }
  }
}
