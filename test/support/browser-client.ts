import {
  Client,
  type OAuthClientProvider,
  type StoredOAuthClientInformation,
  type StoredOAuthTokens,
  StreamableHTTPClientTransport,
  UnauthorizedError,
} from '@modelcontextprotocol/client'

/** The actions of a page with the official client. This file is bundled and runs in the browser. */
export interface BrowserClient {
  /** Connects, or resolves with the URL of the sign-in page. */
  connect(url: string): Promise<string | undefined>
  /** Exchanges the code of the redirect, and connects again. */
  finish(redirect: string): Promise<string | undefined>
  /** Resolves with the text of the result, or with the URL of a sign-in page. */
  call(name: string, args: object): Promise<string>
}

class PageWallet implements OAuthClientProvider {
  readonly redirectUrl: string =
    `${(globalThis as unknown as { location: { origin: string } }).location.origin}/callback`
  readonly clientMetadata = {
    client_name: 'A page',
    redirect_uris: [this.redirectUrl],
    token_endpoint_auth_method: 'none',
    grant_types: ['authorization_code', 'refresh_token'],
    response_types: ['code'],
  }
  signInUrl: URL | undefined
  #client: StoredOAuthClientInformation | undefined
  #tokens: StoredOAuthTokens | undefined
  #verifier = ''

  clientInformation = (): StoredOAuthClientInformation | undefined => this.#client
  saveClientInformation = (client: StoredOAuthClientInformation): void => {
    this.#client = client
  }
  tokens = (): StoredOAuthTokens | undefined => this.#tokens
  saveTokens = (tokens: StoredOAuthTokens): void => {
    this.#tokens = tokens
  }
  redirectToAuthorization = (url: URL): void => {
    this.signInUrl = url
  }
  saveCodeVerifier = (verifier: string): void => {
    this.#verifier = verifier
  }
  codeVerifier = (): string => this.#verifier
}

const wallet = new PageWallet()
let endpoint = ''
let client: Client
let transport: StreamableHTTPClientTransport

/** Runs `work`. Resolves with the URL of the sign-in page if the client needs one. */
async function orSignIn<T>(work: () => Promise<T>): Promise<T | string> {
  try {
    return await work()
  } catch (error) {
    if (error instanceof UnauthorizedError && wallet.signInUrl !== undefined) return wallet.signInUrl.href
    throw error
  }
}

async function connect(url: string): Promise<string | undefined> {
  endpoint = url
  client = new Client({ name: 'page', version: '1.0.0' })
  transport = new StreamableHTTPClientTransport(new URL(endpoint), { authProvider: wallet })
  return await orSignIn(async () => {
    await client.connect(transport)
    return undefined
  })
}

const page: BrowserClient = {
  connect,
  async finish(redirect) {
    await transport.finishAuth(new URL(redirect).searchParams)
    return await connect(endpoint)
  },
  async call(name, args) {
    return await orSignIn(async () => {
      const { content } = await client.callTool({ name, arguments: { ...args } })
      return (content as { text: string }[])[0]?.text ?? ''
    })
  },
}
Object.assign(globalThis, { mcpClient: page })
