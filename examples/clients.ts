import type { OAuthClientProvider, OAuthDiscoveryState, OAuthTokens } from '@modelcontextprotocol/client'
import {
  Client as ClientV2,
  StreamableHTTPClientTransport as TransportV2,
  UnauthorizedError as UnauthorizedV2,
} from '@modelcontextprotocol/client'
import { UnauthorizedError as UnauthorizedV1 } from '@modelcontextprotocol/sdk/client/auth.js'
import { Client as ClientV1 } from '@modelcontextprotocol/sdk/client/index.js'
import { StreamableHTTPClientTransport as TransportV1 } from '@modelcontextprotocol/sdk/client/streamableHttp.js'

type Fetch = typeof globalThis.fetch

const REDIRECT_URI = 'http://127.0.0.1:33418/callback'
const INFO = { name: 'notes-demo', version: '1.0.0' }

/** A client of the official SDK with its user. */
export interface DemoClient {
  readonly name: string
  /** Runs an action that the server must reject until the user consents. @throws if the server allows it */
  refused(action: () => Promise<unknown>): Promise<void>
  /** Signs in the user in the browser and exchanges the code for a token. */
  signIn(): Promise<void>
  /** Resolves with the negotiated protocol revision. */
  connect(): Promise<string>
  listTools(): Promise<string[]>
  callTool(name: string, args: Record<string, unknown>): Promise<string>
  close(): Promise<void>
}

export interface DemoClientOptions {
  readonly url: string
  readonly clientId: string
  /** Sends all requests, including those of the user's browser. */
  readonly fetch: Fetch
}

/** The state of a client and its user: tokens, PKCE verifier, and the next URL of the browser. */
class Wallet implements OAuthClientProvider {
  readonly redirectUrl = REDIRECT_URI
  readonly clientMetadata = { redirect_uris: [REDIRECT_URI], client_name: INFO.name }
  readonly #clientId: string
  #state = ''
  #tokens: OAuthTokens | undefined
  #verifier = ''
  #discovered: OAuthDiscoveryState | undefined
  #authorizationUrl: URL | undefined

  constructor(clientId: string) {
    this.#clientId = clientId
  }

  state() {
    this.#state = crypto.randomUUID()
    return this.#state
  }
  clientInformation() {
    return { client_id: this.#clientId }
  }
  tokens() {
    return this.#tokens
  }
  saveTokens(tokens: OAuthTokens) {
    this.#tokens = tokens
  }
  codeVerifier() {
    return this.#verifier
  }
  saveCodeVerifier(verifier: string) {
    this.#verifier = verifier
  }
  /** Kept until the callback, so that the code is sent only to the right server. */
  discoveryState() {
    return this.#discovered
  }
  saveDiscoveryState(state: OAuthDiscoveryState) {
    this.#discovered = state
  }
  redirectToAuthorization(url: URL) {
    this.#authorizationUrl = url
  }

  /** Opens the authorization page and returns the parameters of the redirect. */
  async signIn(browser: Browser): Promise<URLSearchParams> {
    const url = this.#authorizationUrl
    if (url === undefined) throw new Error('The client did not request authorization')
    this.#authorizationUrl = undefined
    const { searchParams } = await browser.follow(url, REDIRECT_URI)
    if (searchParams.get('state') !== this.#state) throw new Error('The state of the redirect does not match')
    return searchParams
  }
}

/** A minimal browser for a sign-in: it follows redirects and keeps cookies. */
export class Browser {
  readonly #fetch: Fetch
  readonly #cookies = new Map<string, string>()

  constructor(fetch: Fetch) {
    this.#fetch = fetch
  }

  /** Follows redirects up to `target`, which it does not request. */
  async follow(start: URL, target: string): Promise<URL> {
    let url = start
    for (let hop = 0; hop < 10; hop++) {
      const cookie = [...this.#cookies].map(([name, value]) => `${name}=${value}`).join('; ')
      const response = await this.#fetch(url, { redirect: 'manual', headers: { cookie } })
      for (const line of response.headers.getSetCookie()) {
        const [, name = '', value = ''] = /^([^=]+)=([^;]*)/.exec(line) ?? []
        this.#cookies.set(name, value)
      }
      const location = response.headers.get('location')
      if (location === null) throw new Error(`The authorization server responded with ${response.status}`)
      url = new URL(location, url)
      if (url.href.startsWith(target)) return url
    }
    throw new Error('Too many redirects')
  }
}

export type Era = 'legacy' | 'modern'

/** Creates a v2 client, with the handshake of 2025 or with revision 2026-07-28. */
export function v2Client(era: Era, options: DemoClientOptions): DemoClient {
  const mode = era === 'legacy' ? 'legacy' : { pin: '2026-07-28' }
  return demoClient(`v2 client, ${era} era`, options, UnauthorizedV2, (wallet) => {
    const client = new ClientV2(INFO, { versionNegotiation: { mode } })
    const transport = new TransportV2(new URL(options.url), { authProvider: wallet, fetch: options.fetch })
    return {
      client,
      connect: async () => {
        await client.connect(transport)
        return client.getNegotiatedProtocolVersion()
      },
      finishAuth: (callback) => transport.finishAuth(callback),
    }
  })
}

/** Creates a v1 client. */
export function v1Client(options: DemoClientOptions): DemoClient {
  return demoClient('v1 client', options, UnauthorizedV1, (wallet) => {
    const client = new ClientV1(INFO)
    const transport = new TransportV1(new URL(options.url), { authProvider: wallet, fetch: options.fetch })
    return {
      client,
      connect: async () => {
        // The types of v1 do not support `exactOptionalPropertyTypes`.
        await client.connect(transport as Parameters<typeof client.connect>[0])
        return transport.protocolVersion
      },
      finishAuth: (callback) => transport.finishAuth(callback.get('code') ?? ''),
    }
  })
}

/** The common part of both clients. */
interface Connection {
  readonly client: {
    listTools(): Promise<{ tools: { name: string }[] }>
    callTool(params: { name: string; arguments: Record<string, unknown> }): Promise<Record<string, unknown>>
    close(): Promise<void>
  }
  connect(): Promise<string | undefined>
  finishAuth(callback: URLSearchParams): Promise<void>
}

function demoClient(
  name: string,
  { clientId, fetch }: DemoClientOptions,
  Unauthorized: new () => Error,
  open: (wallet: Wallet) => Connection,
): DemoClient {
  const wallet = new Wallet(clientId)
  const browser = new Browser(fetch)
  let connection = open(wallet)

  return {
    name,
    async refused(action) {
      try {
        await action()
      } catch (error) {
        if (error instanceof Unauthorized) return
        throw error
      }
      throw new Error(`${name}: the server allowed a request that it should reject`)
    },
    async signIn() {
      await connection.finishAuth(await wallet.signIn(browser))
    },
    async connect() {
      // A transport can be started only once, even if the server rejects it.
      await connection.client.close()
      connection = open(wallet)
      return (await connection.connect()) ?? 'unknown'
    },
    async listTools() {
      const { tools } = await connection.client.listTools()
      return tools.map((tool) => tool.name)
    },
    async callTool(tool, args) {
      const { content, isError } = await connection.client.callTool({ name: tool, arguments: args })
      const text = (content as { text?: string }[]).map((part) => part.text ?? '').join('\n')
      if (isError === true) throw new Error(`${tool} failed: ${text}`)
      return text
    },
    close: () => connection.client.close(),
  }
}
