import type * as Oidc from 'oidc-provider'
import type { Configuration } from 'oidc-provider'
import {
  AUTHENTICATION_METHODS,
  checkClientMetadata,
  grantTypesOf,
  MAX_CLIENT_ID_LENGTH,
} from '../clients/client-policy.ts'
import type { DocumentFetches } from '../clients/document-fetches.ts'
import { type Context, PATHS, type ServerParts, scopesOf } from '../context.ts'
import { ID_JAG_PROFILE } from '../grants/assertion-grant.ts'
import type { UpstreamRecord } from '../grants/consents.ts'
import type { RefreshRotation } from '../grants/refresh-rotation.ts'
import { signingKeyOf } from '../keys.ts'
import { showError } from '../pages/error-pages.ts'
import { keyFrom } from '../records.ts'
import { userAccess } from '../sign-in/user-access.ts'
import { NO_SCOPE } from '../sign-in/visits.ts'
import { type AdapterContext, grantName, LIFETIMES, RecordsAdapter } from './oidc-adapter.ts'
import { settled } from './settlement.ts'

/** The scopes of OpenID Connect, which do not belong to a resource. */
const OPENID_SCOPES = ['openid', 'offline_access']

/** The cookie of a session of `oidc-provider`, which is never stored. The cookie is never sent. */
export const SESSION_COOKIE: string = 'mcp-gatekit-session'

/**
 * Returns the configuration of `oidc-provider` with the rules for MCP clients.
 * @param rotation judges and replaces refresh tokens.
 * @param fetch fetches metadata documents and keys of clients.
 * @param beginSignIn returns the path of the sign-in for an authorization request.
 * @param currentContext returns the request that is being served.
 */
