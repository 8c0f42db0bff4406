import type { PlainResponse } from '../http/plain-response.ts'
import { bearerChallenge, type DpopChallengeError, dpopChallenge } from './challenge.ts'
import type { ProofFault, Refusal, RefusalReason } from './decision.ts'
import type { ResolvedDpopOptions } from './dpop/options.ts'
import type { ResolvedOAuthOptions } from './options.ts'

const FAULTS: Readonly<Record<ProofFault, { error: DpopChallengeError; description: string }>> = {
  invalid_dpop_proof: { error: 'invalid_dpop_proof', description: 'The DPoP proof is invalid' },
  use_dpop_nonce: {
    error: 'use_dpop_nonce',
    description: 'The DPoP proof must include a nonce issued by this server',
  },
  proof_needed: { error: 'invalid_token', description: 'The access token must come with a DPoP proof' },
  not_bound: {
    error: 'invalid_token',
    description: 'The access token is not bound to the key of the DPoP proof',
  },
}

/** The only values of `error_description`. They never contain data of a client, a token, or a verifier. */
const DESCRIPTIONS: Readonly<Record<RefusalReason, string>> = {
  missing: 'An access token is required',
  malformed: 'The Authorization header must contain exactly one bearer token',
  invalid: 'The access token is invalid',
  expired: 'The access token has expired',
  wrong_resource: 'The access token was issued for another resource',
  insufficient_scope: 'The access token does not have the required scope',
  rate_limited: 'Too many failed requests from this address',
}

const JSON_HEADERS = { 'Content-Type': 'application/json', 'Cache-Control': 'no-store' }

/** Returns the response to a refused request: 401, 403 for a missing scope, or 429 for too many refusals. */
export function refusalResponse(
  refusal: Refusal,
  { dpop, realm, scopes: endpointScopes }: ResolvedOAuthOptions,
  metadataUrl: () => string | undefined,
): PlainResponse {
  if (refusal.reason === 'rate_limited') return tooManyRefusals(refusal.retryAfterSeconds)
  const error = refusal.reason === 'insufficient_scope' ? 'insufficient_scope' : 'invalid_token'
  const scopes = refusal.reason === 'insufficient_scope' ? refusal.scopes : endpointScopes
  const fault = 'fault' in refusal && refusal.fault !== undefined ? FAULTS[refusal.fault] : undefined
  const errorDescription = fault?.description ?? DESCRIPTIONS[refusal.reason]
  const resourceMetadata = metadataUrl()
  let challenge = bearerChallenge({ realm, error, scopes, resourceMetadata, errorDescription })
  if (dpop !== undefined) challenge += `, ${dpopChallenge(dpop.algorithms, fault?.error, errorDescription)}`
  return {
    status: refusal.reason === 'insufficient_scope' ? 403 : 401,
    headers: {
      ...JSON_HEADERS,
      'WWW-Authenticate': challenge,
      ...(fault?.error === 'use_dpop_nonce' && nonceHeaders(dpop)),
    },
    body: JSON.stringify({
      error,
      error_description: errorDescription,
      ...(refusal.reason === 'insufficient_scope' && { scope: scopes.join(' ') }),
    }),
  }
}

/** Returns the response for a verifier that is unavailable. It has no challenge, so that clients keep their token. */
export function unavailableResponse(retryAfterSeconds: number): PlainResponse {
  return {
    status: 503,
    headers: { ...JSON_HEADERS, 'Retry-After': String(retryAfterSeconds) },
    body: '{"error":"temporarily_unavailable","error_description":"The access token could not be verified right now"}',
  }
}

/** The response after a function of the application has failed. */
export const FAILED_RESPONSE: PlainResponse = {
  status: 500,
  headers: JSON_HEADERS,
  body: '{"error":"server_error"}',
}

/** Returns a 429 response (RFC 6585 §4). It has no challenge, because another token would not help. */
function tooManyRefusals(retryAfterSeconds: number): PlainResponse {
  return {
    status: 429,
    headers: { ...JSON_HEADERS, 'Retry-After': String(retryAfterSeconds) },
    body: JSON.stringify({ error: 'too_many_requests', error_description: DESCRIPTIONS.rate_limited }),
  }
}

/** Returns the headers with a new nonce (RFC 9449 §9), which web pages may read. */
function nonceHeaders(dpop: ResolvedDpopOptions | undefined): Record<string, string> {
  return {
    'DPoP-Nonce': dpop?.nonces?.current() ?? '',
    'Access-Control-Expose-Headers': 'DPoP-Nonce',
  }
}
