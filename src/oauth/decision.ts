import type { AuthInfo } from './auth-info.ts'
import type { VerifyContext } from './options.ts'

export type RefusalReason =
  | 'missing'
  | 'malformed'
  | 'invalid'
  | 'expired'
  | 'wrong_resource'
  | 'insufficient_scope'
  | 'rate_limited'

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
      readonly reason: Exclude<RefusalReason, 'insufficient_scope' | 'rate_limited'>
      readonly cause?: unknown
      /** The problem with the DPoP proof, or with a missing one. */
      readonly fault?: ProofFault
    }
  | { readonly outcome: 'refused'; readonly reason: 'rate_limited'; readonly retryAfterSeconds: number }
  | { readonly outcome: 'refused'; readonly reason: 'insufficient_scope'; readonly scopes: readonly string[] }

/** The reason of an `invalid` token that has to do with DPoP. */
export type ProofFault = 'invalid_dpop_proof' | 'use_dpop_nonce' | 'proof_needed' | 'not_bound'
