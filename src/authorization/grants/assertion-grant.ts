import type * as Oidc from 'oidc-provider'
import type { Provider, TokenEndpointGrantContext } from 'oidc-provider'
import { resolveDpop } from '../../oauth/dpop/options.ts'
import { checkProof } from '../../oauth/dpop/proof.ts'
import { errorText, type ServerParts, scopesOf } from '../context.ts'
import { userAccess } from '../sign-in/user-access.ts'
import {
  AssertionRefusal,
  assertionVerifier,
  endOf,
  keyThumbprintIn,
  type VerifiedAssertion,
} from './identity-assertions.ts'

/** The grant of RFC 7523 section 2.1, with which clients send identity assertions. */
export const JWT_BEARER: string = 'urn:ietf:params:oauth:grant-type:jwt-bearer'

/** The profile of the grant in the metadata of the server. */
export const ID_JAG_PROFILE: string = 'urn:ietf:params:oauth:grant-profile:id-jag'

type Context = TokenEndpointGrantContext<{
  readonly assertion?: string
  readonly scope?: string
  readonly resource?: string
}>

/** Registers the grant for identity assertions (ID-JAG). Tokens of this grant have no refresh token. */
export function registerAssertionGrant(
  provider: Provider,
  errors: typeof Oidc.errors,
  { options, records, resourceOf, resourceServerOf }: ServerParts,
): void {
  const { url, scopes, upstream } = options
  const verify = assertionVerifier(options.identityAssertions, url)
  const { origin, pathname } = new URL(provider.urlFor('token'))
  const dpop = resolveDpop('allowed')

  /** Returns the key and the replay entry of the DPoP proof of a request, or `undefined` if it has none. */
  async function proofOf(ctx: Context) {
    const proof = ctx.get('dpop')
    if (proof === '' || dpop === undefined) return undefined
    const subject = { proof, method: ctx.method, origin, path: pathname, token: undefined }
    const checked = await checkProof(subject, dpop)
    if (typeof checked === 'string') throw new errors.InvalidDpopProof('the DPoP proof is not valid')
    return checked
  }

  /** Returns the one resource that the assertion allows and the request does not exclude. */
  function resourceFor(assertion: VerifiedAssertion, requested: string | undefined): string {
    const named = [assertion.resource].flat().map(resourceOf)
    const allowed = new Set(named.filter((one) => one !== undefined))
    const wanted = requested === undefined ? undefined : resourceOf(requested)
    if (requested !== undefined && (wanted === undefined || !allowed.has(wanted)))
      throw new errors.InvalidTarget('resource must be one of the resources of the assertion')
    const [resource, another] = wanted === undefined ? [...allowed] : [wanted]
    if (resource === undefined || another !== undefined) throw new AssertionRefusal('resource')
    return resource
  }

  /** Asks the application about the user. Returns the scopes of the token. */
  async function grantedScopes(
    claims: VerifiedAssertion,
    provider: string,
    requested: string | undefined,
  ): Promise<readonly string[]> {
    const limits = [claims.scope, requested].filter((one) => one !== undefined).map(scopesOf)
    const known = Object.keys(scopes).filter((one) => limits.every((limit) => limit.includes(one)))
    const access = await userAccess(options, { claims, provider, requested: known })
    if (!access.isAllowed)
      throw new AssertionRefusal('not_allowed', access.reason && errorText(access.reason))
    if (access.scopes.length === 0) throw new AssertionRefusal('scope')
    return access.scopes
  }

  async function issue(ctx: Context): Promise<void> {
    const { client, params } = ctx.oidc
    // A client without authentication could use an assertion that was issued to another one.
    if ((client.clientAuthMethod ?? 'none') === 'none')
      throw new errors.UnauthorizedClient('this grant requires a client that authenticates')
    if (params.assertion === undefined) throw new errors.InvalidRequest('assertion is missing')
    const proof = await proofOf(ctx)
    const assertion = await verify(params.assertion, client.clientId)
    const key = keyThumbprintIn(assertion)
    if (key !== undefined && key !== proof?.keyThumbprint) throw new AssertionRefusal('key_bound')
    const resource = resourceFor(assertion, params.resource)
    const { iss, sub, jti } = assertion
    // A user of the option `upstream` is the same as after a sign-in.
    const name = upstream.endpoints === undefined && iss === upstream.issuer ? options.provider : iss
    const accountId = `${name}|${sub}`
    ctx.oidc.entity('Account', { accountId, claims: () => ({ sub: accountId }) })
    const granted = await grantedScopes(assertion, name, params.scope)
    const now = Math.floor(Date.now() / 1000)
    const isUsed = async (kind: string, id: string, until: number): Promise<boolean> =>
      !(await records.add(kind, id, true, Math.max(1, Math.ceil(until - now))))
    if (proof !== undefined && (await isUsed('ReplayDetection', proof.replayKey, proof.expiresAtSeconds)))
      throw new errors.InvalidDpopProof('the DPoP proof was used already')
    const token = new provider.AccessToken({
      accountId,
      client,
      // Such a token cannot be refreshed, and it does not belong to a token of the provider.
      grantId: '',
      gty: JWT_BEARER,
      resourceServer: new provider.ResourceServer(resource, resourceServerOf(resource)),
      scope: granted.join(' '),
    })
    if (proof !== undefined) token.setThumbprint('jkt', proof.keyThumbprint)
    ctx.oidc.entity('AccessToken', token)
    const accessToken = await token.save()
    // The last step, so that a request that fails for another reason does not use up the assertion.
    if (await isUsed('IdentityAssertion', JSON.stringify([iss, jti]), endOf(assertion) + 1))
      throw new AssertionRefusal('replayed')
    ctx.body = {
      access_token: accessToken,
      token_type: token.tokenType,
      expires_in: token.expiration,
      scope: token.scope,
      resource,
    }
  }

  provider.registerGrantType(JWT_BEARER, issue, ['assertion', 'scope', 'resource'])
}
