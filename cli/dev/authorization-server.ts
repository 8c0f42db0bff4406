import { generateKeyPairSync, randomBytes } from 'node:crypto'
import { createServer, type IncomingMessage } from 'node:http'
import type { Configuration, Provider as OidcProvider } from 'oidc-provider'
import { withoutNotices } from '../../src/authorization/server/without-notices.ts'
import { CORS_RESPONSE_HEADERS, preflightHeaders } from '../../src/base/http/cors-headers.ts'
import { bodyOf, forLoopbackHosts, listenOnLoopback, type Port, stopServer } from '../loopback.ts'
import {
  type AuthorizationEvents,
  type AuthorizationEventsOptions,
  authorizationEvents,
} from './authorization-events.ts'
import { CONSENT_STYLE, consentPage } from './consent-page.ts'

export interface DevAuthorizationServerOptions {
  /** The URL of `oidc-provider` in the user's project. */
  readonly oidcProvider: string
  readonly port: Port
  /** The lifetime of an access token in seconds. */
  readonly tokenSeconds: number
  /** Receives what clients and users do. By default, nothing is emitted. */
  readonly events?: AuthorizationEventsOptions | undefined
}

/** A running authorization server on 127.0.0.1. */
export type DevAuthorizationServer = Awaited<ReturnType<typeof startDevAuthorizationServer>>

type OidcProviderModule = typeof import('oidc-provider')

/** The scopes of OpenID Connect, which do not belong to a resource. */
const OIDC_SCOPES = ['openid', 'offline_access']
/** The client that gets the token of the printed `curl` command. */
const OWN_CLIENT = 'mcp-gatekit-dev'
/** The maximum number of requested scopes that are kept. */
const MAX_SCOPES = 1000
/** The maximum length of a scope that is kept. */
const MAX_SCOPE_LENGTH = 256
/** The maximum size of a submitted form. */
const MAX_FORM_BYTES = 65_536

const FORM_HEADERS = {
  'Cache-Control': 'no-store',
  'Content-Security-Policy': "default-src 'none'; style-src 'self'; base-uri 'none'; frame-ancestors 'none'",
  'Referrer-Policy': 'no-referrer',
  'X-Content-Type-Options': 'nosniff',
}

/**
 * Starts an authorization server for development, on loopback and in memory: `oidc-provider` with dynamic registration,
 * PKCE, resource indicators (RFC 8707), and JWT access tokens whose `aud` is one resource. A consent page asks for the user
 * name at every sign-in and grants all requested scopes by default. The keys are new at every start.
 */
export async function startDevAuthorizationServer({
  oidcProvider,
  port,
  tokenSeconds,
  events: eventsOptions = { emit: () => undefined, fingerprint: () => '' },
}: DevAuthorizationServerOptions) {
  const http = createServer()
  const issuer = `http://127.0.0.1:${await listenOnLoopback(http, port, 'auth-port')}`
  try {
    const module = (await withoutNotices(() => import(oidcProvider))) as OidcProviderModule
    const provider = await withoutNotices(
      () => new module.Provider(issuer, configuration(module, tokenSeconds)),
    )
    openToPages(provider)
    /** Issues an access token for a resource to the user `dev`, as a sign-in with consent to the scopes would. */
    const issueToken = async (resource: string, scopes: readonly string[]): Promise<string> => {
      const client = await provider.Client.find(OWN_CLIENT)
      if (client === undefined) throw new Error(`The client ${OWN_CLIENT} is not registered`)
      const scope = scopes.join(' ')
      const token = new provider.AccessToken({ accountId: 'dev', client, grantId: '', gty: 'dev', scope })
      token.resourceServer = new provider.ResourceServer(
        resource,
        resourceServer(resource, scope, tokenSeconds),
      )
      return await token.save()
    }
    const events = authorizationEvents(eventsOptions)
    events.listenTo(provider)
    addConsentPage(provider, events)
    const handle = provider.callback()
    http.on(
      'request',
      forLoopbackHosts((req, res) => {
        events.observe(req, res)
        removeSession(req)
        handle(req, res)
      }),
    )
    return { issuer, issueToken, close: () => stopServer(http) }
  } catch (error) {
    await stopServer(http)
    throw error
  }
}

