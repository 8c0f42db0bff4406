import { generateKeyPairSync, randomBytes } from 'node:crypto'
import { createServer } from 'node:http'
import cors from 'cors'
import type { Provider as OidcProvider } from 'oidc-provider'
import { listen, stop } from './listen.ts'

export interface AuthorizationServerOptions {
  /** Defaults to 0, a free port. */
  readonly port?: number
  /** The MCP servers that clients can request tokens for, as RFC 8707 resource indicators. */
  readonly resources: readonly string[]
  /** The available scopes. */
  readonly scopes: readonly string[]
  /** The format of access tokens: JWTs, or opaque tokens for introspection (RFC 7662). Defaults to `jwt`. */
  readonly tokens?: 'jwt' | 'opaque'
  /** The lifetime of an access token in seconds. Defaults to 3600. */
  readonly tokenSeconds?: number
  /** Issues refresh tokens to clients that support them. Defaults to `false`. */
  readonly refreshTokens?: boolean
}

export interface AuthorizationServer {
  readonly issuer: string
  readonly jwksUri: string
  /** A registered public client. Its redirect URI can have any port on 127.0.0.1. */
  readonly clientId: string
  /** A confidential client for the client credentials grant: a service without a user. */
  readonly service: { readonly clientId: string; readonly clientSecret: string }
  /** The introspection endpoint, and the client of the MCP server for it. */
  readonly introspection: {
    readonly endpoint: string
    readonly clientId: string
    readonly clientSecret: string
  }
  /** Issues a token to the service, without a sign-in. */
  issueToken(scopes: readonly string[], resource?: string): Promise<string>
  close(): Promise<void>
}

/** The only user. The access tokens contain the email address, so that tests can search for it. */
export const ADA = { id: 'ada', email: 'ada@example.com' } as const

/** The MCP server as a client, which can only introspect tokens. */
const INTROSPECTOR = 'notes-server'

/**
 * Starts an OAuth 2.1 authorization server on loopback for experiments: `oidc-provider`, in memory, with a user who signs
 * in and consents automatically.
 *
 * It supports the features that MCP requires: metadata (RFC 8414), PKCE, resource indicators (RFC 8707), JWT access tokens
 * (RFC 9068) whose `aud` is one resource, DPoP (RFC 9449), and dynamic registration.
 */
export async function startAuthorizationServer(
  options: AuthorizationServerOptions,
): Promise<AuthorizationServer> {
  const http = createServer()
  const issuer = `http://127.0.0.1:${await listen(http, options.port ?? 0)}`
  const service = { client_id: 'notes-service', client_secret: randomBytes(24).toString('base64url') }
  const resourceServer = { client_id: INTROSPECTOR, client_secret: randomBytes(24).toString('base64url') }
  const browserless = 'notes-demo'

  const provider = await createProvider(issuer, options, [
    { ...service, grant_types: ['client_credentials'], response_types: [], redirect_uris: [] },
    { ...resourceServer, grant_types: [], response_types: [], redirect_uris: [] },
    {
      client_id: browserless,
      application_type: 'native',
      token_endpoint_auth_method: 'none',
      grant_types: ['authorization_code', 'refresh_token'],
      response_types: ['code'],
      redirect_uris: ['http://127.0.0.1/callback'],
    },
  ])
  const respond = provider.callback()
  // Pages register too: `oidc-provider` has CORS for its other endpoints only.
  const allowPages = cors({ methods: ['GET', 'POST'], exposedHeaders: ['WWW-Authenticate', 'DPoP-Nonce'] })
  http.on('request', (req, res) =>
    req.url === '/reg' ? allowPages(req, res, () => respond(req, res)) : respond(req, res),
  )

  return {
    issuer,
    jwksUri: `${issuer}/jwks`,
    clientId: browserless,
    service: { clientId: service.client_id, clientSecret: service.client_secret },
    introspection: {
      endpoint: `${issuer}/token/introspection`,
      clientId: resourceServer.client_id,
      clientSecret: resourceServer.client_secret,
    },
    async issueToken(scopes, resource = options.resources[0] ?? '') {
      const response = await fetch(`${issuer}/token`, {
        method: 'POST',
        headers: {
          authorization: `Basic ${Buffer.from(`${service.client_id}:${service.client_secret}`).toString('base64')}`,
        },
        body: new URLSearchParams({ grant_type: 'client_credentials', scope: scopes.join(' '), resource }),
      })
      const answer = (await response.json()) as { access_token?: string; error?: string }
      if (answer.access_token === undefined)
        throw new Error(`The authorization server issued no token: ${answer.error}`)
      return answer.access_token
    },
    close: () => stop(http),
  }
}

