import { memberOf } from '../options/describe-value.ts'
import type { AuthInfoMembers } from './auth-info.ts'
import { bindingOf, certificateBindingOf } from './confirmation.ts'
import type { Refusal } from './decision.ts'
import type { VerifiedToken } from './options.ts'
import { grantedScopes } from './scope.ts'

/** The verified token, or the reason it was rejected. */
export type Verification = { readonly token: AuthInfoMembers<object> } | Refusal

/**
 * Reads the result of a verifier. Returns `undefined` if it does not accept the token.
 * @param proofKey the thumbprint of the key of the request's DPoP proof
 * @param certificate the thumbprint of the client's certificate, if a verifier has read it
 */
export function readVerification(
  result: unknown,
  configuredResource: string | undefined,
  proofKey: string | undefined,
  certificate: string | undefined,
): Verification | undefined {
  if (typeof result !== 'object' || result === null) return undefined
  const verified = result as VerifiedToken
  if (verified.valid !== true) return undefined
  const expiresAt = verified.expiresAt ?? undefined
  if (expiresAt !== undefined && !Number.isFinite(expiresAt))
    return { outcome: 'refused', reason: 'invalid', invalidCause: 'verifier' }
  if (expiresAt !== undefined && expiresAt <= Date.now() / 1000)
    return { outcome: 'refused', reason: 'expired' }
  const resource = verified.resource ?? undefined
  if (resource !== undefined && configuredResource !== undefined && String(resource) !== configuredResource) {
    return { outcome: 'refused', reason: 'wrong_resource' }
  }
  if (!isBoundTo(verified.cnf, proofKey, certificate)) {
    const fault = proofKey === undefined ? {} : { fault: 'not_bound' as const }
    return { outcome: 'refused', reason: 'invalid', ...fault, invalidCause: 'key_bound' }
  }
  const clientId = verified.clientId ?? undefined
  const extra = verified.extra ?? undefined
  return {
    token: {
      clientId: clientId === undefined ? '' : String(clientId),
      scopes: grantedScopes(verified.scopes),
      expiresAt,
      resource: resource === undefined ? undefined : urlOf(String(resource)),
      user: verified.user ?? undefined,
      extra: typeof extra === 'object' ? { ...extra } : {},
    },
  }
}

/**
 * Identifies the issuer of an accepted token: as noted by a verifier of this package, or else as named in the result, or
 * else by the identity that the verifier noted instead of an issuer.
 */
export function issuerOf(
  { user, extra }: AuthInfoMembers<object>,
  noted: string | undefined,
): string | undefined {
  if (noted?.startsWith('iss:')) return noted
  const claims = memberOf(Object(user ?? undefined), 'claims')
  const issuer = memberOf(extra, 'iss') ?? memberOf(Object(claims ?? undefined), 'iss')
  return typeof issuer === 'string' ? `iss:${issuer}` : noted
}

/**
 * Returns `true` if `cnf` binds the token to the key of the proof, or, without a proof, if it does not bind the token or
 * binds it to the certificate.
 */
function isBoundTo(
  cnf: VerifiedToken['cnf'],
  proofKey: string | undefined,
  certificate: string | undefined,
): boolean {
  const binding = bindingOf(cnf)
  if (proofKey !== undefined) return binding === 'dpop' && cnf?.jkt === proofKey
  if (binding === 'certificate') return certificate !== undefined && certificate === certificateBindingOf(cnf)
  return binding === 'none'
}

function urlOf(value: string): URL | undefined {
  try {
    return new URL(value)
  } catch {
    return undefined
  }
}
