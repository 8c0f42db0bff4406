import type { PlainResponse } from '../base/http/plain-response.ts'
import { bearerChallenge, type DpopChallengeError, dpopChallenge } from './challenge.ts'
import type { ProofFault, Refusal, TokenRefusalReason } from './decision.ts'
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

type RefusalParts = ReturnType<typeof partsOf>

/** Returns the response to a refused request: 401, 403 for a missing scope, or 429 for too many refusals. */
export function refusalResponse(
  refusal: Refusal,
  options: ResolvedOAuthOptions,
  metadataUrl: () => string | undefined,
): PlainResponse {
  if (refusal.reason === 'rate_limited') return tooManyRefusals(refusal.retryAfterSeconds)
  const parts = partsOf(refusal, options)
  const { error, errorDescription, scopes } = parts
  const isBare = refusal.reason === 'missing' && options.challengeWithoutToken === 'bare'
  return {
    status: refusal.reason === 'insufficient_scope' ? 403 : 401,
    headers: {
      ...JSON_HEADERS,
      'WWW-Authenticate': challengeOf(parts, isBare ? undefined : error, options, metadataUrl()),
      ...nonceHeaders(parts, options.dpop),
    },
    body: JSON.stringify({
      error,
      error_description: errorDescription,
      ...(refusal.reason === 'insufficient_scope' && { scope: scopes.join(' ') }),
    }),
  }
}

/** The content of a tool result that replaces a 401 or 403. */
export interface ChallengeResult {
  /** The value of the `WWW-Authenticate` header, always with an error code. */
  readonly challenge: string
  readonly description: string
  /** The headers of the response. */
  readonly headers: Readonly<Record<string, string>>
}

/** Returns the content of the tool result for a refused call. Clients that read it need the error code. */
export function challengeResult(
  refusal: ChallengedRefusal,
  options: ResolvedOAuthOptions,
  metadataUrl: () => string | undefined,
): ChallengeResult {
  const parts = partsOf(refusal, options)
  return {
    challenge: challengeOf(parts, parts.error, options, metadataUrl()),
    description: parts.errorDescription,
    headers: { ...JSON_HEADERS, ...nonceHeaders(parts, options.dpop) },
  }
}

function partsOf(refusal: ChallengedRefusal, { scopes }: ResolvedOAuthOptions) {
  const fault = 'fault' in refusal && refusal.fault !== undefined ? FAULTS[refusal.fault] : undefined
  const isAboutScope = refusal.reason === 'insufficient_scope'
  return {
    error: isAboutScope ? ('insufficient_scope' as const) : ('invalid_token' as const),
    errorDescription: fault?.description ?? REFUSAL_DESCRIPTIONS[refusal.reason],
    scopes: isAboutScope ? refusal.challenged : (refusal.scopes ?? scopes),
    fault,
  }
}

/** @param error the error code of the `Bearer` challenge; `undefined` for a challenge without one */
function challengeOf(
  { errorDescription, scopes, fault }: RefusalParts,
  error: RefusalParts['error'] | undefined,
  { dpop, realm }: ResolvedOAuthOptions,
  resourceMetadata: string | undefined,
): string {
  const challenge = bearerChallenge({ realm, error, scopes, resourceMetadata, errorDescription })
  if (dpop === undefined) return challenge
  return `${challenge}, ${dpopChallenge(dpop.algorithms, fault?.error, errorDescription)}`
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
    body: JSON.stringify({
      error: 'too_many_requests',
      error_description: REFUSAL_DESCRIPTIONS.rate_limited,
    }),
  }
}

/** Returns the headers with a new nonce (RFC 9449 §9), which web pages may read, if the refusal asks for one. */
function nonceHeaders(
  { fault }: RefusalParts,
  dpop: ResolvedDpopOptions | undefined,
): Record<string, string> | undefined {
  if (fault?.error !== 'use_dpop_nonce') return undefined
  return {
    'DPoP-Nonce': dpop?.nonces?.current() ?? '',
    'Access-Control-Expose-Headers': 'DPoP-Nonce',
  }
}
