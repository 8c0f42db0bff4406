/** An error that `oidc-provider` sends with its status, its message as the code, and its description. */
export class AuthorizationError extends Error {
  readonly error: string
  readonly error_description: string
  readonly status: number
  readonly statusCode: number
  readonly expose: boolean = true
  readonly allow_redirect: boolean = true

  constructor(status: number, code: string, description: string) {
    super(code)
    this.error = code
    this.error_description = description
    this.status = status
    this.statusCode = status
  }
}

/**
 * The error of a request that fails because the store or an identity provider is unavailable. It has no cause, because errors of
 * stores may contain what was stored.
 */
export class TemporarilyUnavailableError extends AuthorizationError {
  override readonly name = 'TemporarilyUnavailableError'

  constructor(description: string) {
    super(503, 'temporarily_unavailable', description)
  }
}

/** The maximum number of causes that are read. */
const MAX_CAUSES = 8

/** Returns the `TemporarilyUnavailableError` that led to an error. `oidc-provider` wraps it in `invalid_client`. */
export function unavailableIn(error: unknown): TemporarilyUnavailableError | undefined {
  let cause = error
  for (let read = 0; read < MAX_CAUSES && cause instanceof Error; read++) {
    if (cause instanceof TemporarilyUnavailableError) return cause
    cause = cause.cause
  }
  return undefined
}
