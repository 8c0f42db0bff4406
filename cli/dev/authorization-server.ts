import { generateKeyPairSync, randomBytes } from 'node:crypto'
import { createServer, type IncomingMessage, type RequestListener } from 'node:http'
import type { Configuration, Provider as OidcProvider } from 'oidc-provider'
import { CONSENT_STYLE, consentPage } from './consent-page.ts'
import { forLoopbackHosts, listenOnLoopback, type Port, stopServer } from './loopback.ts'

export interface DevAuthorizationServerOptions {
  /** Where `oidc-provider` of the user's project is. */
  readonly oidcProvider: string
  readonly port: Port
  /** How long an access token is good for. */
  readonly tokenSeconds: number
}

/** An authorization server on this machine. */
export interface DevAuthorizationServer {
  readonly issuer: string
  close(): Promise<void>
}

type OidcProviderModule = typeof import('oidc-provider')

/** Scopes of OpenID Connect, which are no resource's. */
const OIDC_SCOPES = ['openid', 'offline_access']
/** Most scopes that are remembered as being asked for. */
const MAX_SCOPES = 1000
/** The maximum length of a scope that is remembered. */
const MAX_SCOPE_LENGTH = 256
/** Longest answer of the form. */
const MAX_FORM_BYTES = 65_536

const FORM_HEADERS = {
  'Cache-Control': 'no-store',
  'Content-Security-Policy': "default-src 'none'; style-src 'self'; base-uri 'none'; frame-ancestors 'none'",
  'Referrer-Policy': 'no-referrer',
  'X-Content-Type-Options': 'nosniff',
}

/**
 * An authorization server for trying an MCP server out, on loopback and in memory: `oidc-provider` with dynamic
 * registration, PKCE, resource indicators (RFC 8707) and access tokens as JWT whose `aud` is the one resource they are
 * for. It grants whatever scopes are asked for to whoever a person says they are, on a page that asks every time; its
 * keys are new with each start.
 */
export async function startDevAuthorizationServer({
  oidcProvider,
  port,
  tokenSeconds,
}: DevAuthorizationServerOptions): Promise<DevAuthorizationServer> {
  const http = createServer()
  const issuer = `http://127.0.0.1:${await listenOnLoopback(http, port, 'auth-port')}`
  try {
    const module = (await withoutNotices(() => import(oidcProvider))) as OidcProviderModule
    const provider = await withoutNotices(
      () => new module.Provider(issuer, configuration(module, tokenSeconds)),
    )
    addConsentPage(provider)
    http.on('request', forLoopbackHosts(forgettingSessions(provider.callback())))
  } catch (error) {
    await stopServer(http)
    throw error
  }
  return { issuer, close: () => stopServer(http) }
}

