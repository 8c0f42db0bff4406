import type * as OAuth from 'oauth4webapi'
import type { AuthorizationServer, ClientAuth, TokenEndpointResponse } from 'oauth4webapi'
import { cutText } from '../base/cut-text.ts'
import { boundedFetch } from '../base/http/bounded-fetch.ts'
import { eraseSecrets } from '../base/http/erase-secrets.ts'
import { retryAfterOption } from '../base/http/retry-after.ts'
import { untilAborted } from '../base/http/until-aborted.ts'
import { isLoopbackHostname } from '../base/options/option-checks.ts'
import { refreshed } from '../base/refreshed.ts'
import { IssuerDiscovery } from '../oauth/verifiers/issuer-discovery.ts'
import { UpstreamConsentError, UpstreamUnavailableError } from './errors.ts'
import type { ResolvedUpstreamTokenOptions } from './options.ts'

/** A token for the upstream API. */
export interface UpstreamAccessToken {
  /** The access token. */
  readonly token: string
  /** Its expiry in seconds since 1970; `undefined` if the authorization server did not name it. */
  readonly expiresAt: number | undefined
}

/** The time for which the metadata of an issuer is used. */
const METADATA_MS = 3_600_000

/** The maximum length of a token, in characters. */
const MAX_TOKEN_LENGTH = 65_536

/** The maximum length of an error description in a message, in characters. */
const MAX_DESCRIPTION_LENGTH = 500
/** The maximum length of an error code in a message, in characters. */
const MAX_CODE_LENGTH = 100

const ACCESS_TOKEN_TYPE = 'urn:ietf:params:oauth:token-type:access_token'

/** The types of issued tokens that are access tokens (RFC 8693 §3). */
const ISSUED_TYPES: readonly unknown[] = [
  undefined,
  null,
  ACCESS_TOKEN_TYPE,
  'urn:ietf:params:oauth:token-type:jwt',
]

/** The errors that a new sign-in or a consent of the user resolves. */
const CONSENT_ERRORS: ReadonlySet<string> = new Set([
  'interaction_required',
  'consent_required',
  'login_required',
  'invalid_grant',
])

/** Loaded with the first token, so that importing the package stays cheap. */
let oauth: typeof OAuth | undefined

/** Exchanges access tokens of users at the token endpoint. */
export class TokenEndpoint {
  readonly #options: ResolvedUpstreamTokenOptions
  readonly #metadata: () => Promise<AuthorizationServer>

  constructor(options: ResolvedUpstreamTokenOptions) {
    this.#options = options
    const { tokenEndpoint, issuer = '', allowInsecureHttp, timeoutMs } = options
    if (tokenEndpoint !== undefined) {
      this.#metadata = async () => ({ issuer: tokenEndpoint, token_endpoint: tokenEndpoint })
      return
    }
    const discovery = new IssuerDiscovery(issuer, allowInsecureHttp, timeoutMs)
    this.#metadata = refreshed(() => discovery.find((found) => this.#checked(found)), METADATA_MS)
  }

