import type * as Oidc from 'oidc-provider'
import type { Configuration, Provider, ResourceServer } from 'oidc-provider'
import type { NodeRequest } from '../http/node-middleware.ts'
import { tryOrUndefined } from '../try-or-undefined.ts'
import { ID_JAG_PROFILE, JWT_BEARER, registerAssertionGrant } from './assertion-grant.ts'
import { DocumentFetches } from './document-fetches.ts'
import type { Emit } from './events.ts'
import { type Failure, mayRedirect } from './failure.ts'
import { Interactions, NO_SCOPE, scopesOf, type UpstreamRecord } from './interactions.ts'
import { type AdapterErrors, grantName, LIFETIMES, RecordsAdapter } from './oidc-adapter.ts'
import type { ResolvedFacadeOptions } from './options.ts'
import { errorPage, pageHeaders } from './pages.ts'
import { keyFrom, type Records } from './records.ts'
import { redirectProblem } from './redirect-uris.ts'
import type { SafeFetchSettings } from './safe-fetch.ts'
import { emitEvents, USED_TWICE } from './server-events.ts'
import { publish, settle, settlingProvider } from './settlement.ts'
import type { ProviderClient } from './sign-in.ts'
import { TemporarilyUnavailableError, unavailableIn } from './unavailable.ts'
import { userAccess } from './user-access.ts'

type Library = typeof Oidc
type Context = Parameters<Parameters<Provider['use']>[0]>[0]

/** The scopes of OpenID Connect, which do not belong to a resource. */
const OPENID_SCOPES = ['openid', 'offline_access']

/** The metadata of clients that is kept. Logos and other addresses are never fetched or shown. */
const KEPT_METADATA: ReadonlySet<string> = new Set([
  'application_type',
  'client_id',
  'client_id_issued_at',
  'client_name',
  'client_secret',
  'client_secret_expires_at',
  'dpop_bound_access_tokens',
  'grant_types',
  'id_token_signed_response_alg',
  'jwks',
  'jwks_uri',
  'redirect_uris',
  'response_modes',
  'response_types',
  'token_endpoint_auth_method',
  'token_endpoint_auth_signing_alg',
])

/** The cookie of a session of `oidc-provider`. It is never read and never sent. */
export const SESSION_COOKIE: string = 'mcp-gatekit-session'

const GRANT_TYPES = ['authorization_code', 'refresh_token']
const AUTHENTICATION_METHODS = [
  'none',
  'client_secret_basic',
  'client_secret_post',
  'private_key_jwt',
] as const

/** The limits for the metadata of a client. */
const MAX_REDIRECT_URIS = 20
const MAX_NAME_LENGTH = 200
const MAX_KEYS_LENGTH = 16_384
const MAX_CLIENT_ID_LENGTH = 500

const CANNOT_CONNECT = 'The application cannot be connected'

export const PATHS: Readonly<
  Record<'authorization' | 'jwks' | 'registration' | 'revocation' | 'token', string>
> = {
  authorization: '/authorize',
  jwks: '/jwks',
  registration: '/register',
  revocation: '/revoke',
  token: '/token',
}

/** The parts of an authorization server that other modules make. */
export interface ServerParts {
  readonly options: ResolvedFacadeOptions
  readonly records: Records
  readonly upstream: ProviderClient
  readonly emit: Emit
  /** Replaces the access to the network, for tests. */
  readonly safeFetch: SafeFetchSettings
}

