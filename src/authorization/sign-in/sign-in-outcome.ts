import { randomBytes } from 'node:crypto'
import type { Provider } from 'oidc-provider'
import { type Context, type ServerParts, scopesOf } from '../context.ts'
import type { EarlierRevocations } from '../grants/grants.ts'
import type { SignInClaims } from '../options.ts'
import type { ProviderTokens, SignedIn, StartedSignIn } from './provider-client.ts'
import { userAccess } from './user-access.ts'

/** The description of the error if a user may have none of the requested scopes. */
export const NO_SCOPE = 'None of the requested scopes can be granted'

/** The result of a sign-in at the provider. */
export type Outcome =
  | {
      readonly error: 'access_denied' | 'invalid_scope' | 'temporarily_unavailable'
      readonly description: string
    }
  | {
      readonly error?: never
      readonly claims: SignInClaims
      readonly tokens: ProviderTokens
      /** The granted scopes, without those of OpenID. */
      readonly scopes: readonly string[]
      readonly resource: string
      readonly csrf: string
      /** The revocations before the sign-in. A later one ends it. */
      readonly earlier: EarlierRevocations
    }

/** The result of a sign-in that may lead to a grant. */
export type Accepted = Exclude<Outcome, { readonly error: string }>

/** A visit to the provider, in the store under its `state`. */
export interface VisitRecord extends Omit<StartedSignIn, 'url'> {
  readonly uid: string
}

/** Finishes a sign-in at the provider, and asks the application about the user. Emits an event if the sign-in fails. */
export async function signInOutcome(
  { options, upstream, emit, resourceOf, grants }: ServerParts,
  { Interaction }: Provider,
  ctx: Context,
  visit: VisitRecord,
): Promise<Outcome> {
  const { provider } = options
  const refused = (
    reason: string,
    description: string,
    error: Extract<Outcome, { readonly error: string }>['error'] = 'access_denied',
  ): Outcome => {
    emit('signin.refused', { provider, reason })
    return { error, description }
  }
  if (ctx.query.error !== undefined)
    return refused('provider_denied', 'The identity provider denied the sign-in')
  let signedIn: SignedIn
  try {
    signedIn = await upstream.finish(ctx.search, visit)
  } catch {
    return refused(
      'provider_failed',
      'The sign-in at the identity provider failed',
      'temporarily_unavailable',
    )
  }
  const { claims, tokens } = signedIn
  try {
    const interaction = await Interaction.find(visit.uid)
    const { params } = (interaction ?? { params: {} }) as { params: Record<string, unknown> }
    const user = `${provider}|${claims.sub}`
    const earlier = await grants.revocations.before(user, String(params.client_id))
    const requested = scopesOf(params.scope).filter((scope) => Object.hasOwn(options.scopes, scope))
    const access = await userAccess(options, { claims, provider, requested })
    if (!access.isAllowed) return refused('not_allowed', access.reason ?? 'This account may not sign in')
    const { scopes } = access
    const resource = resourceOf(params.resource)
    if (scopes.length === 0 || resource === undefined) return refused('no_scope', NO_SCOPE, 'invalid_scope')
    return { claims, tokens, scopes, resource, csrf: randomBytes(32).toString('base64url'), earlier }
  } catch {
    return refused('check_failed', 'The account could not be checked', 'temporarily_unavailable')
  }
}