export function serverConfiguration(
  errors: typeof Oidc.errors,
  { options, records, grants, resourceOf, resourceServerOf }: ServerParts,
  rotation: RefreshRotation,
  fetch: DocumentFetches['fetch'],
  beginSignIn: (ctx: Context, uid: string) => Promise<string>,
  currentContext: () => Context | undefined,
): Configuration {
  const { scopes, resources, keys, clients, tokens } = options
  const { alg } = signingKeyOf(keys)
  const refreshSeconds = Math.min(
    tokens.refreshTtlSeconds,
    tokens.refreshIdleSeconds ?? tokens.refreshTtlSeconds,
  )
  /** The scopes that the application grants to the user of a refresh. */
  const grantedAgain = new WeakMap<object, readonly string[]>()

  const stored: AdapterContext = {
    records,
    options,
    errors,
    async endGrant(grantId) {
      const isRequested = currentContext()?.oidc?.route === 'revocation'
      await grants.end(grantName(grantId), isRequested ? 'client' : 'reuse', grantId)
    },
  }

  /** Returns a lifetime that ends with the grant of a request. */
  function withinGrant(seconds: number, ctx: Context | undefined): number {
    const { Grant: grant } = ctx?.oidc.entities ?? {}
    return Math.max(1, Math.min(seconds, grant?.remainingTTL ?? seconds))
  }

  function knownScopes(value: unknown): readonly string[] {
    return scopesOf(value).filter((scope) => Object.hasOwn(scopes, scope))
  }

  return {
    adapter: (kind: string) => new RecordsAdapter(kind, stored),
    clients: clients.static.map(({ clientId, clientSecret, redirectUris, name }) => ({
      client_id: clientId,
      ...(clientSecret !== undefined && { client_secret: clientSecret }),
      client_name: name ?? clientId,
      redirect_uris: [...redirectUris],
      grant_types: [...grantTypesOf(options, clientSecret !== undefined)],
      token_endpoint_auth_method: clientSecret === undefined ? 'none' : 'client_secret_basic',
    })),
    jwks: { keys: keys.signing.map((key) => ({ ...key })) as NonNullable<Configuration['jwks']>['keys'] },
    scopes: [...OPENID_SCOPES, ...Object.keys(scopes)],
    responseTypes: ['code'],
    enabledJWA: { idTokenSigningAlgValues: keys.signing.map((key) => key.alg as 'ES256') },
    clientAuthMethods: [...AUTHENTICATION_METHODS],
    clientDefaults: { application_type: 'native', id_token_signed_response_alg: alg as 'ES256' },
    cookies: {
      keys: keys.encryption.map((secret) =>
        Buffer.from(keyFrom(secret, 'mcp-gatekit authorization cookies')).toString('base64url'),
      ),
      names: {
        session: SESSION_COOKIE,
        interaction: 'mcp-gatekit-signin',
        resume: 'mcp-gatekit-resume',
      },
    },
    routes: { ...PATHS },
    ...(options.identityAssertions.length > 0 && {
      discovery: { authorization_grant_profiles_supported: [ID_JAG_PROFILE] },
    }),
    pkce: { required: () => true },
    features: {
      devInteractions: { enabled: false },
      userinfo: { enabled: false },
      rpInitiatedLogout: { enabled: false },
      registration: { enabled: clients.registration, issueRegistrationAccessToken: false },
      revocation: {
        enabled: true,
        allowedPolicy: async (_ctx, client, token) => {
          if (token.clientId === client.clientId) return true
          // A public client is not authenticated, so that it must not learn whose token it is.
          if (client.clientAuthMethod === 'none') return false
          throw new errors.InvalidRequest('the token belongs to another client')
        },
      },
      dPoP: { enabled: true },
      pushedAuthorizationRequests: { enabled: false },
      clientIdMetadataDocument: {
        enabled: clients.metadataDocuments,
        ack: 'draft-02',
        allowFetch: async (_ctx, clientId) =>
          clientId.length <= MAX_CLIENT_ID_LENGTH && new URL(clientId).pathname !== '/',
        allowClient: async () => true,
      },
      resourceIndicators: {
        enabled: true,
        defaultResource: async (_ctx, _client, granted) => {
          const [one, another] = granted === undefined ? resources : [granted].flat()
          if (one === undefined || another !== undefined)
            throw new errors.InvalidTarget('resource must be one of the resources of this server')
          return one
        },
        useGrantedResource: async () => true,
        getResourceServerInfo: async (ctx, identifier) => {
          const audience = resourceOf(identifier)
          if (audience === undefined || Array.isArray(ctx.oidc.params?.resource))
            throw new errors.InvalidTarget('resource must be one of the resources of this server')
          // The library has stored nothing yet. It has checked the client and its redirect URI.
          const { route, params } = ctx.oidc
          if (route === 'authorization' && knownScopes(params?.scope).length === 0)
            throw new errors.InvalidScope(NO_SCOPE, String(params?.scope))
          return resourceServerOf(audience, grantedAgain.get(ctx))
        },
      },
    },
    // Without a member of its own, the validator would not be called.
    extraClientMetadata: {
      properties: ['any_metadata'],
      validator: (_ctx, _key, _value, metadata) =>
        checkClientMetadata(errors, options, metadata as Record<string, unknown>),
    },
    fetch: fetch as NonNullable<Configuration['fetch']>,
    fetchResponseBodyLimits: {
      'client_id metadata document': 16_384,
      jwks_uri: 65_536,
      sector_identifier_uri: 1,
    },
    issueRefreshToken: async (_ctx, client) => client.grantTypeAllowed('refresh_token'),
    async rotateRefreshToken(ctx) {
      await rotation.judge(ctx)
      // The library would store a successor before it has checked the rest of the request.
      return false
    },
    revokeGrantPolicy: () => true,
    expiresWithSession: () => false,
    clientBasedCORS: () => true,
    extraTokenClaims: async (_ctx, token) => {
      const { grantId, accountId, clientId } = token as unknown as Readonly<Record<string, string>>
      if (grantId) return { gid: grantName(grantId) }
      const earlier = await grants.revocationsBefore(String(accountId), String(clientId))
      return earlier.some((id) => id !== '') ? { rev: earlier } : undefined
    },
    async findAccount(ctx, id, token) {
      const account = { accountId: id, claims: () => ({ sub: id }) }
      if (token?.kind !== 'RefreshToken' && token?.kind !== 'AuthorizationCode') return account
      const { grantId = '', scope } = token as { grantId?: string; scope?: string }
      const name = grantName(grantId)
      const record = (await records.get('Upstream', name)) as UpstreamRecord | undefined
      if (record?.sub !== id) return undefined
      if (token.kind === 'AuthorizationCode') {
        // The record of a code that is never used lives only as long as the code.
        await settled('published', () => records.set('Upstream', name, record, tokens.grantTtlSeconds))
        return account
      }
      // An account that is not allowed any more loses its access with the next refresh, and so does one without scopes.
      const requested = knownScopes(ctx.oidc.params?.scope ?? scope)
      const { claims } = record
      const access = await userAccess(options, { claims, provider: options.provider, requested })
      const isDenied = !access.isAllowed || (requested.length > 0 && access.scopes.length === 0)
      if (!access.isAllowed) await grants.end(name, 'allow', grantId)
      if (isDenied) return undefined
      grantedAgain.set(ctx, access.scopes)
      return account
    },
    // Sessions are not used: each request needs a sign-in and a grant of its own.
    async loadExistingGrant({ oidc }) {
      const { login, consent } = oidc.result ?? {}
      // The library states the present time if the provider states none.
      if (oidc.session !== undefined) oidc.session.loginTs = login?.ts
      const id = consent?.grantId
      return id === undefined ? undefined : await oidc.provider.Grant.find(id)
    },
    interactions: {
      url: async (ctx, { uid }) => await beginSignIn(ctx as Context, uid),
    },
    renderError: (ctx, { error, error_description: description }) =>
      showError(ctx as Context, options, pageStatus(ctx.status), error, description),
    ttl: {
      AccessToken: (ctx) => withinGrant(tokens.accessTtlSeconds, ctx),
      AuthorizationCode: LIFETIMES.code,
      Grant: tokens.grantTtlSeconds,
      IdToken: (ctx) => withinGrant(tokens.accessTtlSeconds, ctx),
      Interaction: LIFETIMES.signIn,
      RefreshToken: (ctx) => withinGrant(refreshSeconds, ctx),
      Session: LIFETIMES.signIn,
    },
  }
}

/** Returns the status of the page for an error. Of the errors of a client, only a denied one has a status of its own. */
function pageStatus(status: number): number {
  return status === 403 || status >= 500 ? status : 400
}
