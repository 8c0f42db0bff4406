/** Marks the error across copies of this package, where `instanceof` would not hold. */
const UNAVAILABLE = Symbol.for('mcp-gatekit.VerifierUnavailableError')

/** What `VerifierUnavailableError` takes beside its message. */
export interface VerifierUnavailableErrorOptions {
  /** What went wrong. Goes to telemetry, never into a response. */
  readonly cause?: unknown
  /** Seconds after which the client may try again. Default 5. */
  readonly retryAfterSeconds?: number
}

/**
 * Thrown by a verifier that could not find out whether a token is valid, because its JWKS or
 * introspection endpoint is down. The answer is then 503 with `Retry-After` and no challenge:
 * a client must not throw a good token away because of an outage.
 */
export class VerifierUnavailableError extends Error {
  override readonly name = 'VerifierUnavailableError'
  /** Seconds that `Retry-After` names: a whole number, 0 or more. */
  readonly retryAfterSeconds: number

  constructor(message: string, options: VerifierUnavailableErrorOptions = {}) {
    super(message, 'cause' in options ? { cause: options.cause } : undefined)
    const seconds = options.retryAfterSeconds ?? 5
    this.retryAfterSeconds = Number.isFinite(seconds) && seconds >= 0 ? Math.ceil(seconds) : 5
    Object.defineProperty(this, UNAVAILABLE, { value: true })
  }

  /** Whether `error` is a `VerifierUnavailableError`, also one of another copy of this package. */
  static is(error: unknown): error is VerifierUnavailableError {
    if (typeof error !== 'object' || error === null) return false
    try {
      return (error as { [UNAVAILABLE]?: unknown })[UNAVAILABLE] === true
    } catch {
      // A proxy was thrown, and it does not want to be looked at.
      return false
    }
  }
}