function configuration({ errors }: OidcProviderModule, tokenSeconds: number): Configuration {
  const { privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' })
  const scopes = new Set<string>()
  return {
    jwks: { keys: [{ ...privateKey.export({ format: 'jwk' }), alg: 'ES256', use: 'sig' }] },
    clientDefaults: { id_token_signed_response_alg: 'ES256' },
    cookies: { keys: [randomBytes(24).toString('base64url')] },
    scopes: OIDC_SCOPES,
    features: {
      devInteractions: { enabled: false },
      registration: { enabled: true },
      revocation: { enabled: true },
      dPoP: { enabled: true },
      resourceIndicators: {
        enabled: true,
        useGrantedResource: () => true,
        getResourceServerInfo(ctx, resource) {
          if (!/^https?:$/.test(new URL(resource).protocol)) throw new errors.InvalidTarget()
          for (const scope of scopesOf(ctx.oidc.params?.scope))
            if (scopes.size < MAX_SCOPES && scope.length <= MAX_SCOPE_LENGTH && !OIDC_SCOPES.includes(scope))
              scopes.add(scope)
          return {
            scope: [...scopes].join(' '),
            audience: resource,
            accessTokenFormat: 'jwt',
            accessTokenTTL: tokenSeconds,
            jwt: { sign: { alg: 'ES256' } },
          }
        },
      },
    },
    // A client that registers itself sends the scopes of the first challenge it met. Held to them, it could never ask
    // for more later on.
    extraClientMetadata: {
      properties: ['any_scope'],
      validator(_ctx, _key, _value, metadata) {
        delete metadata.scope
      },
    },
    pkce: { required: () => true },
    issueRefreshToken: (_ctx, client) => client.grantTypeAllowed('refresh_token'),
    expiresWithSession: () => false,
    clientBasedCORS: () => true,
    findAccount: (_ctx, id) => ({ accountId: id, claims: () => ({ sub: id }) }),
    // What was agreed to counts for the one answer, so that every request for scopes asks again.
    async loadExistingGrant({ oidc }) {
      const id = oidc.result?.consent?.grantId
      return id === undefined ? undefined : await oidc.provider.Grant.find(id)
    },
    interactions: { url: (_ctx, { uid }) => `/consent/${uid}` },
    renderError(ctx, { error, error_description: description }) {
      ctx.type = 'text/plain'
      ctx.body = [error, description].filter((text) => text !== undefined).join(': ')
    },
    ttl: {
      AccessToken: tokenSeconds,
      AuthorizationCode: 60,
      Grant: 14 * 86_400,
      IdToken: 3600,
      Interaction: 3600,
      RefreshToken: 14 * 86_400,
      Session: 3600,
    },
  }
}

function addConsentPage(provider: OidcProvider): void {
  let latestUser = 'dev'
  provider.use(async (ctx, next) => {
    // A request without scopes is one all the same; a token without any shows what the server's 403 is like.
    if (ctx.path === '/auth' && !scopesOf(ctx.query.scope).includes('openid'))
      ctx.query = { ...ctx.query, scope: ['openid', ...scopesOf(ctx.query.scope)].join(' ') }
    if (ctx.path === '/consent.css') {
      ctx.type = 'css'
      ctx.body = CONSENT_STYLE
      return
    }
    if (!ctx.path.startsWith('/consent/')) {
      await next()
      return
    }
    ctx.set(FORM_HEADERS)
    const { params, ...interaction } = await provider.interactionDetails(ctx.req, ctx.res)
    const clientId = String(params.client_id)
    const asked = scopesOf(params.scope)
    if (ctx.method !== 'POST') {
      const client = await provider.Client.find(clientId)
      ctx.type = 'html'
      ctx.body = consentPage({
        client: client?.clientName ?? clientId,
        redirectTo: String(params.redirect_uri),
        resource: params.resource === undefined ? undefined : [params.resource].flat().join(' and '),
        scopes: asked.filter((scope) => scope !== 'openid'),
        user: typeof params.login_hint === 'string' ? params.login_hint : latestUser,
      })
      return
    }
    const form = await readForm(ctx.req)
    const user = form.get('user')?.trim() ?? ''
    if (form.get('answer') !== 'allow' || user === '') {
      const refused = { error: 'access_denied', error_description: 'The user said no' }
      ctx.redirect(await provider.interactionResult(ctx.req, ctx.res, refused))
      return
    }
    latestUser = user
    const grant = new provider.Grant({ accountId: user, clientId })
    const ticked = new Set([...form.getAll('scope'), 'openid'])
    const granted = asked.filter((scope) => ticked.has(scope)).join(' ')
    const rejected = asked.filter((scope) => !ticked.has(scope)).join(' ')
    grant.addOIDCScope(granted)
    grant.rejectOIDCScope(rejected)
    for (const resource of [params.resource ?? []].flat() as string[]) {
      grant.addResourceScope(resource, granted)
      grant.rejectResourceScope(resource, rejected)
    }
    const consent = { grantId: await grant.save() }
    const result = { ...interaction.lastSubmission, login: { accountId: user }, consent }
    ctx.redirect(await provider.interactionResult(ctx.req, ctx.res, result))
  })
}

/** Takes the cookie of a session away, so that everybody is asked who they are each time. */
function forgettingSessions(listener: RequestListener): RequestListener {
  return (req, res) => {
    const cookies = req.headers.cookie?.split('; ').filter((cookie) => !/^_session(?:\.|=)/.test(cookie))
    if (cookies !== undefined) req.headers.cookie = cookies.join('; ')
    listener(req, res)
  }
}

async function readForm(req: IncomingMessage): Promise<URLSearchParams> {
  let text = ''
  for await (const chunk of req.setEncoding('utf8')) {
    // Whatever is too long is still read, as it has to be answered.
    if (text.length <= MAX_FORM_BYTES) text += chunk
  }
  return new URLSearchParams(text.length > MAX_FORM_BYTES ? '' : text)
}

function scopesOf(value: unknown): string[] {
  return typeof value === 'string' ? value.split(' ').filter((scope) => scope !== '') : []
}

/**
 * `oidc-provider` warns on the console that it wants a newer Node and a real database. Both are right, and neither
 * matters here. Whatever else is said meanwhile is let through.
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
