import { memberOf } from '../base/options/describe-value.ts'
import { actorOf } from './actor.ts'
import { AuthInfo } from './auth-info.ts'
import { bindingOf, certificateBindingOf } from './confirmation.ts'
import type { Refusal } from './decision.ts'
import type { Verification } from './inputs.ts'
import type { VerifiedToken } from './options.ts'
import { grantedScopes } from './scope.ts'

/**
 * Reads the result of a verifier. Returns `undefined` if it does not accept the token.
 * @param ownIssuer identifies the issuer of a token whose verifier does not name it
 */
export function readVerification(
  result: unknown,
  verification: Verification,
  ownIssuer: string,
): AuthInfo | Refusal | undefined {
  if (typeof result !== 'object' || result === null) return undefined
  const verified = result as VerifiedToken
  if (verified.valid !== true) return undefined
  const { proofKey } = verification
  const expiresAt = verified.expiresAt ?? undefined
  if (expiresAt !== undefined && !Number.isFinite(expiresAt))
    return { outcome: 'refused', reason: 'invalid', invalidCause: 'verifier' }
  if (expiresAt !== undefined && expiresAt <= Date.now() / 1000)
    return { outcome: 'refused', reason: 'expired' }
  const resource = verified.resource ?? undefined
  const expected = resource === undefined ? undefined : verification.resource
  if (expected !== undefined && String(resource) !== expected)
    return { outcome: 'refused', reason: 'wrong_resource' }
  if (!isBoundTo(verified.cnf, proofKey, verification.certificate)) {
    const fault = proofKey === undefined ? {} : { fault: 'not_bound' as const }
    return { outcome: 'refused', reason: 'invalid', ...fault, invalidCause: 'key_bound' }
  }
  // Without its actor, a delegated token would look like one of the user.
  const act = actorOf(verified.act)
  if (act === null) return { outcome: 'refused', reason: 'invalid', invalidCause: 'type' }
  const clientId = verified.clientId ?? undefined
  const user = verified.user ?? undefined
  const given = verified.extra ?? undefined
  const extra: Record<string, unknown> = typeof given === 'object' ? given : {}
  return AuthInfo.of(
    verification.token as string,
    {
      clientId: clientId === undefined ? '' : String(clientId),
      scopes: grantedScopes(verified.scopes),
      expiresAt,
      resource: resource === undefined ? undefined : urlOf(String(resource)),
      user,
      act,
      extra,
    },
    issuerOf(user, extra, verification.issuer) ?? ownIssuer,
  )
}

/**
 * Identifies the issuer of an accepted token: as noted by a verifier of this package, or else as named in the result, or
 * else by the identity that the verifier noted instead of an issuer.
 */
export function issuerOf(
  user: object | undefined,
  extra: Readonly<Record<string, unknown>>,
  noted: string | undefined,
): string | undefined {
  if (noted?.startsWith('iss:')) return noted
  const issuer = memberOf(extra, 'iss') ?? memberOf(asObject(memberOf(asObject(user), 'claims')), 'iss')
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

const NO_MEMBERS = {}

/** Returns a value as an object whose members can be read. */
function asObject(value: unknown): object {
  return value === undefined || value === null ? NO_MEMBERS : Object(value)
}

function urlOf(value: string): URL | undefined {
  try {
    return new URL(value)
  } catch {
    return undefined
  }
}
