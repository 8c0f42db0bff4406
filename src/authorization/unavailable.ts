/**
 * The error of a request that fails because the store or an identity provider is unavailable. `oidc-provider` responds with its
 * status and its description. It has no cause, because errors of stores may contain what was stored.
 */
export class TemporarilyUnavailableError extends Error {
  readonly error: string = 'temporarily_unavailable'
  readonly error_description: string
  readonly status: number = 503
  readonly statusCode: number = 503
  readonly expose: boolean = true
  readonly allow_redirect: boolean = true

  constructor(description: string) {
    super('temporarily_unavailable')
    this.name = 'TemporarilyUnavailableError'
    this.error_description = description
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
