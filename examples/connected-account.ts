// A tool that needs the user's account at a third party, such as a calendar with accounts of its own.
//
// Without an account, the tool asks the client to open a page of this server (URL-mode elicitation). The page first lets the
// user sign in at the authorization server of the MCP server, because the person in the browser may be someone else than the
// user of the MCP client: a link can be sent to anybody. Then it connects the account of the third party to that user.
import { randomUUID } from 'node:crypto'
import { inputRequired } from '@modelcontextprotocol/server'
import express, { type Express, type Request } from 'express'
import { LRUCache } from 'lru-cache'
import { createMcpAdapter, jwtVerifier, KitMcpRouter, KitToolError, mcpServer } from 'mcp-gatekit'
import * as openid from 'openid-client'

/** An OpenID provider, and this server's client there. */
export interface ProviderClient {
  readonly issuer: string
  readonly clientId: string
  readonly clientSecret: string
}

export interface ConnectedAccountOptions {
  /** The MCP endpoint as clients see it. */
  readonly resource: string
  /** The authorization server that issues tokens for this server. */
  readonly signIn: ProviderClient
  /** The provider of the accounts that users connect. */
  readonly thirdParty: ProviderClient & { readonly scope: string; readonly api: string }
}

/** A page that was opened in a browser and waits for its callback. */
interface Visit {
  readonly config: openid.Configuration
  readonly redirectUri: string
  readonly pkceCodeVerifier: string
  readonly expectedState: string
  readonly expectedNonce: string
  /** The user who has signed in; undefined before. */
  readonly user?: string
}

type Tokens = openid.TokenEndpointResponse & openid.TokenEndpointResponseHelpers

const COOKIE = 'connect'

/** Reads the metadata of a provider. `openid-client` then checks issuer, state, nonce, and PKCE. */
async function configured({ issuer, clientId, clientSecret }: ProviderClient): Promise<openid.Configuration> {
  const { protocol, hostname } = new URL(issuer)
  const isLocal = protocol === 'http:' && hostname === '127.0.0.1'
  return await openid.discovery(new URL(issuer), clientId, clientSecret, undefined, {
    execute: isLocal ? [openid.allowInsecureRequests] : [],
  })
}

export async function createConnectedAccountServer(options: ConnectedAccountOptions): Promise<Express> {
  const { resource, thirdParty } = options
  const { origin } = new URL(resource)
  const [signIn, provider] = await Promise.all([configured(options.signIn), configured(thirdParty)])
  // A real server keeps tokens encrypted in its database. Both maps are bounded.
  const accounts = new LRUCache<string, { token: string; expiresAtMs: number; refreshToken?: string }>({
    max: 10_000,
  })
  const visits = new LRUCache<string, Visit>({ max: 10_000, ttl: 10 * 60_000 })

  function keep(user: string, tokens: Tokens, refreshToken = tokens.refresh_token): void {
    accounts.set(user, {
      token: tokens.access_token,
      expiresAtMs: Date.now() + (tokens.expires_in ?? 0) * 1000,
      ...(refreshToken !== undefined && { refreshToken }),
    })
  }

  /** Returns a token for the third party, or undefined if the user has to connect an account. */
  async function tokenOf(user: string): Promise<string | undefined> {
    const account = accounts.get(user)
    if (account === undefined || Date.now() < account.expiresAtMs - 10_000) return account?.token
    accounts.delete(user)
    if (account.refreshToken === undefined) return undefined
    const renewed = await openid.refreshTokenGrant(provider, account.refreshToken).catch(() => undefined)
    if (renewed === undefined) return undefined
    keep(user, renewed, renewed.refresh_token ?? account.refreshToken)
    return renewed.access_token
  }

  const router = KitMcpRouter.create().tool(
    'list_events',
    {
      title: 'List events',
      description: 'Lists the events of the connected calendar',
      annotations: { readOnlyHint: true, openWorldHint: true },
    },
    async (_args, context) => {
      const token = await tokenOf(String(context.auth?.user?.id))
      if (token === undefined) {
        if (context.state !== undefined) throw new KitToolError('No calendar is connected yet.')
        const message = 'Connect your calendar to continue.'
        const connect = inputRequired.elicitUrl({ message, url: `${origin}/connect` })
        return context.inputRequired({ connect }, { asked: true })
      }
      const response = await fetch(thirdParty.api, { headers: { authorization: `Bearer ${token}` } })
      if (!response.ok) throw new KitToolError(`The calendar responded with ${response.status}.`)
      return await response.text()
    },
  )
  const adapter = createMcpAdapter({
    router,
    oauth: {
      issuer: options.signIn.issuer,
      resource,
      verifyToken: jwtVerifier(),
    },
  })

  /** Begins the authorization code flow in a browser. The cookie binds the callback to that browser. */
  async function begin(
    config: openid.Configuration,
    path: string,
    scope: string,
    user?: string,
  ): Promise<{ cookie: string; url: string }> {
    const visit: Visit = {
      config,
      redirectUri: origin + path,
      pkceCodeVerifier: openid.randomPKCECodeVerifier(),
      expectedState: openid.randomState(),
      expectedNonce: openid.randomNonce(),
      ...(user !== undefined && { user }),
    }
    const cookie = randomUUID()
    visits.set(cookie, visit)
    const url = openid.buildAuthorizationUrl(config, {
      redirect_uri: visit.redirectUri,
      scope,
      code_challenge: await openid.calculatePKCECodeChallenge(visit.pkceCodeVerifier),
      code_challenge_method: 'S256',
      state: visit.expectedState,
      nonce: visit.expectedNonce,
    })
    return { cookie: `${COOKIE}=${cookie}; HttpOnly; SameSite=Lax; Path=/connect`, url: url.href }
  }

  /** Ends the flow. A visit is used once. */
  async function finish(req: Request): Promise<{ visit: Visit; tokens: Tokens }> {
    const id = new RegExp(`(?:^|; )${COOKIE}=([\\w-]{36})(?:;|$)`).exec(req.headers.cookie ?? '')?.[1] ?? ''
    const visit = visits.get(id)
    visits.delete(id)
    if (visit === undefined || !visit.redirectUri.endsWith(req.path)) throw new Error('unknown visit')
    const url = new URL(req.originalUrl, origin)
    const tokens = await openid.authorizationCodeGrant(visit.config, url, { ...visit, idTokenExpected: true })
    return { visit, tokens }
  }

  const app = express()
  app.use(mcpServer(adapter))
  app.get('/connect', async (_req, res) => {
    const { cookie, url } = await begin(signIn, '/connect/signed-in', 'openid')
    res.setHeader('Set-Cookie', cookie).redirect(url)
  })
  app.get('/connect/signed-in', async (req, res) => {
    const { tokens } = await finish(req)
    const user = tokens.claims()?.sub
    const { cookie, url } = await begin(provider, '/connect/done', thirdParty.scope, user)
    res.setHeader('Set-Cookie', cookie).redirect(url)
  })
  app.get('/connect/done', async (req, res) => {
    const { visit, tokens } = await finish(req)
    if (visit.user === undefined) throw new Error('the user has not signed in')
    keep(visit.user, tokens)
    res.type('text').send('Your calendar is connected. You can close this page and return to your client.')
  })
  const failed: express.ErrorRequestHandler = (_error, _req, res, _next) => {
    res.status(400).type('text').send('The calendar could not be connected. Try again from your client.')
  }
  app.use(failed)
  return app
}
