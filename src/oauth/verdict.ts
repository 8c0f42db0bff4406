import { memberOf } from '../options/describe-value.ts'
import type { AuthInfoMembers } from './auth-info.ts'
import { bindingOf } from './confirmation.ts'
import type { Refusal } from './decision.ts'
import type { VerifiedToken } from './options.ts'
import { grantedScopes } from './scope.ts'

/** Who a token is of, or why it is refused. */
export type Verdict = { readonly token: AuthInfoMembers<object> } | Refusal

/** What a verifier's result means; undefined when it does not say that the token is valid. */
export function judge(
  result: unknown,
  configuredResource: string | undefined,
  proofKey: string | undefined,
): Verdict | undefined {
  if (typeof result !== 'object' || result === null) return undefined
  const given = result as VerifiedToken
  if (given.valid !== true) return undefined
  const expiresAt = given.expiresAt ?? undefined
  if (expiresAt !== undefined && !Number.isFinite(expiresAt)) return { outcome: 'refused', reason: 'invalid' }
  if (expiresAt !== undefined && expiresAt <= Date.now() / 1000)
    return { outcome: 'refused', reason: 'expired' }
  const resource = given.resource ?? undefined
  if (resource !== undefined && configuredResource !== undefined && String(resource) !== configuredResource) {
    return { outcome: 'refused', reason: 'wrong_resource' }
  }
  if (!isBoundTo(given.cnf, proofKey)) {
    return { outcome: 'refused', reason: 'invalid', ...(proofKey !== undefined && { fault: 'not_bound' }) }
  }
  const clientId = given.clientId ?? undefined
  const extra = given.extra ?? undefined
  return {
    token: {
      clientId: clientId === undefined ? '' : String(clientId),
      scopes: grantedScopes(given.scopes),
      expiresAt,
      resource: resource === undefined ? undefined : urlOf(String(resource)),
      user: given.user ?? undefined,
      extra: typeof extra === 'object' ? { ...extra } : {},
    },
  }
}

/**
 * Identifies the issuer of an accepted token: as the verifier of this package noted it, or as the result names it, or else
 * by what stands for it.
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

/** Returns `true` if `cnf` binds the token to the key of the proof, or to no key when there is no proof. */
function isBoundTo(cnf: VerifiedToken['cnf'], proofKey: string | undefined): boolean {
  const binding = bindingOf(cnf)
  if (proofKey === undefined) return binding === 'none'
  return binding === 'dpop' && cnf?.jkt === proofKey
}

function urlOf(text: string): URL | undefined {
  try {
    return new URL(text)
  } catch {
    return undefined
  }
}
