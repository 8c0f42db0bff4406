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

/** Returns the reason why a document could not be fetched or used: the code of the network, the status, or the wrong member. */
export function outageReason(error: unknown): string {
  if (error instanceof FetchFailure || error instanceof FetchRefusal) return error.message
  const { code, cause, message } = Object(error ?? {}) as Partial<
    Record<'code' | 'cause' | 'message', unknown>
  >
  if (cause instanceof Response && cause.status !== 200) return `the response has the status ${cause.status}`
  // A comparison of `oauth4webapi`.
  const { attribute, expected, body } = Object(cause ?? {}) as Record<string, unknown>
  if (code === 'OAUTH_JSON_ATTRIBUTE_COMPARISON_FAILED') {
    const received = JSON.stringify(Object(body)[String(attribute)]) ?? 'nothing'
    return `${attribute} must be ${JSON.stringify(expected)}; received ${received.slice(0, 300)}`
  }
  return typeof message === 'string' && message !== '' ? message : 'the reason is unknown'
}

/** Returns an address without credentials, query, and fragment, which may be secrets. */
export function plainUrl(url: string | URL): string {
  const { origin, pathname } = new URL(url)
  return pathname === '/' ? origin : origin + pathname
}
