import type * as OpenId from 'openid-client'
import { boundedFetch } from '../../base/http/bounded-fetch.ts'
import { refreshed } from '../../base/refreshed.ts'
import type { SignInClaims } from '../options.ts'
import type { ProviderSettings } from '../providers.ts'

type Library = typeof OpenId

/** The maximum time for one request to the provider, in seconds. */
const TIMEOUT_SECONDS = 10

/** The maximum size of the claims of a user, as JSON. */
const MAX_CLAIMS_LENGTH = 32_768

/** The time for which the metadata of the provider is used. */
const METADATA_MS = 3_600_000

/** The wishes of a client for the time at which the user signs in. The ID token states the time, so that the client can check it. */
export interface FreshnessRequest {
  readonly maxAgeSeconds?: number
  readonly prompt?: 'login'
  /** `true` if the user wants to choose another account. */
  readonly choosesAccount?: boolean
}

/** A sign-in that was started in a browser. */
export interface StartedSignIn {
  /** The address at which the user signs in. */
  readonly url: string
  readonly state: string
  readonly nonce: string
  readonly verifier: string
}

/** The tokens of the provider. */
export interface ProviderTokens {
  readonly accessToken: string
  /** The expiry in seconds since 1970. */
  readonly expiresAt?: number
  readonly refreshToken?: string
}

/** A user who has signed in at the provider. */
export interface SignedIn {
  readonly claims: SignInClaims
  readonly tokens: ProviderTokens
}

/** The client of this server at the provider. The library checks state, nonce, PKCE, issuer, and ID token. */
export class ProviderClient {
  readonly #settings: ProviderSettings
  readonly #redirectUri: string
  readonly #load: () => Promise<Library>
  /** The metadata of the provider, also while they are fetched. */
  readonly #configuration: () => Promise<OpenId.Configuration>

  constructor(settings: ProviderSettings, redirectUri: string, load: () => Promise<Library>) {
    this.#settings = settings
    this.#redirectUri = redirectUri
    this.#load = load
    const configure = async () => await this.#configure(await load())
    this.#configuration = refreshed(configure, METADATA_MS)
  }

  /** Starts a sign-in. Providers without OpenID cannot be asked for a new one. */
  async start({ maxAgeSeconds, prompt, choosesAccount }: FreshnessRequest): Promise<StartedSignIn> {
    const openid = await this.#load()
    const config = await this.#configuration()
    const verifier = openid.randomPKCECodeVerifier()
    const state = openid.randomState()
    const nonce = openid.randomNonce()
    const { scopes, parameters, endpoints, accountPrompt } = this.#settings
    const openIdParameters = {
      nonce,
      ...(prompt !== undefined && { prompt }),
      ...(maxAgeSeconds !== undefined && { max_age: String(maxAgeSeconds) }),
    }
    const url = openid.buildAuthorizationUrl(config, {
      ...parameters,
      redirect_uri: this.#redirectUri,
      scope: scopes.join(' '),
      code_challenge: await openid.calculatePKCECodeChallenge(verifier),
      code_challenge_method: 'S256',
      state,
      ...(choosesAccount === true && { prompt: accountPrompt }),
      ...(endpoints === undefined && openIdParameters),
    })
    return { url: url.href, state, nonce, verifier }
  }

