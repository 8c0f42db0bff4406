import { KitToolError } from '../mcp/router/tool-error.ts'

/**
 * The authorization server of an upstream API is down, slow, or overloaded, or it sent a response that is not valid. If a
 * handler does not catch it, the client gets a tool error that says when to try again.
 * @example
 * ```ts
 * import { UpstreamUnavailableError } from 'mcp-gatekit/upstream'
 *
 * export function isWorthARetry(error: unknown): boolean {
 *   return UpstreamUnavailableError.is(error)
 * }
 * ```
 * @see docs/guides/upstream-tokens.md
 */
export class UpstreamUnavailableError extends KitToolError {
  override readonly name: string = 'UpstreamUnavailableError'
  /** The number of seconds after which another attempt makes sense, a whole number from 0. */
  readonly retryAfterSeconds: number

  /**
   * @param options `cause` is the underlying error, for telemetry. `retryAfterSeconds` is the number of seconds after which
   * another attempt makes sense. Defaults to 5.
   */
  constructor(options: { readonly cause?: unknown; readonly retryAfterSeconds?: number } = {}) {
    const given = options.retryAfterSeconds ?? 5
    const seconds = Number.isFinite(given) && given >= 0 ? Math.ceil(given) : 5
    super(
      `The sign-in for the service behind this tool is unavailable. Try again in ${seconds} ${seconds === 1 ? 'second' : 'seconds'}.`,
      'cause' in options ? { cause: options.cause } : undefined,
    )
    this.retryAfterSeconds = seconds
  }

  /**
   * Returns `true` if a value is an `UpstreamUnavailableError`, also if another copy of this package created it.
   * @param error any value.
   * @returns `true` for an `UpstreamUnavailableError`.
   */
  static override is(error: unknown): error is UpstreamUnavailableError {
    return KitToolError.is(error) && error.name === 'UpstreamUnavailableError'
  }
}

/** The reason why no token for an upstream API can be issued before the user agrees. */
export interface UpstreamConsentDetails {
  /** The `error` of the token endpoint: `interaction_required`, `consent_required`, or `invalid_grant`. */
  readonly error: string
  /** The claims challenge of the token endpoint, to be sent as `claims` in the next authorization request. */
  readonly claims?: string | undefined
  /** The scopes to ask for. */
  readonly scopes: readonly string[]
  /** The error of the token endpoint, for telemetry. */
  readonly cause?: unknown
}

/**
 * The authorization server of an upstream API issues no token until the user has signed in again or has consented. If a
 * handler does not catch it, the client gets a tool error that says so. A handler that catches it can send the user to the
 * authorization server with `context.inputRequired`.
 * @example
 * ```ts
 * import { UpstreamConsentError } from 'mcp-gatekit/upstream'
 *
 * export function scopesToAskFor(error: unknown): readonly string[] {
 *   return UpstreamConsentError.is(error) ? error.scopes : []
 * }
 * ```
 * @see docs/guides/upstream-tokens.md
 */
export class UpstreamConsentError extends KitToolError {
  override readonly name: string = 'UpstreamConsentError'
  /** The `error` of the token endpoint: `interaction_required`, `consent_required`, or `invalid_grant`. */
  readonly error: string
  /** The claims challenge of the token endpoint, if it sent one. */
  readonly claims: string | undefined
  /** The scopes to ask for. */
  readonly scopes: string[]

  /** @param details the reason, the claims challenge, and the scopes. */
  constructor(details: UpstreamConsentDetails) {
    const { error, claims, scopes, cause } = details
    const asked = scopes.length === 0 ? '' : ` for ${scopes.join(', ')}`
    super(
      `This tool needs your consent${asked} at the service behind it. Sign in there again, and repeat the call.`,
      cause === undefined ? undefined : { cause },
    )
    this.error = error
    this.claims = claims
    this.scopes = [...scopes]
  }

  /**
   * Returns `true` if a value is an `UpstreamConsentError`, also if another copy of this package created it.
   * @param error any value.
   * @returns `true` for an `UpstreamConsentError`.
   */
  static override is(error: unknown): error is UpstreamConsentError {
    return KitToolError.is(error) && error.name === 'UpstreamConsentError'
  }
}
