import { bindingOf } from '../confirmation.ts'
import type { VerifyTokenInput } from '../options.ts'

/**
 * Returns `true` if a token with these claims (or introspection members) may be presented as this request presents it.
 * A token that is bound to a key (`cnf`, RFC 7800) is worth nothing without a proof of that key (RFC 9449 §7.2, RFC
 * 8705 §3). If there is a proof, the verifier hands `cnf` on, and the gate compares it with the key of the proof.
 */
export function mayBePresented(claims: Readonly<Record<string, unknown>>, input: VerifyTokenInput): boolean {
  const { cnf, token_type: type } = claims
  if (cnf === undefined && type === undefined) return true
  const binding = bindingOf(cnf)
  if (binding === 'other') return false
  return (binding === 'none' && !isDpop(type)) || input.proofKey !== undefined
}

/** `cnf` as a verifier's result carries it. */
export function confirmationOf({ cnf }: Readonly<Record<string, unknown>>): {
  cnf?: Record<string, unknown>
} {
  return isObject(cnf) ? { cnf } : {}
}

/** An introspection answer may say so without saying which key (RFC 9449 §6.2). */
function isDpop(type: unknown): boolean {
  return typeof type === 'string' && type.toLowerCase() === 'dpop'
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}
