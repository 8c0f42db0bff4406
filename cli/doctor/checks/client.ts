import {
  type ClientProfile,
  type EndpointRequest,
  type MetadataPlace,
  PROFILES,
} from '../../clients/profiles.ts'
import { quirkOf } from '../../clients/quirks.ts'
import type { Challenge } from '../challenges.ts'
import { documentOf, followRedirects, metadataUrls } from '../documents.ts'
import type { CheckFunctions, Examination } from '../examination.ts'
import { type Finding, fail, InconclusiveError, ok, Stop, warn } from '../finding.ts'
import { answerOf, type HttpExchange, NoResponseError } from '../http-exchange.ts'
import { quote, quoteAll, quoteValue } from '../quote.ts'
import { type JsonObject, textsOf, urlOf, withoutSlash } from '../values.ts'
import {
  acceptsMetadataDocuments,
  acceptsPublicClients,
  discoveryUrls,
  formUrl,
  isAcceptedIssuer,
  isHttpUrl,
} from './issuers.ts'
import { isResourceOf } from './metadata.ts'
import { firstResponse, requestEndpoint } from './server.ts'

export const CLIENT: CheckFunctions = {
  async 'client.discovery'(examination) {
    const { as } = examination.options
    if (as === undefined) throw new InconclusiveError('only with --as')
    return await new Discovery(examination, PROFILES[as]).run()
  },
}

/** Repeats the requests of one client, up to the sign-in. */
class Discovery {
  readonly #examination: Examination
  readonly #client: ClientProfile
  /** The requests so far, each with its result. */
  readonly #requests: string[] = []
  /** Facts that do not stop the client. */
  readonly #notes: string[] = []
  /** Suggestions for problems that do not stop the client. */
  readonly #hints: string[] = []

  constructor(examination: Examination, client: ClientProfile) {
    this.#examination = examination
    this.#client = client
  }