/** Builds the authorization server: `oidc-provider` with the rules for MCP clients, and the pages of the sign-in. */
export function buildServer({ Provider, errors }: Library, parts: ServerParts): Provider {
  const { options, records, upstream, emit } = parts
  const { scopes, resources, keys, clients, page, url } = options
  const [signingKey] = keys.signing
  const { alg = 'ES256', kid } = signingKey ?? {}
  const adapterErrors: AdapterErrors = {
    usedTwice: () => new errors.InvalidGrant(USED_TWICE),
    replayed: () => new errors.InvalidDpopProof('DPoP proof JWT Replay detected'),
    expired: () => new errors.SessionNotFound('authorization request has expired'),
  }
  const documents = new DocumentFetches(parts.safeFetch)
  const acceptsAssertions = options.identityAssertions.length > 0
  /** The scopes that the application grants to the user of a refresh. */
  const grantedAgain = new WeakMap<object, readonly string[]>()
  const failures = new WeakMap<object, Failure>()

  function knownScopes(value: unknown): readonly string[] {
    return scopesOf(value).filter((scope) => Object.hasOwn(scopes, scope))
  }

  function resourceOf(identifier: unknown): string | undefined {
    if (typeof identifier !== 'string' || !URL.canParse(identifier)) return undefined
    const { href } = new URL(identifier)
    return resources.find((resource) => new URL(resource).href === href)
  }

  function resourceServerOf(
    audience: string,
    granted: readonly string[] = Object.keys(scopes),
  ): ResourceServer {
    return {
      scope: granted.join(' '),
      audience,
      accessTokenFormat: 'jwt',
      accessTokenTTL: LIFETIMES.accessToken,
      jwt: { sign: { alg: alg as 'ES256', ...(kid !== undefined && { kid }) } },
    }
  }

  /** Returns the grants that a client may register. */
  function grantTypesOf(isConfidential: boolean): readonly string[] {
    return isConfidential && acceptsAssertions ? [...GRANT_TYPES, JWT_BEARER] : GRANT_TYPES
  }

  /** Applies the rules for clients to their metadata. Throws if the client is not accepted. */
  function checkMetadata(metadata: Record<string, unknown>): void {
    const { client_id: clientId, client_name: name, redirect_uris: uris, grant_types: grants } = metadata
    for (const member of Object.keys(metadata)) if (!KEPT_METADATA.has(member)) delete metadata[member]
    const wrong = (description: string) => new errors.InvalidClientMetadata(description)
    if (name !== undefined && (typeof name !== 'string' || name.length > MAX_NAME_LENGTH))
      throw wrong(`client_name must be a string of at most ${MAX_NAME_LENGTH} characters`)
    if (!isShortJson([metadata.jwks, metadata.jwks_uri], MAX_KEYS_LENGTH)) throw wrong('jwks is too large')
    if (!Array.isArray(uris) || uris.length === 0 || uris.length > MAX_REDIRECT_URIS)
      throw wrong(`redirect_uris must be an array of 1 to ${MAX_REDIRECT_URIS} URIs`)
    const isStatic = clients.static.some((client) => client.clientId === clientId)
    const redirectClient = { clientId: String(clientId), name }
    for (const uri of uris) {
      const problem = typeof uri === 'string' ? redirectProblem(uri) : 'is not a string'
      if (problem !== undefined) throw wrong(`redirect_uris must not contain a URI that ${problem}`)
      if (isStatic) continue
      if (!clients.redirectUris(uri, redirectClient))
        throw wrong('redirect_uris contains a URI that this server does not accept')
    }
    // A client may register more than this server supports (RFC 7591 §2), and must be able to request other scopes later.
    const grantTypes = grantTypesOf(metadata.token_endpoint_auth_method !== 'none')
    const supported = Array.isArray(grants) ? grants.filter((grant) => grantTypes.includes(grant)) : []
    metadata.grant_types = [...new Set(['authorization_code', ...supported])]
    metadata.response_types = ['code']
    metadata.response_modes = ['query']
    metadata.id_token_signed_response_alg = alg
    // A loopback redirect URI of a native client may have any port (RFC 8252 §7.3).
    metadata.application_type = 'native'
  }

  function showError(ctx: Context, status: number, error: string, description?: string): void {
    ctx.status = status
    ctx.remove('Location')
    // The browser keeps the cookies of a request that can be repeated.
    ctx.remove('Set-Cookie')
    ctx.set(pageHeaders(page))
    const detail = [error, description].filter((text) => text !== undefined).join(': ')
    ctx.body = errorPage(page, CANNOT_CONNECT, detail)
  }

  const configuration: Configuration = {
    adapter: (kind: string) =>
      new RecordsAdapter(kind, records, adapterErrors, clients.unusedTtlDays * 86_400),
    clients: clients.static.map(({ clientId, clientSecret, redirectUris, name }) => ({
      client_id: clientId,
      ...(clientSecret !== undefined && { client_secret: clientSecret }),
      client_name: name ?? clientId,
      redirect_uris: [...redirectUris],
      grant_types: [...grantTypesOf(clientSecret !== undefined)],
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
    ...(acceptsAssertions && { discovery: { authorization_grant_profiles_supported: [ID_JAG_PROFILE] } }),
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
      validator: (_ctx, _key, _value, metadata) => checkMetadata(metadata as Record<string, unknown>),
    },
    fetch: documents.fetch as NonNullable<Configuration['fetch']>,
    fetchResponseBodyLimits: {
      'client_id metadata document': 16_384,
      jwks_uri: 65_536,
      sector_identifier_uri: 1,
    },
    issueRefreshToken: async (_ctx, client) => client.grantTypeAllowed('refresh_token'),
    rotateRefreshToken: true,
    revokeGrantPolicy: () => true,
    expiresWithSession: () => false,
    clientBasedCORS: () => true,
    extraTokenClaims: async (_ctx, token) => {
      const { grantId } = token as { grantId?: string }
      return grantId === undefined || grantId === '' ? undefined : { gid: grantName(grantId) }
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
        await publish(() => records.set('Upstream', name, record, LIFETIMES.grant))
        return account
      }
      // An account that is not allowed any more loses its access with the next refresh, and so does one without scopes.
      const requested = knownScopes(ctx.oidc.params?.scope ?? scope)
      const { claims } = record
      const access = await userAccess(options, { claims, provider: options.provider, requested })
      const isDenied = !access.isAllowed || (requested.length > 0 && access.scopes.length === 0)
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
      url: async (ctx, { uid }) => await interactions.begin(ctx as Context, uid),
    },
    renderError: (ctx, { error, error_description: description }) =>
      showError(ctx as Context, ctx.status < 500 ? 400 : ctx.status, error, description),
    ttl: {
      AccessToken: LIFETIMES.accessToken,
      AuthorizationCode: LIFETIMES.code,
      Grant: LIFETIMES.grant,
      IdToken: LIFETIMES.accessToken,
      Interaction: LIFETIMES.signIn,
      RefreshToken: LIFETIMES.refreshToken,
      Session: LIFETIMES.signIn,
    },
  }
  const provider = new (settlingProvider(Provider))(url, configuration)
  // The issuer decides the addresses, not the headers of a request.
  provider.proxy = true
  if (acceptsAssertions)
    registerAssertionGrant(provider, errors, { options, records, resourceOf, resourceServerOf })
  const interactions = new Interactions(provider, { options, records, upstream, emit, resourceOf })
  provider.use(async (ctx, next) => {
    if (ctx.path === PATHS.authorization && ctx.query.scope === undefined)
      setQuery(ctx, { scope: Object.keys(scopes).join(' ') })
    if (ctx.path === PATHS.registration) allowOrigins(ctx)
    if (ctx.path === PATHS.registration && ctx.method === 'OPTIONS') return
    const { client_id: clientId } = ctx.query
    if (typeof clientId === 'string' && clientId.length > MAX_CLIENT_ID_LENGTH)
      setQuery(ctx, { client_id: '' })
    const { response_mode: mode } = ctx.query
    if (ctx.path === PATHS.authorization && mode !== undefined && mode !== 'query') {
      showError(ctx, 400, 'invalid_request', 'response_mode must be query')
      return
    }
    if (await interactions.serve(ctx)) return
    let failure: Failure | undefined
    if (ctx.path.startsWith(`${PATHS.authorization}/`)) {
      const isComplete = (): boolean => !(failures.get(ctx) instanceof TemporarilyUnavailableError)
      await settle(next, isComplete).catch((error: Failure) => {
        failure = error
      })
    } else await next()
    const cookies = [ctx.response.get('set-cookie') ?? []].flat()
    if (cookies.some((cookie) => cookie.startsWith(SESSION_COOKIE)))
      ctx.set(
        'Set-Cookie',
        cookies.filter((cookie) => !cookie.startsWith(SESSION_COOKIE)),
      )
    if (!mayRedirect(ctx, options)) failure ??= failures.get(ctx)
    if (failure !== undefined) {
      const { expose, message, error_description: description, statusCode = 500 } = failure
      const status = message === 'temporarily_unavailable' ? 503 : Math.max(400, statusCode)
      if (expose === true) showError(ctx, status, message, description)
      else showError(ctx, 500, 'server_error')
    }
    // A metadata document that is not valid is an unknown client, too.
    const { error } = Object(ctx.body) as { error?: unknown }
    if (ctx.path === PATHS.token && ctx.status === 400 && error === 'invalid_client') ctx.status = 401
    if (ctx.status === 503) ctx.set('Retry-After', '5')
    if (ctx.path.startsWith('/.well-known/') && typeof ctx.body === 'object' && ctx.body !== null)
      Object.assign(ctx.body, { response_modes_supported: ['query'] })
    if (ctx.path.startsWith(`${PATHS.authorization}/`)) ctx.set('Referrer-Policy', 'no-referrer')
  })
  reportOutages(provider)
  for (const event of ['authorization.error', 'server_error'] as const)
    provider.on(event as 'server_error', (ctx, error) => failures.set(ctx, error))
  emitEvents(provider, options, records, emit)
  return provider
}

/** Responds with 503 if the document or the keys of a client cannot be fetched. The library would reject the client. */
function reportOutages(provider: Provider): void {
  const { Client } = provider
  const find = Client.find.bind(Client)
  Client.find = async (id) => {
    try {
      return await find(id)
    } catch (error) {
      throw unavailableIn(error) ?? error
    }
  }
  const respond = (ctx: Context, thrown: Error): void => {
    const outage = unavailableIn(thrown)
    if (outage === undefined) return
    const { status, error, error_description } = outage
    Object.assign(ctx, { status, body: { error, error_description } })
  }
  provider.on('grant.error', respond)
  provider.on('revocation.error', respond)
}

/** Returns `false` for a value whose JSON is longer than `max`, or nested more deeply than can be written. */
function isShortJson(value: unknown, max: number): boolean {
  const json = tryOrUndefined(() => JSON.stringify(value))
  return json !== undefined && json.length <= max
}

/** Changes parameters of a request. The library finds the path of the issuer by comparing both URLs of the request. */
function setQuery(ctx: Context, changes: Readonly<Record<string, string>>): void {
  const req = ctx.req as NodeRequest
  const { originalUrl = '', url = '' } = req
  const prefix = originalUrl.slice(0, originalUrl.length - url.length)
  ctx.query = { ...ctx.query, ...changes }
  req.originalUrl = prefix + ctx.url
}

/** Allows scripts of all origins to register. Registration uses no cookies. */
function allowOrigins(ctx: Context): void {
  ctx.set('Access-Control-Allow-Origin', '*')
  if (ctx.method !== 'OPTIONS') return
  ctx.set('Access-Control-Allow-Methods', 'POST')
  ctx.set('Access-Control-Allow-Headers', 'content-type, mcp-protocol-version')
  ctx.set('Access-Control-Max-Age', '3600')
  ctx.status = 204
}
