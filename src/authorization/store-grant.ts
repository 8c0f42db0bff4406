import type { InteractionResults, Provider } from 'oidc-provider'
import { grantName, keepClient, LIFETIMES } from './oidc-adapter.ts'
import type { SignInClaims } from './options.ts'
import type { Records } from './records.ts'
import { scopesOf } from './scopes-of.ts'
import type { ProviderTokens } from './sign-in.ts'
import type { Accepted } from './sign-in-outcome.ts'
import type { TokenRules } from './token-options.ts'

/** The tokens of the provider and the claims of a grant, in the store under the name of the grant. */
export interface UpstreamRecord {
  readonly sub: string
  readonly claims: SignInClaims
  readonly tokens: ProviderTokens
  /** The expiry of the grant in seconds since 1970. */
  readonly until: number
}

/** Stores the grant of a user to a client. Returns the answer to the authorization request with these parameters. */
export async function storeGrant(
  provider: Provider,
  records: Records,
  params: Readonly<Record<string, unknown>>,
  user: { readonly accountId: string; readonly clientId: string },
  outcome: Accepted,
  tokens: TokenRules,
): Promise<InteractionResults> {
  const grant = new provider.Grant(user)
  const requested = scopesOf(params.scope)
  const granted = new Set([...outcome.scopes, 'openid', 'offline_access'])
  const rejected = requested.filter((scope) => !granted.has(scope))
  const own = requested.filter((scope) => scope === 'openid' || scope === 'offline_access')
  grant.addOIDCScope([...own, ...outcome.scopes].join(' '))
  const identifier = String(params.resource)
  grant.addResourceScope(identifier, outcome.scopes.join(' '))
  if (rejected.length > 0) {
    grant.rejectOIDCScope(rejected.join(' '))
    grant.rejectResourceScope(identifier, rejected.join(' '))
  }
  const grantId = await grant.save()
  const { claims } = outcome
  const { accountId, clientId } = user
  const until = Math.floor(Date.now() / 1000) + tokens.grantTtlSeconds
  const upstream: UpstreamRecord = { sub: accountId, claims, tokens: outcome.tokens, until }
  // The code keeps the record for the time of the grant.
  const seconds = LIFETIMES.signIn + LIFETIMES.code
  await records.set('Upstream', grantName(grantId), upstream, seconds)
  await keepClient(records, clientId, tokens)
  const { auth_time: ts } = claims
  return {
    login: { accountId, remember: false, ...(typeof ts === 'number' && { ts }) },
    consent: { grantId },
  }
}