  async run(): Promise<Finding> {
    const { name, hosted } = this.#client
    if (hosted && this.#examination.isLocal)
      this.#notes.push(`${name} connects from the internet and needs a public URL of this server`)
    const requests = this.#requests
    try {
      const result = (await this.#signIn()) ? 'gets to the sign-in' : 'connects without a sign-in'
      const sent = `${name} ${result} after ${requests.length} requests: ${requests.join(', ')}`
      const seen = [sent, ...this.#notes].join('; ')
      return this.#hints.length === 0 ? ok(seen) : warn(seen, this.#hints.join('; '))
    } catch (error) {
      if (!(error instanceof Stop)) throw error
      const seen = `${name} stops at request ${requests.length}, ${requests.at(-1)}: ${error.message}`
      const before = requests.slice(0, -1).join(', ')
      return fail(before === '' ? seen : `${seen}; requests before: ${before}`, error.hint)
    }
  }

  /** Sends a request to the MCP endpoint. @throws {Stop} without a response */
  async #endpoint(request: EndpointRequest): Promise<HttpExchange> {
    const path = quote(this.#examination.url.pathname)
    const label = `${request.method} ${path} with User-Agent ${request.userAgent ?? 'none'}`
    const response = await this.#note(label, requestEndpoint(this.#examination, request))
    if (response !== undefined) return response
    throw new Stop('no response', 'allow this client in the firewall: see edge.user-agents')
  }

  /** Returns the JSON object at a URL, or `undefined`. */
  async #documentAt(url: URL | undefined): Promise<JsonObject | undefined> {
    return url === undefined ? undefined : documentOf(await this.#get(url))
  }

  /**
   * Fetches a document, and follows redirects. Returns `undefined` without a response.
   * @param accept the `Accept` header, if it differs from that of other requests for metadata
   */
  #get(url: URL, accept?: string): Promise<HttpExchange | undefined> {
    const headers = { ...this.#client.metadataHeaders, ...(accept !== undefined && { accept }) }
    return followRedirects(url, async (at) => {
      const isSameOrigin = at.origin === this.#examination.url.origin
      const label = `GET ${quote(isSameOrigin ? at.pathname : `${at.origin}${at.pathname}`)}`
      if (this.#examination.mayFetch(at))
        return await this.#note(label, this.#examination.fetchPlain('GET', at, { headers }))
      this.#requests.push(`${label} (not sent, because it is not https)`)
      return undefined
    })
  }

  /** Adds a request to the list. Returns the response, or `undefined` without one. */
  async #note(label: string, request: Promise<HttpExchange>): Promise<HttpExchange | undefined> {
    const answer = await answerOf(request)
    const isMissing = answer instanceof NoResponseError
    this.#requests.push(`${label} (${isMissing ? answer.detail : answer.status})`)
    return isMissing ? undefined : answer
  }

  /** Returns `false` if the server requires no sign-in. @throws {Stop} */
  async #signIn(): Promise<boolean> {
    const { isOpen, challenge } = await this.#begin()
    if (isOpen) return false
    const resource = await this.#resource(challenge)
    const metadata = await this.#issuer(resource)
    this.#checkFlow(metadata)
    this.#noteRegistration(metadata)
    this.#noteScopes(challenge, resource, metadata)
    await this.#afterSignIn()
    return true
  }

  #has(quirk: string): boolean {
    return quirkOf(quirk).affected.includes(this.#client.name)
  }

  /** Returns the source of the first of these quirks that the client has, in parentheses. */
  #sourceOf(...quirks: readonly string[]): string {
    const quirk = quirks.find((id) => this.#has(id))
    return quirk === undefined ? '' : ` (${quirkOf(quirk).source})`
  }

  /** Sends the requests to the endpoint. @throws {Stop} unless the server responds with 401, or without a gate */
  async #begin(): Promise<{ readonly isOpen: boolean; readonly challenge: Challenge | undefined }> {
    let challenge: Challenge | undefined
    let isOpen = false
    const { requests, requestAfterSignIn: later } = this.#client
    for (const request of requests) {
      const response = await this.#endpoint(request)
      if (response.status === 401) challenge ??= response.challenge
      else if (request.method === 'POST') isOpen = this.#checkOpen(response)
    }
    // Without a POST, the client connects before it searches for a sign-in, unless the server requires one.
    const connects = !requests.some(({ method }) => method === 'POST')
    if (later !== undefined && connects && (await firstResponse(this.#examination)).status !== 401) {
      const response = await this.#endpoint(later)
      isOpen = response.status !== 401 && this.#checkOpen(response)
    }
    if (this.#has('error-in-challenge') && challenge?.parameters.has('error') === true) {
      this.#notes.push('the challenge contains error, with which Codex Desktop starts no sign-in')
      this.#hints.push(
        `send no error if the request has no token (mcp-gatekit: challengeWithoutToken: 'bare')${this.#sourceOf('error-in-challenge')}`,
      )
    }
    return { isOpen, challenge }
  }

  /** Returns `true` for the response of an open server. @throws {Stop} for any other response */
  #checkOpen(response: HttpExchange): boolean {
    const { status, summary, redirect } = response
    // A JSON-RPC error is a response of the MCP server: it does not support the message.
    if (response.message !== undefined && status !== 403) return true
    if (status === 403)
      throw new Stop(
        '403 instead of 401, as from a firewall',
        'respond with 401 and a challenge, and allow this client in the firewall: see edge.user-agents',
      )
    if (redirect !== undefined)
      throw new Stop(redirect, 'respond at the URL that users enter, or give them the target URL')
    throw new Stop(
      `${summary} instead of a 401 or a JSON-RPC response`,
      'use the URL of the MCP endpoint; see server.endpoint',
    )
  }

  /** Returns the resource metadata, or `undefined` if the client continues without it. @throws {Stop} */
  async #resource(challenge: Challenge | undefined): Promise<JsonObject | undefined> {
    const { places, searchesOn, requiredPlaces, acceptsServerAsIssuer } = this.#client
    const url = urlOf(challenge?.parameters.get('resource_metadata'))
    const isDecided = url !== undefined && places.includes('challenge') && !searchesOn
    for (const place of isDecided ? (['challenge'] as const) : places) {
      const document = await this.#documentAt(this.#placeUrl(place, url))
      if (document === undefined) continue
      this.#checkResource(document.resource)
      if (place === 'challenge' && requiredPlaces !== undefined) await this.#require(requiredPlaces, url)
      else if (place === 'root' && requiredPlaces?.includes('root') === false) await this.#require(['path'])
      return document
    }
    if (acceptsServerAsIssuer) return undefined
    throw new Stop(
      'the resource metadata is missing',
      `serve it at ${metadataUrls(this.#examination.url).path.href} (RFC 9728)${this.#challengeHint(url)}`,
    )
  }

