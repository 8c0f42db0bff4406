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
  parts: ServerParts,
  ctx: Oidc.KoaContextWithOIDC,
): Promise<void> {
  const { Grant: grant } = ctx.oidc.entities
  if (grant === undefined) return
  const { jti, accountId = '', clientId = '', iat } = grant as StoredGrant
  await noteUse(parts, ctx, grant as StoredGrant).catch(unlessOutage)
  // If the store fails, the request is answered: it has used up its token, so that a response of 503 would end the sign-in.
  const isEnded = await parts.grants.isEnded({ jti, accountId, clientId, iat }).catch(unlessOutage)
  if (isEnded !== true) return
  await parts.grants.end(grantName(jti), 'application', jti).catch(unlessOutage)
  throw new errors.InvalidGrant('the grant has ended')
}

type StoredGrant = Oidc.Grant & { readonly iat: number }

/** Notes the use of a grant, and describes one of version 0.2. */
async function noteUse(
  { options, grants }: ServerParts,
  { oidc: { client, entities } }: Oidc.KoaContextWithOIDC,
  { jti, accountId = '', clientId = '', iat }: StoredGrant,
): Promise<void> {
  const isDescribed = await grants.use(grantName(jti))
  if (isDescribed || client === undefined) return
  const earlier = await grants.revocations.beforeTime(accountId, clientId, iat)
  if (earlier === undefined) return
  const known = describeClient({
    id: clientId,
    name: client.clientName ?? clientId,
    kind: kindOf(client, options),
    redirectUri: client.redirectUris?.[0] ?? options.url,
  })
  const { AccessToken: token } = entities
  const resources = [token?.aud ?? []].flat()
  const description = { sub: accountId, client: known, scopes: scopesOf(token?.scope), resources }
  await grants.add(jti, description, earlier, iat * 1000)
}

function unlessOutage(error: unknown): undefined {
  if (!(error instanceof TemporarilyUnavailableError)) throw error
  return undefined
}