type Clients = NonNullable<ConstructorParameters<typeof OidcProvider>[1]>['clients']

async function createProvider(
  issuer: string,
  {
    resources,
    scopes,
    tokens = 'jwt',
    tokenSeconds = 3600,
    refreshTokens = false,
  }: AuthorizationServerOptions,
  clients: NonNullable<Clients>,
): Promise<OidcProvider> {
  const { privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' })
  const { Provider, errors } = await withoutNotices(() => import('oidc-provider'))

  const create = () =>
    new Provider(issuer, {
      clients,
      scopes: [...scopes],
      jwks: { keys: [{ ...privateKey.export({ format: 'jwk' }), alg: 'ES256', use: 'sig' }] },
      clientDefaults: { id_token_signed_response_alg: 'ES256' },
      cookies: { keys: [randomBytes(24).toString('base64url')] },
      features: {
        devInteractions: { enabled: false },
        userinfo: { enabled: false },
        clientCredentials: { enabled: true },
        introspection: { enabled: true, allowedPolicy: (_ctx, client) => client.clientId === INTROSPECTOR },
        registration: { enabled: true },
        dPoP: { enabled: true },
        resourceIndicators: {
          enabled: true,
          getResourceServerInfo(_ctx, resource) {
            if (!resources.includes(resource)) throw new errors.InvalidTarget()
            return {
              scope: scopes.join(' '),
              audience: resource,
              accessTokenFormat: tokens,
              accessTokenTTL: tokenSeconds,
              jwt: { sign: { alg: 'ES256' } },
            }
          },
        },
      },
      // A client registers with the scopes of its first challenge. They are removed, so that it can request others later.
      extraClientMetadata: {
        properties: ['any_scope'],
        validator(_ctx, _key, _value, metadata) {
          delete metadata.scope
        },
      },
      issueRefreshToken: (_ctx, client) => refreshTokens && client.grantTypeAllowed('refresh_token'),
      clientBasedCORS: () => true,
      findAccount: (_ctx, id) => ({ accountId: id, claims: () => ({ sub: id }) }),
      extraTokenClaims: (_ctx, token) =>
        'accountId' in token && token.accountId ? { email: ADA.email } : undefined,
      // All requested scopes are granted. A real server stores the consent of the user here.
      async loadExistingGrant(ctx) {
        const grant = new provider.Grant({
          accountId: ctx.oidc.session?.accountId ?? ADA.id,
          clientId: ctx.oidc.client?.clientId ?? '',
        })
        const scope = String(ctx.oidc.params?.scope ?? '')
        grant.addOIDCScope(scope)
        for (const resource of Object.keys(ctx.oidc.resourceServers ?? {}))
          grant.addResourceScope(resource, scope)
        await grant.save()
        return grant
      },
      interactions: { url: (_ctx, interaction) => `/interaction/${interaction.uid}` },
      ttl: {
        AccessToken: tokenSeconds,
        ClientCredentials: tokenSeconds,
        RefreshToken: 3600,
        AuthorizationCode: 60,
        IdToken: 3600,
        Interaction: 3600,
        Session: 3600,
        Grant: 3600,
      },
    })
  const provider: OidcProvider = await withoutNotices(create)

  // A real server shows its login and consent pages here. This one responds for the user.
  provider.use(async (ctx, next) => {
    if (!ctx.path.startsWith('/interaction/')) return next()
    const agreed = { login: { accountId: ADA.id }, consent: {} }
    ctx.redirect(await provider.interactionResult(ctx.req, ctx.res, agreed))
  })
  return provider
}

/**
 * Suppresses the warnings of `oidc-provider` about the Node.js version and its in-memory store.
 */
async function withoutNotices<T>(work: () => T | Promise<T>): Promise<T> {
  const { warn } = console
  console.warn = (...args: unknown[]) => {
    if (!/oidc-provider WARNING: (Unsupported runtime|a quick start)/.test(String(args[0]))) warn(...args)
  }
  try {
    return await work()
  } finally {
    console.warn = warn
  }
}
