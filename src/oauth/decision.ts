import type { AuthInfo } from './auth-info.ts'
import type { VerifyContext } from './gate-values.ts'

export type RefusalReason =
  | 'missing'
  | 'malformed'
  | 'invalid'
  | 'expired'
  | 'wrong_resource'
  | 'insufficient_scope'
  | 'rate_limited'
  | 'origin'
  | 'host'

/** A request that is refused for its `Origin` or its `Host`, before its token is read. */
export interface ForbiddenSender {
  readonly outcome: 'refused'
  readonly reason: 'origin' | 'host'
}

/** The reasons that concern the token. */
export type TokenRefusalReason = Exclude<RefusalReason, ForbiddenSender['reason']>

/**
 * The cause of an `invalid` token, for telemetry. Responses do not contain it.
 * - `signature`: The signature is wrong, or no key matches.
 * - `issuer`: The token is of another issuer.
 * - `algorithm`: The algorithm of the signature is not allowed.
 * - `type`: It is not an access token of the expected kind, it lacks a required claim, or its actor cannot be
 *   read.
 * - `key_bound`: It is bound to a key, and the request does not prove the key.
 * - `not_active`: It is not valid yet, or its server says that it is not active.
 * - `verifier`: The function of the application threw, or rejected the token without a cause.
 */
export type InvalidCause =
  | 'signature'
  | 'issuer'
  | 'algorithm'
  | 'type'
  | 'key_bound'
  | 'not_active'
  | 'verifier'

/** The outcome of the authentication of a request. */
export type Decision =
  | { readonly outcome: 'accepted'; readonly auth: AuthInfo; readonly context: VerifyContext }
  | Refusal
  | { readonly outcome: 'unavailable'; readonly retryAfterSeconds: number; readonly cause: unknown }
  | {
      readonly outcome: 'failed'
      readonly cause: unknown
      /** The token, if it was accepted before the failure. */
      readonly auth?: AuthInfo
    }

export type Refusal =
  | {
      readonly outcome: 'refused'
      readonly reason: Exclude<TokenRefusalReason, 'insufficient_scope' | 'rate_limited'>
      readonly cause?: unknown
      /** The problem with the DPoP proof, or with a missing one. */
      readonly fault?: ProofFault
      /** The scopes that the challenge names. Absent if it names those of the endpoint. */
      readonly scopes?: readonly string[]
      /** Present for the reason `invalid`. */
      readonly invalidCause?: InvalidCause
    }
  | {
      readonly outcome: 'refused'
      readonly reason: 'rate_limited'
      readonly retryAfterSeconds: number
      /** The key of the address whose refusals are counted. */
      readonly address: string
    }
  | {
      readonly outcome: 'refused'
      readonly reason: 'insufficient_scope'
      readonly scopes: readonly string[]
      /** The scopes that the challenge names: `scopes`, and with `keep-granted` those of the token. */
      readonly challenged: readonly string[]
      /** The scopes of the token that the server knows, for telemetry. Others may contain any string of the verifier. */
      readonly granted: readonly string[]
    }

/** The reason of an `invalid` token that has to do with DPoP. */
export type ProofFault = 'invalid_dpop_proof' | 'use_dpop_nonce' | 'proof_needed' | 'not_bound'
