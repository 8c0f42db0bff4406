import type { InteractionResults, Provider } from 'oidc-provider'
import { describeClient, type KnownClient } from '../clients/client-policy.ts'
import { isLocalRedirect } from '../clients/redirect-uris.ts'
import { type ServerParts, scopesOf } from '../context.ts'
import type { SignInClaims } from '../options.ts'
import type { Records } from '../records.ts'
import { grantName, keepClient, LIFETIMES } from '../server/oidc-adapter.ts'
import type { ProviderTokens } from '../sign-in/provider-client.ts'
import type { Accepted } from '../sign-in/visits.ts'

/** The maximum number of consents of a user to a client. */
const MAX_CONSENTS = 20

/** A sign-in of a user that may lead to a grant, and the client that gets it. */
export interface Consent extends Accepted {
  readonly sub: string
  readonly client: KnownClient
}

/**
 * Returns `true` for a consent that is not asked for again: only one to a client that is registered in advance, and only if no other
 * program can receive the code. Each is for one redirect URI, resource, and set of scopes.
 */
export async function isRemembered(records: Records, consent: Consent): Promise<boolean> {
  return mayRemember(consent) && (await consentsTo(records, consent)).includes(textOf(consent))
}

export async function remember(records: Records, consent: Consent): Promise<void> {
  if (!mayRemember(consent)) return
  const text = textOf(consent)
  const others = (await consentsTo(records, consent)).filter((other) => other !== text)
  const consents = [...others, text].slice(-MAX_CONSENTS)
  await records.set('Consent', idOf(consent.sub, consent.client.id), consents, LIFETIMES.consent)
}

/** Withdraws all consents of a user to a client. */
export async function withdrawConsents(records: Records, sub: string, clientId: string): Promise<void> {
  await records.delete('Consent', idOf(sub, clientId))
}

async function consentsTo(records: Records, { sub, client }: Consent): Promise<readonly string[]> {
  const stored = await records.get('Consent', idOf(sub, client.id))
  return Array.isArray(stored) ? stored : []
}

function mayRemember({ client: { kind, redirectUri } }: Consent): boolean {
  return kind === 'static' && !isLocalRedirect(redirectUri)
}

function idOf(sub: string, clientId: string): string {
  return JSON.stringify([sub, clientId])
}

/** A later revocation changes the text, so that it ends the consent. */
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
  parts: ServerParts,
  params: Readonly<Record<string, unknown>>,
  { sub, client, claims, scopes, resource, earlier, tokens }: Consent,
): Promise<InteractionResults> {
  const { records, grants } = parts
  const grant = new provider.Grant({ accountId: sub, clientId: client.id })
  const requested = scopesOf(params.scope)
  const own = requested.filter((scope) => scope === 'openid' || scope === 'offline_access')
  const granted = new Set<string>([...own, ...scopes])
  const rejected = requested.filter((scope) => !granted.has(scope)).join(' ')
  grant.addOIDCScope([...granted].join(' '))
  const identifier = String(params.resource)
  grant.addResourceScope(identifier, scopes.join(' '))
  if (rejected !== '') {
    grant.rejectOIDCScope(rejected)
    grant.rejectResourceScope(identifier, rejected)
  }
  const grantId = await grant.save()
  const until = Math.floor(Date.now() / 1000) + parts.options.tokens.grantTtlSeconds
  const upstream: UpstreamRecord = { sub, claims, tokens, until }
  // The code keeps the record for the time of the grant.
  await records.set('Upstream', grantName(grantId), upstream, LIFETIMES.signIn + LIFETIMES.code)
  await keepClient(parts, client.id)
  await grants.add({ sub, client: describeClient(client), scopes, resources: [resource], earlier, grantId })
  const { auth_time: ts } = claims
  return {
    login: { accountId: sub, remember: false, ...(typeof ts === 'number' && { ts }) },
    consent: { grantId },
  }
}
