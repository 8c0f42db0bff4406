import { FetchFailure, FetchRefusal } from '../base/http/bounded-fetch.ts'
import { VerifierUnavailableError } from './errors.ts'

/** The errors that this package has made. Their messages contain neither tokens nor secrets, so that logs can quote them. */
const own = new WeakSet<object>()

/** Returns an error whose message logs can quote. */
export function outage(
  message: string,
  options?: ConstructorParameters<typeof VerifierUnavailableError>[1],
): VerifierUnavailableError {
  const error = new VerifierUnavailableError(message, options)
  own.add(error)
  return error
}

/** Returns `true` for an error of `outage`, and `false` for one that an application has made. */
export function isOwnOutage(error: unknown): boolean {
  return own.has(Object(error))
}

/**
 * Returns the reason why a document could not be fetched or used: the code of the network, the status, or the wrong member.
 * @param issuer the issuer as it is configured, if the document is its metadata
 */
export function outageReason(error: unknown, issuer?: string): string {
  if (error instanceof FetchFailure || error instanceof FetchRefusal) return error.message
  const { code, cause, message } = Object(error) as Record<string, unknown>
  if (cause instanceof Response && cause.status !== 200) return `the response has the status ${cause.status}`
  if (code === 'ERR_JWKS_INVALID') return 'the member keys must be a list of JSON Web Keys'
  // A comparison of `oauth4webapi`, which expects an origin with a slash.
  const { attribute, expected, body } = Object(cause) as Record<string, unknown>
  if (code === 'OAUTH_JSON_ATTRIBUTE_COMPARISON_FAILED') {
    const received = JSON.stringify(Object(body)[String(attribute)]) ?? 'nothing'
    return `${attribute} must be ${JSON.stringify(issuer ?? expected)}; received ${received.slice(0, 300)}`
  }
  return typeof message === 'string' && message !== '' ? message : 'the reason is unknown'
}

/** Returns an address without credentials, query, and fragment, which may be secrets. */
export function plainUrl(url: string | URL): string {
  const { origin, pathname } = new URL(url)
  return pathname === '/' ? origin : origin + pathname
}
