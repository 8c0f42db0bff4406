import { createHash, randomBytes } from 'node:crypto'
import { createServer } from 'node:http'
import { crc32 } from 'node:zlib'
import express from 'express'
import { listen as listenForever, stop } from '../../../examples/listen.ts'
import { createFacade } from '../../../src/authorization/facade.ts'
import {
  type AuthorizationFacade,
  type AuthorizationFacadeOptions,
  oidc,
  type SignInProvider,
} from '../../../src/authorization/index.ts'
import type { SafeFetchSettings } from '../../../src/base/http/safe-fetch.ts'
import { createMcpAdapter, KitMcpRouter, mcpServer } from '../../../src/index.ts'
import { listen } from '../listen.ts'
import { startOpenIdProvider, type TestProvider } from '../upstream/openid-provider.ts'
import { Browser } from './browser.ts'

export const SCOPES = { 'mcp:read': 'Read your notes', 'mcp:write': 'Change your notes' } as const
/** More requests than a test sends. */
const UNLIMITED = 1_000_000
export const CALLBACK = 'http://127.0.0.1:53682/callback'

/** A facade with an MCP server on one origin, and a provider whose user is Ada. */
export interface TestFacade {
  readonly origin: string
  readonly issuer: string
  readonly resource: string
  readonly facade: AuthorizationFacade
  readonly provider: TestProvider | undefined
  /** Registers a public client. */
  register(metadata?: object): Promise<RegisteredClient>
  /** Returns the address of an authorization request. */
  authorizeUrl(client: { readonly client_id: string }, changes?: Record<string, string | undefined>): URL
  /** Sends a request to the token endpoint. */
  token(parameters: Record<string, string>, headers?: Record<string, string>): Promise<TokenReply>
  /** Signs in and consents. Returns the parameters of the redirect to the client. */
  signIn(url: URL, browser?: Browser): Promise<URLSearchParams>
  /** Signs in, and exchanges the code. Registers a client unless one is given. Returns the response of the token endpoint. */
  connect(
    client?: { readonly client_id: string },
    changes?: Record<string, string | undefined>,
  ): Promise<Connection>
  /** Uses a refresh token. */
  refresh(client: { readonly client_id: string }, token: unknown): Promise<TokenReply>
  /** Calls a tool of the MCP server: `who`, or `upstream`, which returns the length of the token of the provider. */
  call(accessToken: string, tool?: string): Promise<Response>
  close(): Promise<void>
  /** Closes everything, for a facade that is kept open between tests. */
  end(): Promise<void>
}

export interface RegisteredClient {
  readonly client_id: string
  readonly client_secret?: string
  readonly [member: string]: unknown
}

export interface TokenReply {
  readonly status: number
  readonly body: Record<string, any>
}

/** The client and the code of a sign-in, and the response with its tokens. */
export interface Connection extends TokenReply {
  readonly client: { readonly client_id: string }
  readonly code: string | null
}

/** The verifier of all authorization requests, and its challenge. */
export const VERIFIER: string = randomBytes(32).toString('base64url')
export const CHALLENGE: string = createHash('sha256').update(VERIFIER).digest('base64url')

export interface TestFacadeSettings {
  readonly path?: string
  /** Puts the body parsers of Express in front of the facade. */
  readonly parsesBodies?: boolean
  /** Serves the page of connected applications. */
  readonly mountsAccount?: boolean
  /** The scopes that the facade requests from the OpenID provider. */
  readonly scopes?: readonly string[]
  readonly safeFetch?: SafeFetchSettings
  /** The provider, for the address of the callback. Defaults to an OpenID provider of its own. */
  readonly upstream?: (callback: string) => Promise<SignInProvider>
}

const open = new Set<TestFacade>()

afterEach(async () => {
  await Promise.all([...open].map((facade) => facade.close()))
  open.clear()
})

