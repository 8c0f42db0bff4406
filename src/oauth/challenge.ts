import { quoted } from '../base/http/quoted-string.ts'

export interface BearerChallengeParameters {
  readonly realm: string
  /** `undefined` for a challenge without an error code and a description (RFC 6750 §3.1). */
  readonly error: 'invalid_token' | 'insufficient_scope' | undefined
  readonly scopes: readonly string[]
  /** URL of the protected resource metadata document (RFC 9728 §5.1). */
  readonly resourceMetadata: string | undefined
  readonly errorDescription: string
}

/**
 * Returns a `Bearer` challenge (RFC 6750 §3). The order of the parameters must not change: some clients find
 * `resource_metadata` with a regular expression.
 */
export function bearerChallenge(parameters: BearerChallengeParameters): string {
  const { realm, error, scopes, resourceMetadata, errorDescription } = parameters
  let challenge = `Bearer realm=${quoted(realm)}`
  if (error !== undefined) challenge += `, error=${quoted(error)}`
  if (scopes.length > 0) challenge += `, scope=${quoted(scopes.join(' '))}`
  if (resourceMetadata !== undefined) challenge += `, resource_metadata=${quoted(resourceMetadata)}`
  return error === undefined ? challenge : `${challenge}, error_description=${quoted(errorDescription)}`
}

/** The problem with the proof of a request, or with a token that comes without one (RFC 9449 §7.1, §9). */
export type DpopChallengeError = 'invalid_dpop_proof' | 'use_dpop_nonce' | 'invalid_token'

/**
 * Returns a `DPoP` challenge (RFC 9449 §7.1). It follows the `Bearer` challenge in the same header line, because some
 * clients only read a header that begins with `Bearer`.
 */
export function dpopChallenge(
  algorithms: readonly string[],
  error: DpopChallengeError | undefined,
  errorDescription: string,
): string {
  const fault =
    error === undefined ? '' : `error=${quoted(error)}, error_description=${quoted(errorDescription)}, `
  return `DPoP ${fault}algs=${quoted(algorithms.join(' '))}`
}
