import { isRecord } from '../../options/value-kinds.ts'
import { bindingOf } from '../confirmation.ts'
import type { VerifyTokenInput } from '../options.ts'

/**
 * Returns `true` if a token with these claims (or introspection members) may be presented as this request presents it.
 * A token that is bound to a key (`cnf`, RFC 7800) must not be accepted without a proof of that key (RFC 9449 §7.2, RFC 8705
 * §3). If there is a proof, the verifier returns `cnf`, and the gate compares it with the key of the proof.
 */
export function mayBePresented(claims: Readonly<Record<string, unknown>>, input: VerifyTokenInput): boolean {
  const { cnf, token_type: type } = claims
  if (cnf === undefined && type === undefined) return true
  const binding = bindingOf(cnf)
  if (binding === 'other') return false
  return (binding === 'none' && !isDpop(type)) || input.proofKey !== undefined
}

/** Returns `cnf` as a part of a verifier's result. */
export function confirmationOf({ cnf }: Readonly<Record<string, unknown>>): {
  cnf?: Record<string, unknown>
} {
  return isRecord(cnf) ? { cnf } : {}
}

/** Returns `true` for `token_type: DPoP`. An introspection response may have it without naming the key (RFC 9449 §6.2). */
function isDpop(type: unknown): boolean {
  return typeof type === 'string' && type.toLowerCase() === 'dpop'
}
