import { tryOrUndefined } from '../base/try-or-undefined.ts'

/** Marks the error, so that it is recognized across copies of this package, where `instanceof` fails. */
const UNAVAILABLE = Symbol.for('mcp-gatekit.VerifierUnavailableError')

/**
 * Thrown by a verifier that cannot determine whether a token is valid, for example because its JWKS or introspection
 * endpoint is down. The response is then 503 with `Retry-After` and without a challenge, so that clients keep their token.
 * @example
 * ```ts
 * import { VerifierUnavailableError, type VerifyToken } from 'mcp-gatekit'
 *
 * const verifyToken: VerifyToken = async ({ bearerToken }) => {
 *   if (bearerToken === undefined) return undefined
 *   try {
 *     const response = await fetch('https://auth.example.com/me', {
 *       headers: { authorization: `Bearer ${bearerToken}` },
 *     })
 *     return { valid: response.ok }
 *   } catch (cause) {
 *     throw new VerifierUnavailableError('the user endpoint is down', { cause, retryAfterSeconds: 10 })
 *   }
 * }
 * ```
 * @see https://www.rfc-editor.org/rfc/rfc9110#section-15.6.4
 */
export class VerifierUnavailableError extends Error {
  override readonly name = 'VerifierUnavailableError'
  /** The value of `Retry-After` in seconds, a whole number from 0. */
  readonly retryAfterSeconds: number

  /**
   * @param message a description for logs. It never becomes part of a response.
   * @param options `cause` is the underlying error, for telemetry. `retryAfterSeconds` is the number of seconds after which
   * the client may try again. Defaults to 5.
   */
  constructor(
    message: string,
    options: { readonly cause?: unknown; readonly retryAfterSeconds?: number } = {},
  ) {
    super(message, 'cause' in options ? { cause: options.cause } : undefined)
    const seconds = options.retryAfterSeconds ?? 5
    this.retryAfterSeconds = Number.isFinite(seconds) && seconds >= 0 ? Math.ceil(seconds) : 5
    Object.defineProperty(this, UNAVAILABLE, { value: true })
  }

  /**
   * Returns `true` if `error` is a `VerifierUnavailableError`, possibly of another copy of this package.
   * @param error any thrown value.
   * @returns `true` for a `VerifierUnavailableError`.
   */
  static is(error: unknown): error is VerifierUnavailableError {
    if (typeof error !== 'object' || error === null) return false
    // A proxy may throw when it is read.
    return tryOrUndefined(() => (error as { [UNAVAILABLE]?: unknown })[UNAVAILABLE]) === true
  }
}
