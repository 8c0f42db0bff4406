import { isRecord } from '../../options/value-kinds.ts'
import { bindingOf, certificateBindingOf } from '../confirmation.ts'
import { verificationOf } from '../inputs.ts'
import type { VerifyTokenInput } from '../options.ts'
import type { CertificateReader } from './client-certificate.ts'

/**
 * Returns `true` if a token with these claims (or introspection members) may be presented as this request presents it.
 * A token that is bound to a key (`cnf`, RFC 7800) must not be accepted without a proof of that key (RFC 9449 §7.2, RFC 8705
 * §3). If there is a proof, the verifier returns `cnf`, and the gate compares it with the key of the proof. A certificate is
 * compared here and noted for the gate, which compares it again.
 */
export function mayBePresented(
  claims: Readonly<Record<string, unknown>>,
  input: VerifyTokenInput,
  readCertificate: CertificateReader | undefined,
): boolean {
  const { cnf, token_type: type } = claims
  if (cnf === undefined && type === undefined) return true
  const binding = bindingOf(cnf)
  if (binding === 'other') return false
  if (binding === 'certificate') return !isDpop(type) && presentsCertificate(cnf, input, readCertificate)
  return (binding === 'none' && !isDpop(type)) || input.proofKey !== undefined
}

function presentsCertificate(
  cnf: unknown,
  input: VerifyTokenInput,
  readCertificate: CertificateReader | undefined,
): boolean {
  const thumbprint = readCertificate?.(input)
  if (thumbprint === undefined || thumbprint !== certificateBindingOf(cnf)) return false
  verificationOf(input).certificate = thumbprint
  return true
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
