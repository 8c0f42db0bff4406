import { memberOf } from '../../base/options/describe-value.ts'
import { isRecord } from '../../base/options/value-kinds.ts'
import { bindingOf, certificateBindingOf } from '../confirmation.ts'
import { verificationOf } from '../inputs.ts'
import type { VerifyTokenInput } from '../options.ts'
import { grantedScopes } from '../scope.ts'
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

/** Returns `true` if the claims have all of these names. `null` and the empty string count as absent. */
export function hasClaims(claims: object, names: readonly string[]): boolean {
  return names.every((name) => Object.hasOwn(claims, name) && (memberOf(claims, name) ?? '') !== '')
}

/** Returns the scopes of a token for its claims and the scopes that it has by itself. */
export type MapScopes<Claims> = (claims: Claims, scopes: readonly string[]) => readonly string[]

/**
 * Returns the scopes of a token.
 * @param given the scopes as the authorization server sent them
 * @throws {TypeError} if the result of `mapScopes` is not an array of strings, and what `mapScopes` throws.
 */
export function scopesOf<Claims>(
  claims: Claims,
  given: unknown,
  mapScopes: MapScopes<Claims> | undefined,
): readonly string[] {
  const granted = grantedScopes(given)
  if (mapScopes === undefined) return granted
  const mapped: unknown = mapScopes(claims, granted)
  // A promise is not a list. Its rejection must not become an unhandled one.
  if (mapped instanceof Promise) mapped.catch(() => undefined)
  if (!Array.isArray(mapped) || !mapped.every((scope) => typeof scope === 'string'))
    throw new TypeError('mapScopes must return an array of strings')
  return mapped
}
