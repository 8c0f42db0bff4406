import type * as Oidc from 'oidc-provider'
import type { ServerParts } from './context.ts'
import { describeClient, kindOf } from './known-client.ts'
import { grantName } from './oidc-adapter.ts'
import { scopesOf } from './scopes-of.ts'
import { TemporarilyUnavailableError } from './unavailable.ts'

/**
 * Finishes the response to a code or a refresh token: notes the use of the grant, and refuses the request if the grant has ended
 * in the meantime. It is the last step, so that no refresh succeeds after a revocation.
 * @throws `InvalidGrant` if the grant has ended.
 */
export async function finishGrant(
  errors: typeof Oidc.errors,
  { options, grants }: ServerParts,
  ctx: Oidc.KoaContextWithOIDC,
): Promise<void> {
  const { client, entities } = ctx.oidc
  const { Grant: grant, AccessToken: token } = entities
  if (client === undefined || grant === undefined) return
  const { jti, accountId = '', clientId = '', iat } = grant as typeof grant & { readonly iat: number }
  const name = grantName(jti)
  let isEnded: boolean
  try {
    if (!(await grants.use(name))) {
      // The grant was made by version 0.2.
      const earlier = await grants.revocations.beforeTime(accountId, clientId, iat)
      const description = {
        sub: accountId,
        client: describeClient({
          id: clientId,
          name: client.clientName ?? clientId,
          kind: kindOf(client, options),
          redirectUri: client.redirectUris?.[0] ?? options.url,
        }),
        scopes: scopesOf(token?.scope),
        resources: [token?.aud ?? []].flat(),
      }
      if (earlier !== undefined) await grants.add(jti, description, earlier, iat * 1000)
    }
    isEnded = await grants.isEnded({ jti, accountId, clientId, iat })
    if (isEnded) await grants.end(name, 'application', jti)
  } catch (error) {
    if (!(error instanceof TemporarilyUnavailableError)) throw error
    // The request has used up its token, so that a response of 503 would end the sign-in.
    return
  }
  if (isEnded) throw new errors.InvalidGrant('the grant has ended')
}
