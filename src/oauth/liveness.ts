import type { VerifyToken } from './options.ts'

/** Returns `false` if the grant of a user's token has ended. Never rejects. */
export type Liveness = (user: unknown) => Promise<boolean>

const checks = new WeakMap<object, Liveness>()

/** Adds to a verifier the check with which it can be asked about a token that it has verified before. */
export function withLiveness<Verify extends VerifyToken<any, any>>(verify: Verify, check: Liveness): Verify {
  checks.set(verify, check)
  return verify
}

/** Returns the check of a verifier, or undefined if it does not know about grants. */
export function livenessOf(verify: VerifyToken<any, any>): Liveness | undefined {
  return checks.get(verify)
}
