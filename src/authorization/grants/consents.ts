import type { InteractionResults, Provider } from 'oidc-provider'
import type { KnownClient } from '../clients/client-policy.ts'
import { isLocalRedirect } from '../clients/redirect-uris.ts'
import { scopesOf } from '../context.ts'
import type { SignInClaims } from '../options.ts'
import type { Records } from '../records.ts'
import { grantName, keepClient, LIFETIMES } from '../server/oidc-adapter.ts'
import type { ProviderTokens } from '../sign-in/provider-client.ts'
import type { Accepted } from '../sign-in/sign-in-outcome.ts'
import type { EarlierRevocations } from './grants.ts'
import type { TokenRules } from './token-options.ts'

/** The maximum number of consents of a user to a client. */
const MAX_CONSENTS = 20

/** The scopes and the resource to which a user consents. */
export interface Consent {
  readonly sub: string
  readonly client: KnownClient
  readonly resource: string
  readonly scopes: readonly string[]
  /** The revocations before the consent. A later one ends it. */
  readonly earlier: EarlierRevocations
}

/**
 * The consents that are not asked for again: only those to clients that are registered in advance, and only if no other program
 * can receive the code. Each is for one redirect URI, resource, and set of scopes.
 */
export class RememberedConsents {
  readonly #records: Records

  constructor(records: Records) {
    this.#records = records
  }

  async has(consent: Consent): Promise<boolean> {
    return mayRemember(consent) && (await this.#of(consent)).includes(textOf(consent))
  }

  async add(consent: Consent): Promise<void> {
    if (!mayRemember(consent)) return
    const text = textOf(consent)
    const others = (await this.#of(consent)).filter((other) => other !== text)
    const consents = [...others, text].slice(-MAX_CONSENTS)
    await this.#records.set('Consent', idOf(consent.sub, consent.client.id), consents, LIFETIMES.consent)
  }

  /** Withdraws all consents of a user to a client. */
  async withdraw(sub: string, clientId: string): Promise<void> {
    await this.#records.delete('Consent', idOf(sub, clientId))
  }

  async #of(consent: Consent): Promise<readonly string[]> {
    const stored = await this.#records.get('Consent', idOf(consent.sub, consent.client.id))
    return Array.isArray(stored) ? stored : []
  }
}

function mayRemember({ client: { kind, redirectUri } }: Consent): boolean {
  return kind === 'static' && !isLocalRedirect(redirectUri)
}

function idOf(sub: string, clientId: string): string {
  return JSON.stringify([sub, clientId])
}

function textOf({ client, resource, scopes, earlier }: Consent): string {
  const revocations = earlier.filter((id) => id !== '')
  return JSON.stringify([client.redirectUri, resource, [...scopes].sort(), ...revocations])
}

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