  /**
   * Completes a sign-in.
   * @param query the query of the callback
   * @throws if the provider or the callback is not as expected.
   */
  async finish(query: string, { state, nonce, verifier }: Omit<StartedSignIn, 'url'>): Promise<SignedIn> {
    const openid = await this.#load()
    const config = await this.#configuration()
    const url = new URL(this.#redirectUri)
    url.search = query
    const isOpenId = this.#settings.endpoints === undefined
    const response = await openid.authorizationCodeGrant(config, url, {
      expectedState: state,
      pkceCodeVerifier: verifier,
      ...(isOpenId && { expectedNonce: nonce, idTokenExpected: true }),
    })
    const tokens = tokensIn(response)
    const claims = isOpenId
      ? await this.#openIdClaims(openid, config, response)
      : await this.#githubClaims(tokens.accessToken)
    if (JSON.stringify(claims).length > MAX_CLAIMS_LENGTH) throw new Error('the claims are too large')
    return { claims, tokens }
  }

  /** @throws if the provider does not issue new tokens. */
  async refresh(refreshToken: string): Promise<ProviderTokens> {
    const openid = await this.#load()
    const response = await openid.refreshTokenGrant(await this.#configuration(), refreshToken)
    return { refreshToken, ...tokensIn(response) }
  }

  async #openIdClaims(
    openid: Library,
    config: OpenId.Configuration,
    response: OpenId.TokenEndpointResponse & OpenId.TokenEndpointResponseHelpers,
  ): Promise<SignInClaims> {
    const claims = response.claims()
    if (claims === undefined || claims.sub === '') throw new Error('the ID token is missing')
    if (!this.#settings.readsUserInfo || config.serverMetadata().userinfo_endpoint === undefined)
      return { ...claims }
    const more = await openid.fetchUserInfo(config, response.access_token, claims.sub)
    return { ...more, ...claims }
  }

  async #githubClaims(token: string): Promise<SignInClaims> {
    const api = this.#settings.endpoints?.api ?? ''
    const user = (await githubJson(`${api}/user`, token)) as Record<string, unknown> | null
    const id = user?.id
    if (typeof id !== 'number' || !Number.isSafeInteger(id) || typeof user?.login !== 'string')
      throw new Error('the user has no id or login')
    const claims = { sub: String(id), login: user.login, name: user.name ?? user.login }
    if (!this.#settings.scopes.includes('user:email')) return claims
    const addresses = await githubJson(`${api}/user/emails`, token)
    // The address of the profile need not be verified.
    const primary = (Array.isArray(addresses) ? addresses : []).find(
      (address) =>
        address?.primary === true && address.verified === true && typeof address.email === 'string',
    )
    return primary === undefined ? claims : { ...claims, email: primary.email, email_verified: true }
  }

  async #configure(openid: Library): Promise<OpenId.Configuration> {
    const { issuer, endpoints, clientId, clientSecret } = this.#settings
    // http is only accepted for loopback hosts, when the options are checked.
    const isHttp = issuer.startsWith('http:')
    const customFetch = (url: string, init: object): Promise<Response> => boundedFetch(url, init)
    if (endpoints !== undefined) {
      const server = {
        issuer,
        authorization_endpoint: endpoints.authorization,
        token_endpoint: endpoints.token,
      }
      const authentication = openid.ClientSecretPost(clientSecret)
      const config = new openid.Configuration(server, clientId, undefined, authentication)
      config[openid.customFetch] = customFetch
      config.timeout = TIMEOUT_SECONDS
      if (isHttp) openid.allowInsecureRequests(config)
      return config
    }
    return await openid.discovery(new URL(issuer), clientId, clientSecret, undefined, {
      [openid.customFetch]: customFetch,
      timeout: TIMEOUT_SECONDS,
      execute: isHttp ? [openid.allowInsecureRequests] : [],
    })
  }
}

function tokensIn(response: OpenId.TokenEndpointResponse): ProviderTokens {
  const { access_token: accessToken, expires_in: seconds, refresh_token: refreshToken } = response
  return {
    accessToken,
    ...(seconds !== undefined && { expiresAt: Math.floor(Date.now() / 1000) + seconds }),
    ...(refreshToken !== undefined && { refreshToken }),
  }
}

async function githubJson(url: string, token: string): Promise<unknown> {
  const response = await boundedFetch(url, {
    headers: {
      accept: 'application/vnd.github+json',
      authorization: `Bearer ${token}`,
      'user-agent': 'mcp-gatekit',
      'x-github-api-version': '2022-11-28',
    },
    signal: AbortSignal.timeout(TIMEOUT_SECONDS * 1000),
  })
  if (response.status !== 200) throw new Error(`the API of the provider responded with ${response.status}`)
  return await response.json()
}
