import type { PlainResponse } from '../base/http/plain-response.ts'
import { bearerChallenge, type DpopChallengeError, dpopChallenge } from './challenge.ts'
import type { ProofFault, Refusal, TokenRefusalReason } from './decision.ts'
import type { ResolvedOAuthOptions } from './options.ts'

const FAULTS: Readonly<Record<ProofFault, readonly [error: DpopChallengeError, description: string]>> = {
  invalid_dpop_proof: ['invalid_dpop_proof', 'The DPoP proof is invalid'],
  use_dpop_nonce: ['use_dpop_nonce', 'The DPoP proof must include a nonce issued by this server'],
  proof_needed: ['invalid_token', 'The access token must come with a DPoP proof'],
  not_bound: ['invalid_token', 'The access token is not bound to the key of the DPoP proof'],
}

/** The only values of `error_description`. They never contain data of a client, a token, or a verifier. */
export const REFUSAL_DESCRIPTIONS: Readonly<Record<TokenRefusalReason, string>> = {
  missing: 'An access token is required',
  malformed: 'The Authorization header must contain exactly one bearer token',
  invalid: 'The access token is invalid',
  expired: 'The access token has expired',
  wrong_resource: 'The access token was issued for another resource',
  insufficient_scope: 'The access token does not have the required scope',
  rate_limited: 'Too many failed requests from this address',
}

const JSON_HEADERS = { 'Content-Type': 'application/json', 'Cache-Control': 'no-store' }

/** A refusal with a challenge, which a token with other properties would avoid. */
type ChallengedRefusal = Exclude<Refusal, { reason: 'rate_limited' }>

/** Returns the response to a refused request: 401, 403 for a missing scope, or 429 for too many refusals. */
export function refusalResponse(
  refusal: Refusal,
  options: ResolvedOAuthOptions,
  metadataUrl: () => string | undefined,
): PlainResponse {
  // A challenge is left out, because another token would not help (RFC 6585 §4).
  if (refusal.reason === 'rate_limited')
    return errorResponse(429, 'too_many_requests', REFUSAL_DESCRIPTIONS.rate_limited, {
      'Retry-After': String(refusal.retryAfterSeconds),
    })
  const isBare = refusal.reason === 'missing' && options.challengeWithoutToken === 'bare'
  const result = challengeResult(refusal, options, metadataUrl, isBare)
  const { challenge, error, description } = result
  const headers = { ...result.headers, 'WWW-Authenticate': challenge }
  return refusal.reason === 'insufficient_scope'
    ? errorResponse(403, error, description, headers, { scope: result.scopes.join(' ') })
    : errorResponse(401, error, description, headers)
}

/** The content of a tool result that replaces a 401 or 403. `challenge` is the value of `WWW-Authenticate`. */
export type ChallengeResult = ReturnType<typeof challengeResult>

/**
 * Returns the content of the tool result for a refused call. Clients that read it need the error code.
 * @param isBare `true` for a challenge without an error code
 */
export function challengeResult(
  refusal: ChallengedRefusal,
  { dpop, realm, scopes: required }: ResolvedOAuthOptions,
  metadataUrl: () => string | undefined,
  isBare = false,
) {
  const isFault = 'fault' in refusal && refusal.fault !== undefined
  const [fault, description] = isFault
    ? FAULTS[refusal.fault]
    : [undefined, REFUSAL_DESCRIPTIONS[refusal.reason]]
  const isAboutScope = refusal.reason === 'insufficient_scope'
  const error = isAboutScope ? 'insufficient_scope' : 'invalid_token'
  const scopes = isAboutScope ? refusal.challenged : (refusal.scopes ?? required)
  const bearer = bearerChallenge({
    realm,
    error: isBare ? undefined : error,
    scopes,
    resourceMetadata: metadataUrl(),
    errorDescription: description,
  })
  const challenge =
    dpop === undefined ? bearer : `${bearer}, ${dpopChallenge(dpop.algorithms, fault, description)}`
  // A new nonce (RFC 9449 §9), which web pages may read.
  const nonce = fault === 'use_dpop_nonce' && {
    'DPoP-Nonce': dpop?.nonces?.current() ?? '',
    'Access-Control-Expose-Headers': 'DPoP-Nonce',
  }
  return { challenge, description, error, scopes, headers: { ...JSON_HEADERS, ...nonce } }
}

/** Returns the response for a verifier that is unavailable. It has no challenge, so that clients keep their token. */
export function unavailableResponse(retryAfterSeconds: number): PlainResponse {
  const description = 'The access token could not be verified right now'
  const headers = { 'Retry-After': String(retryAfterSeconds) }
  return errorResponse(503, 'temporarily_unavailable', description, headers)
}

/** The response after a function of the application has failed. */
export const FAILED_RESPONSE: PlainResponse = errorResponse(500, 'server_error')

function errorResponse(
  status: number,
  error: string,
  description?: string,
  headers: PlainResponse['headers'] = {},
  more: object = {},
): PlainResponse {
  const body = JSON.stringify({ error, error_description: description, ...more })
  return { status, headers: { ...JSON_HEADERS, ...headers }, body }
}
