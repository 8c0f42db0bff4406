import {
  Client as ClientV2,
  type DpopSession,
  type OAuthClientProvider,
  type OAuthDiscoveryState,
  type StoredOAuthClientInformation,
  type StoredOAuthTokens,
  StreamableHTTPClientTransport as TransportV2,
  UnauthorizedError as UnauthorizedV2,
} from '@modelcontextprotocol/client'
import {
  type OAuthClientProvider as ProviderV1,
  UnauthorizedError as UnauthorizedV1,
} from '@modelcontextprotocol/sdk/client/auth.js'
import { Client as ClientV1 } from '@modelcontextprotocol/sdk/client/index.js'
import { StreamableHTTPClientTransport as TransportV1 } from '@modelcontextprotocol/sdk/client/streamableHttp.js'
import { decodeJwt, type JWTPayload } from 'jose'
import { Browser } from '../../examples/clients.ts'
import { LEGACY, MODERN } from '../support/mcp/wire.ts'

const REDIRECT_URI = 'http://127.0.0.1:33418/callback'
const INFO = { name: 'test', version: '1.0.0' }

/** One HTTP exchange of a client or of its user's browser. */
export interface Exchanged {
  readonly method: string
  readonly url: URL
  readonly status: number
  readonly challenge: string | null
  /** The headers of the request. */
  readonly headers: Headers
  /** The form in the body; empty if the body is not a form. */
  readonly form: URLSearchParams
}

/** A `fetch` that records its exchanges. */
export class Recorder {
  readonly exchanges: Exchanged[] = []

  readonly fetch: typeof globalThis.fetch = async (input, init) => {
    const url = new URL(input instanceof Request ? input.url : input)
    const response = await fetch(input, init)
    this.exchanges.push({
      method: init?.method ?? 'GET',
      url,
      status: response.status,
      challenge: response.headers.get('www-authenticate'),
      headers: new Headers(init?.headers),
      form: init?.body instanceof URLSearchParams ? init.body : new URLSearchParams(),
    })
    return response
  }

  /** Returns the exchanges so far with this path. */
  at(path: string): Exchanged[] {
    return this.exchanges.filter(({ url }) => url.pathname === path)
  }
}

export interface WalletOptions {
  /** A registered client, with the `issuer` that registered it. Without it, the client registers itself. */
  readonly client?: StoredOAuthClientInformation | undefined
  readonly dpop?: DpopSession | undefined
  /** The user, who opens a page and ends at the redirect URI. Defaults to a browser that only follows redirects. */
  readonly user?: ((url: URL, redirectUri: string) => Promise<URL>) | undefined
}

/** The credentials of a client and its user. It is a provider for both generations of the SDK. */
export class Wallet implements OAuthClientProvider {
  readonly redirectUrl = REDIRECT_URI
  readonly clientMetadata = {
    redirect_uris: [REDIRECT_URI],
    client_name: INFO.name,
    token_endpoint_auth_method: 'none',
    grant_types: ['authorization_code', 'refresh_token'],
    response_types: ['code'],
  }
  readonly dpop?: () => DpopSession
  readonly #user: (url: URL, redirectUri: string) => Promise<URL>
  #client: StoredOAuthClientInformation | undefined
  #tokens: StoredOAuthTokens | undefined
  #discovered: OAuthDiscoveryState | undefined
  #state = ''
  #verifier = ''
  #authorizationUrl: URL | undefined

  constructor(fetch: typeof globalThis.fetch, { client, dpop, user }: WalletOptions = {}) {
    const browser = new Browser(fetch)
    this.#user = user ?? ((url, redirectUri) => browser.follow(url, redirectUri))
    this.#client = client
    if (dpop !== undefined) this.dpop = () => dpop
  }