  /**
   * Requests a token for the upstream API.
   * @param subjectToken the token that the client sent to this server
   * @throws {UpstreamUnavailableError} if the authorization server is down, slow, or overloaded.
   * @throws {UpstreamConsentError} if the user must sign in again or consent.
   */
  async exchange(subjectToken: string): Promise<UpstreamAccessToken> {
    const signal = AbortSignal.timeout(this.#options.timeoutMs)
    oauth ??= await import('oauth4webapi')
    const server = await this.#server(signal)
    const client = { client_id: this.#options.clientId }
    let response: Response
    try {
      response = await oauth.genericTokenEndpointRequest(
        server,
        client,
        this.#authentication(oauth, server),
        this.#options.style === 'entra-obo'
          ? 'urn:ietf:params:oauth:grant-type:jwt-bearer'
          : 'urn:ietf:params:oauth:grant-type:token-exchange',
        this.#parameters(subjectToken),
        {
          signal,
          // The options and the metadata have been checked for http.
          [oauth.allowInsecureRequests]: true,
          [oauth.customFetch]: boundedFetch,
        },
      )
    } catch (error) {
      throw new UpstreamUnavailableError({ cause: this.#withMessageOnly(error, subjectToken) })
    }
    if (response.status >= 500 || response.status === 429 || response.status === 408) {
      const cause = new Error(`the token endpoint responded with ${response.status}`)
      throw new UpstreamUnavailableError({ cause, ...retryAfterOption(response.headers) })
    }
    try {
      const body = await oauth.processGenericTokenEndpointResponse(server, client, response)
      return accessTokenIn(body, subjectToken)
    } catch (error) {
      throw this.#failure(oauth, error, subjectToken)
    }
  }

  #parameters(subjectToken: string): URLSearchParams {
    const { style, audience, resource, scopes } = this.#options
    const parameters = new URLSearchParams()
    if (style === 'entra-obo') {
      parameters.set('assertion', subjectToken)
      parameters.set('requested_token_use', 'on_behalf_of')
    } else {
      parameters.set('subject_token', subjectToken)
      parameters.set('subject_token_type', ACCESS_TOKEN_TYPE)
      parameters.set('requested_token_type', ACCESS_TOKEN_TYPE)
      for (const value of audience) parameters.append('audience', value)
      for (const value of resource) parameters.append('resource', value)
    }
    if (scopes.length > 0) parameters.set('scope', scopes.join(' '))
    return parameters
  }

  #authentication(library: typeof OAuth, server: AuthorizationServer): ClientAuth {
    const { clientAuthentication, clientSecret = '', style } = this.#options
    if (clientAuthentication !== undefined) return clientAuthentication
    const methods = server.token_endpoint_auth_methods_supported
    const inBody =
      methods === undefined
        ? style === 'entra-obo'
        : !methods.includes('client_secret_basic') && methods.includes('client_secret_post')
    return inBody ? library.ClientSecretPost(clientSecret) : library.ClientSecretBasic(clientSecret)
  }

  async #server(signal: AbortSignal): Promise<AuthorizationServer> {
    try {
      return await untilAborted(this.#metadata(), signal)
    } catch (cause) {
      throw new UpstreamUnavailableError({ cause })
    }
  }

  /** @throws if the metadata does not name a token endpoint to which tokens may be sent. */
  #checked(server: AuthorizationServer): AuthorizationServer {
    if (server.token_endpoint === undefined) throw new Error('the metadata document has no token_endpoint')
    const { protocol, hostname } = new URL(server.token_endpoint)
    // A remote issuer must not make this machine send tokens to itself.
    const isLocal = isLoopbackHostname(hostname) && isLoopbackHostname(new URL(server.issuer).hostname)
    if (protocol !== 'https:' && !this.#options.allowInsecureHttp && !isLocal)
      throw new Error('token_endpoint is not https')
    return server
  }

  /** Removes what a server that repeats the request would reveal. */
  #withoutSecrets(text: string, subjectToken: string): string {
    return eraseSecrets(text, [subjectToken, this.#options.clientSecret ?? ''])
  }

  /** Returns an error with the message only: the properties of errors may contain the response, which has tokens. */
  #withMessageOnly(error: unknown, subjectToken: string): Error {
    const { name, message } = error instanceof Error ? error : new Error('unknown error')
    const copy = new Error(this.#withoutSecrets(message, subjectToken))
    copy.name = name
    return copy
  }

  #failure(library: typeof OAuth, error: unknown, subjectToken: string): Error {
    if (!(error instanceof library.ResponseBodyError)) {
      if (error instanceof library.WWWAuthenticateChallengeError)
        return new Error('the token endpoint rejected the credentials of this server')
      return new UpstreamUnavailableError({ cause: this.#withMessageOnly(error, subjectToken) })
    }
    const { error: code, error_description: description = '', cause: body } = error
    const text = cutText(this.#withoutSecrets(String(description), subjectToken), MAX_DESCRIPTION_LENGTH)
    const shown = this.#withoutSecrets(code, subjectToken).slice(0, MAX_CODE_LENGTH)
    const described = text === '' ? '' : `: ${text}`
    const cause = new Error(`the token endpoint responded with ${JSON.stringify(shown)}${described}`)
    if (code === 'temporarily_unavailable' || code === 'server_error')
      return new UpstreamUnavailableError({ cause })
    if (!CONSENT_ERRORS.has(code)) return cause
    const { claims } = body
    const { scopes } = this.#options
    return new UpstreamConsentError({
      error: code,
      claims: typeof claims === 'string' ? claims : undefined,
      scopes,
      cause,
    })
  }
}

/** @throws if the response does not contain a Bearer token that this server may send to the upstream API. */
function accessTokenIn(response: TokenEndpointResponse, subjectToken: string): UpstreamAccessToken {
  const { access_token: token, token_type: type, expires_in: seconds, issued_token_type: issued } = response
  if (type !== 'bearer') throw new Error('the token is not a Bearer token')
  if (!ISSUED_TYPES.includes(issued)) throw new Error('the token is not an access token')
  if (token.length > MAX_TOKEN_LENGTH || !/^[\x21-\x7e]+$/.test(token))
    throw new Error('the token cannot be sent in a header')
  if (token === subjectToken) throw new Error('the authorization server returned the token of the client')
  const expiresAt = seconds === undefined ? undefined : Math.floor(Date.now() / 1000) + seconds
  return { token, expiresAt }
}
