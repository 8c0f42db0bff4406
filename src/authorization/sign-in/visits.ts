import { type Context, type ServerParts, scopesOf } from '../context.ts'
import type { EarlierRevocations } from '../grants/grants.ts'
import { LIFETIMES } from '../server/oidc-adapter.ts'
import { newSecret, redirect } from './browser.ts'
import type { FreshnessRequest, SignedIn, StartedSignIn } from './provider-client.ts'
import { userAccess } from './user-access.ts'

/** The description of the error if a user may have none of the requested scopes. */
export const NO_SCOPE = 'None of the requested scopes can be granted'

/** The reason of a sign-in that has failed. */
export interface Refusal {
  readonly error: 'access_denied' | 'invalid_scope' | 'temporarily_unavailable'
  readonly description: string
}

/** The result of a sign-in that may lead to a grant. */
export interface Accepted extends SignedIn {
  readonly error?: never
  /** The granted scopes, without those of OpenID. */
  readonly scopes: readonly string[]
  readonly resource: string
  readonly csrf: string
  /** The revocations before the sign-in. A later one ends it. */
  readonly earlier: EarlierRevocations
}

/** The result of a sign-in at the provider. */
export type Outcome = Refusal | Accepted

/** The purpose of a visit to the provider: an authorization request, or the page of connected applications. */
interface Purpose {
  /** The id of the authorization request. */
  readonly uid?: string
  /** The hash of the cookie of the browser that opened the page. */
  readonly browser?: string
}

/** A visit to the provider, in the store under its `state`. */
export interface Visit extends Omit<StartedSignIn, 'url'>, Purpose {}

/** Sends the browser to the provider. Resolves with `false` if the provider is unavailable. */
export async function startVisit(
  { upstream, records, emit, options }: ServerParts,
  ctx: Context,
  purpose: Purpose,
  freshness: FreshnessRequest = {},
): Promise<boolean> {
  let started: StartedSignIn
  try {
    started = await upstream.start(freshness)
  } catch {
    emit('signin.refused', { provider: options.provider, reason: 'provider_failed' })
    return false
  }
  const { url, ...rest } = started
  await records.set('Visit', rest.state, { ...rest, ...purpose } satisfies Visit, LIFETIMES.signIn)
  redirect(ctx, url)
  return true
}

/** Returns the visit of a callback, which nothing can use afterwards. */
export async function takeVisit({ records }: ServerParts, { query }: Context): Promise<Visit | undefined> {
  const { state } = query
  const isState = typeof state === 'string' && /^[\w-]{20,100}$/.test(state)
  return isState ? ((await records.take('Visit', state)) as Visit | undefined) : undefined
}

/** Finishes a sign-in at the provider. Emits an event if it fails. */
export async function finishVisit(
  { upstream, emit, options: { provider } }: ServerParts,
  ctx: Context,
  visit: Visit,
): Promise<Refusal | (SignedIn & { readonly error?: never })> {
  if (ctx.query.error !== undefined) {
    emit('signin.refused', { provider, reason: 'provider_denied' })
    return { error: 'access_denied', description: 'The identity provider denied the sign-in' }
  }
  try {
    return await upstream.finish(ctx.search, visit)
  } catch {
    emit('signin.refused', { provider, reason: 'provider_failed' })
    return { error: 'temporarily_unavailable', description: 'The sign-in at the identity provider failed' }
  }
}

/** Asks the application about a user who has signed in for an authorization request. Emits an event if it refuses. */
export async function outcomeOf(
  { options, emit, resourceOf, grants }: ServerParts,
  params: Readonly<Record<string, unknown>>,
  { claims, tokens }: SignedIn,
): Promise<Outcome> {
  const { provider } = options
  const refused = (reason: string, description: string, error: Refusal['error'] = 'access_denied') => {
    emit('signin.refused', { provider, reason })
    return { error, description }
  }
  try {
    const earlier = await grants.revocationsBefore(`${provider}|${claims.sub}`, String(params.client_id))
    const requested = scopesOf(params.scope).filter((scope) => Object.hasOwn(options.scopes, scope))
    const access = await userAccess(options, { claims, provider, requested })
    if (!access.isAllowed) return refused('not_allowed', access.reason ?? 'This account may not sign in')
    const { scopes } = access
    const resource = resourceOf(params.resource)
    if (scopes.length === 0 || resource === undefined) return refused('no_scope', NO_SCOPE, 'invalid_scope')
    return { claims, tokens, scopes, resource, csrf: newSecret(), earlier }
  } catch {
    return refused('check_failed', 'The account could not be checked', 'temporarily_unavailable')
  }
}