  /** Returns the claims of the access token. */
  get claims(): JWTPayload {
    return decodeJwt(this.#tokens?.access_token ?? '')
  }
  state() {
    this.#state = crypto.randomUUID()
    return this.#state
  }
  clientInformation() {
    return this.#client
  }
  saveClientInformation(client: StoredOAuthClientInformation) {
    this.#client = client
  }
  tokens() {
    return this.#tokens
  }
  saveTokens(tokens: StoredOAuthTokens) {
    this.#tokens = tokens
  }
  codeVerifier() {
    return this.#verifier
  }
  saveCodeVerifier(verifier: string) {
    this.#verifier = verifier
  }
  discoveryState() {
    return this.#discovered
  }
  saveDiscoveryState(state: OAuthDiscoveryState) {
    this.#discovered = state
  }
  redirectToAuthorization(url: URL) {
    this.#authorizationUrl = url
  }

  /** Signs in at the authorization server. Resolves with the parameters of the redirect to the client. */
  async signIn(): Promise<URLSearchParams> {
    const url = this.#authorizationUrl
    if (url === undefined) throw new Error('The client did not ask for authorization')
    this.#authorizationUrl = undefined
    const { searchParams } = await this.#user(url, REDIRECT_URI)
    if (searchParams.get('state') !== this.#state)
      throw new Error('The redirect has another state than the request')
    return searchParams
  }
}

/** One transport with its client. After a rejection, a new one is needed. */
export interface Connection {
  /** A client of v1 or v2. The tests use only methods that both have. */
  readonly client: any
  /** Connects. Resolves with the negotiated revision. */
  connect(): Promise<string | undefined>
  finishAuth(callback: URLSearchParams): Promise<void>
}

export interface OpenOptions {
  readonly fetch: typeof globalThis.fetch
  readonly provider: unknown
}

export interface SignInClient {
  readonly name: string
  readonly revision: string
  readonly Unauthorized: new () => Error
  open(url: string, options: OpenOptions): Connection
}

const v2 = (mode: 'legacy' | { pin: string }): SignInClient['open'] =>
  function open(url, { fetch, provider }) {
    const client = new ClientV2(INFO, { versionNegotiation: { mode } })
    const authProvider = provider as OAuthClientProvider
    const transport = new TransportV2(new URL(url), { authProvider, fetch })
    return {
      client,
      async connect() {
        await client.connect(transport)
        return client.getNegotiatedProtocolVersion()
      },
      finishAuth: (callback) => transport.finishAuth(callback),
    }
  }

const v1: SignInClient['open'] = (url, { fetch, provider }) => {
  const client = new ClientV1(INFO)
  const authProvider = provider as ProviderV1
  const transport = new TransportV1(new URL(url), { authProvider, fetch })
  return {
    client,
    async connect() {
      // v1's types do not compile with `exactOptionalPropertyTypes`.
      await client.connect(transport as Parameters<typeof client.connect>[0])
      return transport.protocolVersion
    },
    finishAuth: (callback) => transport.finishAuth(callback.get('code') ?? ''),
  }
}

export const V1: SignInClient = {
  name: 'v1 client',
  revision: LEGACY,
  Unauthorized: UnauthorizedV1,
  open: v1,
}
export const V2_LEGACY: SignInClient = {
  name: 'v2 client, legacy era',
  revision: LEGACY,
  Unauthorized: UnauthorizedV2,
  open: v2('legacy'),
}
export const V2_MODERN: SignInClient = {
  name: `v2 client, ${MODERN}`,
  revision: MODERN,
  Unauthorized: UnauthorizedV2,
  open: v2({ pin: MODERN }),
}
export const SIGN_IN_CLIENTS: readonly SignInClient[] = [V1, V2_LEGACY, V2_MODERN]

/** A client that keeps its wallet across connections. */
export class SignedIn {
  readonly recorder: Recorder = new Recorder()
  readonly wallet: Wallet
  readonly #kind: SignInClient
  readonly #open: () => Connection
  #connection: Connection

  constructor(kind: SignInClient, url: string, options: WalletOptions = {}) {
    const { fetch } = this.recorder
    this.wallet = new Wallet(fetch, options)
    this.#kind = kind
    this.#open = () => kind.open(url, { fetch, provider: this.wallet })
    this.#connection = this.#open()
  }

  get client(): any {
    return this.#connection.client
  }

  /** Runs `action`, which the server must reject. Then the user consents, and the client reconnects. Resolves with the revision. */
  async stepUp(action: () => Promise<unknown>): Promise<string | undefined> {
    const refused = await action().then(
      () => undefined,
      (error: unknown) => error,
    )
    if (refused === undefined) throw new Error('The server accepted a request that it should have rejected')
    if (!(refused instanceof this.#kind.Unauthorized)) throw refused
    await this.#connection.finishAuth(await this.wallet.signIn())
    await this.close()
    this.#connection = this.#open()
    return await this.#connection.connect()
  }

  /** Connects for the first time and signs in. Resolves with the negotiated revision. */
  async connect(): Promise<string | undefined> {
    return await this.stepUp(() => this.#connection.connect())
  }

  async close(): Promise<void> {
    await this.#connection.client.close()
  }
}