function configuration({ errors }: OidcProviderModule, tokenSeconds: number): Configuration {
  const { privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' })
  const scopes = new Set<string>()
  return {
    jwks: { keys: [{ ...privateKey.export({ format: 'jwk' }), alg: 'ES256', use: 'sig' }] },
    clientDefaults: { id_token_signed_response_alg: 'ES256' },
    cookies: { keys: [randomBytes(24).toString('base64url')] },
    scopes: OIDC_SCOPES,
    // Without grant types, no request can use it.
    clients: [
      {
        client_id: OWN_CLIENT,
        grant_types: [],
        response_types: [],
        redirect_uris: [],
        token_endpoint_auth_method: 'none',
      },
    ],
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
          return resourceServer(resource, [...scopes].join(' '), tokenSeconds)
        },
      },
    },
    // A client registers with the scopes of its first challenge. Without this, it could not request others later.
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
    // A grant applies to one request only, so that every request for scopes shows the consent page.
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

function resourceServer(audience: string, scope: string, accessTokenTTL: number) {
  return {
    scope,
    audience,
    accessTokenFormat: 'jwt' as const,
    accessTokenTTL,
    jwt: { sign: { alg: 'ES256' as const } },
  }
}

/** The paths that pages of other origins may request. The consent page and `/auth` are not among them. */
const OPEN = /^\/(?:\.well-known\/|(?:reg|token|jwks|me)(?:[/?]|$)|token\/)/

/**
 * Lets pages of every origin register, exchange codes, and read metadata. Credentials of the browser, such as cookies, are not
 * allowed. Removes the scopes from the metadata: some clients request only listed scopes, and those of the MCP server are not known.
 */
function openToPages(provider: OidcProvider): void {
  provider.use(async (ctx, next) => {
    const isOpen = ctx.get('origin') !== '' && OPEN.test(ctx.url)
    if (isOpen && ctx.method === 'OPTIONS' && ctx.get('access-control-request-method') !== '') {
      ctx.status = 204
      ctx.set(preflightHeaders(undefined))
      return
    }
    await next()
    if (ctx.oidc?.route === 'discovery') delete (ctx.body as { scopes_supported?: unknown }).scopes_supported
    // oidc-provider sets the same headers for some paths.
    if (isOpen) ctx.set(CORS_RESPONSE_HEADERS)
  })
}

function addConsentPage(provider: OidcProvider, events: AuthorizationEvents): void {
  let latestUser = 'dev'
  provider.use(async (ctx, next) => {
    // oidc-provider requires a scope. With openid, a client can get a token without scopes and see the server's 403.
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
    const request = { client: clientId, resource: params.resource }
    if (ctx.method !== 'POST') {
      events.emit('consent.shown', ctx.req, { ...request, scopes: params.scope })
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
    const form = new URLSearchParams(await bodyOf(ctx.req, MAX_FORM_BYTES))
    const user = form.get('user')?.trim() ?? ''
    if (form.get('answer') !== 'allow' || user === '') {
      events.emit('consent.denied', ctx.req, request)
      const denied = { error: 'access_denied', error_description: 'The user denied access' }
      ctx.redirect(await provider.interactionResult(ctx.req, ctx.res, denied))
      return
    }
    latestUser = user
    const grant = new provider.Grant({ accountId: user, clientId })
    const ticked = new Set([...form.getAll('scope'), 'openid'])
    const granted = asked.filter((scope) => ticked.has(scope)).join(' ')
    const rejected = asked.filter((scope) => !ticked.has(scope)).join(' ')
    events.emit('consent.given', ctx.req, { ...request, subject: user, scopes: granted })
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

/** Removes the session cookie, so that the consent page asks for the user name every time. */
function removeSession({ headers }: IncomingMessage): void {
  const cookies = headers.cookie?.split('; ').filter((cookie) => !/^_session(?:\.|=)/.test(cookie))
  if (cookies !== undefined) headers.cookie = cookies.join('; ')
}

function scopesOf(value: unknown): string[] {
  return typeof value === 'string' ? value.split(' ').filter((scope) => scope !== '') : []
}