  #challengeHint(url: URL | undefined): string {
    const { name, places } = this.#client
    if (url === undefined || places.includes('challenge')) return ''
    return `; ${name} does not read resource_metadata of the challenge`
  }

  #placeUrl(place: MetadataPlace, challenged?: URL): URL | undefined {
    const { url } = this.#examination
    const { path, root } = metadataUrls(url)
    if (place === 'challenge') return challenged
    if (place === 'path') return path
    if (place === 'root') return path.href === root.href ? undefined : root
    return url.pathname === '/'
      ? undefined
      : new URL(`${withoutSlash(url.pathname)}${root.pathname}`, url.origin)
  }

  /** @throws {Stop} if none of these well-known places has the document */
  async #require(required: readonly MetadataPlace[], challenged?: URL): Promise<void> {
    const urls = required.flatMap((place) => this.#placeUrl(place) ?? [])
    if (urls.some(({ href }) => href === challenged?.href)) return
    for (const url of urls) if ((await this.#documentAt(url)) !== undefined) return
    throw new Stop(
      `the resource metadata is not at ${quote(urls.map(({ href }) => href).join(' or '))}, which ${this.#client.name} needs later`,
      `serve it there, too (RFC 9728 §3.1; mcp-gatekit: leave resourceMetadataPath unset)${this.#sourceOf('needs-path-metadata', 'forgets-metadata-url')}`,
    )
  }

  #checkResource(resource: unknown): void {
    const { url } = this.#examination
    const { name, resource: rule, source } = this.#client
    const given = urlOf(resource)
    const isRight =
      rule === 'parent'
        ? isResourceOf(resource, url)
        : // Clients ignore the query of the URL of the server.
          given?.origin === url.origin && given.pathname === url.pathname
    if (isRight) return
    throw new Stop(
      `resource is ${quoteValue(resource)}, and ${name} accepts only ${rule === 'exact' ? 'the URL of the server' : 'the URL of the server or a parent of it'}`,
      `set resource to ${url.origin}${url.pathname}, including the trailing slash if users enter one (mcp-gatekit: option resource; ${source})`,
    )
  }

  /** Returns the metadata of the authorization server. @throws {Stop} if the client does not find it */
  async #issuer(resource: JsonObject | undefined): Promise<JsonObject> {
    const { origin } = this.#examination.url
    const issuer = textsOf(resource, 'authorization_servers')?.[0] ?? origin
    if (!isHttpUrl(issuer)) throw new Stop(`the issuer is ${quote(issuer)}`, 'use an https URL')
    const found = await this.#searchIssuer(issuer)
    if (found !== undefined) return found
    // A client that guesses on the host of the MCP server searches there before.
    if (this.#client.guesses === 'server' && new URL(issuer).origin !== origin) {
      const own = await this.#searchIssuer(origin)
      if (own !== undefined) return own
    }
    throw this.#withoutIssuer(issuer, resource)
  }

  async #searchIssuer(issuer: string): Promise<JsonObject | undefined> {
    const { issuerForms, issuerAccept, comparesIssuer, isStrict, name } = this.#client
    for (const url of discoveryUrls(issuer, issuerForms)) {
      const response = await this.#get(url, issuerAccept)
      if (response === undefined) continue
      const document = documentOf(response)
      if (isStrict && (response.status >= 500 || (response.succeeded && document === undefined)))
        throw new Stop(
          `${response.summary} instead of JSON or 404, with which ${name} does not try the next URL`,
          'respond with the metadata, or with 404',
        )
      if (typeof document?.authorization_endpoint !== 'string') continue
      if (comparesIssuer && !isAcceptedIssuer(document.issuer, issuer))
        throw new Stop(
          `issuer is ${quoteValue(document.issuer)}, the resource names ${quote(issuer)}`,
          'make both identical (RFC 8414 §3.3)',
        )
      return document
    }
    return undefined
  }

  #withoutIssuer(issuer: string, resource: JsonObject | undefined): Stop {
    const { name, guesses } = this.#client
    const { url } = this.#examination
    const base = guesses === 'server' ? url.origin : new URL(issuer).origin
    const guess = `, so that ${name} opens ${quote(`${base}/authorize`)}, which it guesses`
    const end = guesses === undefined ? '' : guess
    if (resource === undefined)
      return new Stop(
        `there is neither resource metadata nor metadata of an authorization server on this host${end}`,
        `serve the resource metadata at ${metadataUrls(url).path.href} (RFC 9728)${this.#challengeHint(new URL(issuer))}`,
      )
    return new Stop(
      `${quote(issuer)} has no metadata${end}`,
      `serve the metadata at ${quote(formUrl(issuer, 'oauth-inserted').href)}, or a copy of it on the host of the MCP server (mcp-gatekit: authorizationServerMetadata)${this.#sourceOf('guesses-endpoints', 'cursor-guesses')}`,
    )
  }

  #checkFlow(metadata: JsonObject): void {
    const { name, requiresListedPkce } = this.#client
    if (typeof metadata.token_endpoint !== 'string')
      throw new Stop('the metadata has no token_endpoint', 'see issuer.endpoints')
    const given = metadata.code_challenge_methods_supported
    if (given === undefined && !requiresListedPkce) return
    if (textsOf(metadata, 'code_challenge_methods_supported')?.includes('S256') === true) return
    throw new Stop(
      `code_challenge_methods_supported is ${given === undefined ? 'missing' : quoteValue(given)}`,
      `list S256 in it: ${name} does not sign in otherwise${this.#sourceOf('pkce-must-be-listed')}`,
    )
  }

  #noteRegistration(metadata: JsonObject): void {
    const { name, registration, metadataDocumentNeedsNone } = this.#client
    const canUseDocument =
      registration.includes('metadata-document') &&
      acceptsMetadataDocuments(metadata) &&
      (!metadataDocumentNeedsNone || acceptsPublicClients(metadata))
    if (canUseDocument) this.#notes.push('it uses its client ID metadata document')
    else if (typeof metadata.registration_endpoint === 'string') this.#notes.push('it registers dynamically')
    else {
      this.#notes.push('it cannot register')
      this.#hints.push(
        `enable client ID metadata documents or dynamic registration, or configure a client ID in ${name}`,
      )
    }
  }

  #noteScopes(
    challenge: Challenge | undefined,
    resource: JsonObject | undefined,
    metadata: JsonObject,
  ): void {
    const lists = {
      challenge: challenge?.parameters.get('scope')?.split(' ') ?? [],
      resource: textsOf(resource, 'scopes_supported') ?? [],
      issuer: textsOf(metadata, 'scopes_supported') ?? [],
    }
    const { name: client, scopes } = this.#client
    const source = scopes.find((name) => lists[name].length > 0)
    this.#notes.push(
      source === undefined
        ? 'it requests no scope'
        : `it requests the scopes ${quoteAll(lists[source])} of the ${SCOPE_SOURCES[source]}`,
    )
    if (this.#has('empty-scope') && lists.resource.length === 0)
      this.#hints.push(
        `list at least one scope in scopes_supported of the resource metadata: ${client} sends an empty scope otherwise${this.#sourceOf('empty-scope')}`,
      )
  }

  /** Sends the first request after the sign-in, without a token. @throws {Stop} if it is blocked */
  async #afterSignIn(): Promise<void> {
    const { requestAfterSignIn: request, metadataHeaders } = this.#client
    if (request === undefined) return
    const isNew = request.userAgent !== metadataHeaders['user-agent']
    const { status, summary } = await this.#endpoint(request)
    if (status !== 401)
      throw new Stop(
        `${summary} instead of 401. ${this.#client.name} sends ${isNew ? 'this User-Agent' : 'this request'} only after the sign-in, which therefore seems to succeed`,
        `allow ${request.userAgent} in the firewall: see edge.user-agents${this.#sourceOf('claude-user-agent')}`,
      )
  }
}

const SCOPE_SOURCES = {
  challenge: 'challenge',
  resource: 'resource metadata',
  issuer: 'authorization server',
} as const