/** Starts a facade, which is closed when the test ends unless it is kept open. */
export async function startFacade(
  options: Partial<AuthorizationFacadeOptions> = {},
  settings: TestFacadeSettings = {},
  { keepOpen = false }: { readonly keepOpen?: boolean } = {},
): Promise<TestFacade> {
  const app = express()
  const server = createServer(app)
  const origin = keepOpen ? `http://127.0.0.1:${await listenForever(server, 0)}` : (await listen(app)).origin
  const { path = '' } = settings
  const issuer = origin + path
  const resource = `${origin}/mcp`
  const provider =
    settings.upstream === undefined
      ? await startOpenIdProvider('ada', [`${issuer}/signin/callback`])
      : undefined
  const upstream =
    (await settings.upstream?.(`${issuer}/signin/callback`)) ??
    oidc({
      issuer: String(provider?.issuer),
      clientId: String(provider?.clientId),
      clientSecret: String(provider?.clientSecret),
      scopes: settings.scopes ?? ['openid'],
    })
  const facade = createFacade(
    {
      url: issuer,
      resource,
      upstream,
      scopes: SCOPES,
      allow: 'everyone',
      ...options,
      clients: { maxRegistrationsPerMinute: UNLIMITED, ...options.clients },
    },
    settings.safeFetch ?? {},
  )
  const router = KitMcpRouter.create()
    .tool('who', { description: 'Names the user', scopes: ['mcp:read'] }, async (_args, { auth }) =>
      JSON.stringify({ id: (auth?.user as { id?: string })?.id, client: auth?.clientId }),
    )
    .tool(
      'upstream',
      { description: 'Returns a checksum of the token of the provider' },
      async (_args, context) => String(crc32((await facade.upstreamToken.for(context.auth)).token)),
    )
  if (settings.parsesBodies === true) app.use(express.urlencoded({ extended: false }), express.json())
  app.use(facade.router)
  if (settings.mountsAccount === true) app.use(facade.account)
  app.use(mcpServer(createMcpAdapter({ router, oauth: facade.oauth })))
  const test: TestFacade = {
    origin,
    issuer,
    resource,
    facade,
    provider,
    async register(metadata = {}) {
      const response = await fetch(`${issuer}/register`, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify({
          client_name: 'Desk',
          redirect_uris: [CALLBACK],
          grant_types: ['authorization_code', 'refresh_token'],
          response_types: ['code'],
          token_endpoint_auth_method: 'none',
          ...metadata,
        }),
      })
      return (await response.json()) as RegisteredClient
    },
    authorizeUrl(client, changes = {}) {
      const url = new URL(`${issuer}/authorize`)
      const parameters = {
        response_type: 'code',
        client_id: client.client_id,
        redirect_uri: CALLBACK,
        scope: 'mcp:read',
        state: 'state-of-the-client',
        code_challenge: CHALLENGE,
        code_challenge_method: 'S256',
        resource,
        ...changes,
      }
      for (const [name, value] of Object.entries(parameters))
        if (value !== undefined) url.searchParams.set(name, value)
      return url
    },
    async token(parameters, headers = {}) {
      const response = await fetch(`${issuer}/token`, {
        method: 'POST',
        body: new URLSearchParams(parameters),
        headers,
      })
      return { status: response.status, body: (await response.json()) as Record<string, any> }
    },
    async signIn(url, browser = new Browser()) {
      const page = await browser.open(url.href, toClient)
      const end = page.status === 200 ? await browser.submit(page, 'allow', toClient) : page
      if (!toClient(end.url))
        throw new Error(`no redirect to the client: ${end.status} ${end.url} ${end.body}`)
      return new URL(end.url).searchParams
    },
    async connect(client, changes) {
      const by = client ?? (await test.register())
      const code = (await test.signIn(test.authorizeUrl(by, changes))).get('code')
      return { client: by, code, ...(await test.token(codeGrant(by, code))) }
    },
    refresh: (client, token) => test.token(refreshGrant(client, token)),
    call: (accessToken, tool = 'who') =>
      fetch(resource, {
        method: 'POST',
        headers: {
          accept: 'application/json, text/event-stream',
          authorization: `Bearer ${accessToken}`,
          'content-type': 'application/json',
        },
        body: JSON.stringify({
          jsonrpc: '2.0',
          id: 1,
          method: 'tools/call',
          params: { name: tool, arguments: {} },
        }),
      }),
    async close() {
      await facade.close()
      await provider?.close()
    },
    async end() {
      await stop(server)
      await test.close()
    },
  }
  if (!keepOpen) open.add(test)
  return test
}

/** Returns `true` for the redirect URI of the test client. */
export function toClient(url: string): boolean {
  return url.startsWith('http://127.0.0.1:53682/')
}

/** The parameters that exchange a code. */
export function codeGrant(
  client: { readonly client_id: string },
  code: string | null,
): Record<string, string> {
  return {
    grant_type: 'authorization_code',
    client_id: client.client_id,
    code: String(code),
    redirect_uri: CALLBACK,
    code_verifier: VERIFIER,
  }
}

/** The parameters that use a refresh token. */
export function refreshGrant(client: { readonly client_id: string }, token: unknown): Record<string, string> {
  return { grant_type: 'refresh_token', client_id: client.client_id, refresh_token: String(token) }
}
