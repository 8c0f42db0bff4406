import { generateKeyPairSync, randomBytes } from 'node:crypto'
import { createServer } from 'node:http'
import type { Provider as OidcProvider } from 'oidc-provider'
import { listen, stop } from './listen.ts'

export interface AuthorizationServerOptions {
  /** Default 0: a free port. */
  readonly port?: number
  /** The MCP servers that tokens may be asked for, as RFC 8707 resource indicators. */
  readonly resources: readonly string[]
  /** The scopes that may be granted. */
  readonly scopes: readonly string[]
  /** Whether access tokens are JWT, or say nothing by themselves and have to be asked about (RFC 7662). Default `jwt`. */
  readonly tokens?: 'jwt' | 'opaque'
  /** How long an access token is good for. Default 3600. */
  readonly tokenSeconds?: number
  /** Whether a client that asks for the grant gets refresh tokens. Default false: Ada agrees again at once. */
  readonly refreshTokens?: boolean
}

export interface AuthorizationServer {
  readonly issuer: string
  readonly jwksUri: string
  /** A public client that is registered already; any port of 127.0.0.1 does for its redirect URI. */
  readonly clientId: string
  /** A confidential client, for the client credentials grant alone: a service of its own, without a user. */
  readonly service: { readonly clientId: string; readonly clientSecret: string }
  /** Where an MCP server asks about tokens, and what it is registered as. */
  readonly introspection: {
    readonly endpoint: string
    readonly clientId: string
    readonly clientSecret: string
  }
  /** A token of that service: for a script, nobody signs in. */
  issueToken(scopes: readonly string[], resource?: string): Promise<string>
  close(): Promise<void>
}

/** The one user of this server. The access tokens carry the e-mail, so that its way can be followed. */
export const ADA = { id: 'ada', email: 'ada@example.com' } as const

/** The MCP server as a client of this one: it may ask about tokens, and do nothing else. */
const INTROSPECTOR = 'notes-server'

/**
 * An OAuth 2.1 authorization server on loopback, for trying things out: `oidc-provider`, in memory,
 * with a user who signs in and consents by herself.
 *
 * It does what MCP asks for: metadata (RFC 8414), PKCE, resource indicators (RFC 8707), access tokens as
 * JWT (RFC 9068) whose `aud` is the one resource they are for, tokens bound to a key (DPoP, RFC 9449) for
 * clients that have one, and dynamic registration.
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
  http.on('request', provider.callback())

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
      if (answer.access_token === undefined) throw new Error(`No token was issued: ${answer.error}`)
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
      // A client that registers itself sends the scopes of the first challenge it met. Held to them, it
      // could never ask for more later on; so they are not kept.
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
      // Whatever is asked for is granted: this is where a real server remembers what the user agreed to.
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

  // Where a real server shows its login and consent pages, this one answers for the user.
  provider.use(async (ctx, next) => {
    if (!ctx.path.startsWith('/interaction/')) return next()
    const agreed = { login: { accountId: ADA.id }, consent: {} }
    ctx.redirect(await provider.interactionResult(ctx.req, ctx.res, agreed))
  })
  return provider
}

/**
 * `oidc-provider` warns on the console that it wants a newer Node and a real database. Both are right, and
 * neither matters here. Whatever else is said meanwhile is let through.
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
