import type { AuthInfoMembers } from './auth-info.ts'
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
  const bound = given.cnf ?? undefined
  if (bound === undefined ? proofKey !== undefined : !isBoundTo(bound, proofKey)) {
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

/** Whether `cnf` names the key of the proof, and nothing else that would have to be proven (RFC 7800, RFC 8705). */
function isBoundTo(cnf: unknown, proofKey: string | undefined): boolean {
  if (typeof cnf !== 'object' || cnf === null) return false
  const methods = Object.keys(cnf)
  if (methods.length === 0) return proofKey === undefined
  return methods.length === 1 && proofKey !== undefined && (cnf as { jkt?: unknown }).jkt === proofKey
}

function urlOf(text: string): URL | undefined {
  try {
    return new URL(text)
  } catch {
    return undefined
  }
}
