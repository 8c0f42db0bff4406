import type { Challenge } from '../challenges.ts'
import {
  type ClientProfile,
  type EndpointRequest,
  type MetadataPlace,
  profileOf,
  quirkOf,
} from '../clients.ts'
import { documentOf, followRedirects, metadataUrls } from '../documents.ts'
import type { CheckFunctions, Examination } from '../examination.ts'
import { type Finding, fail, ok, onlyIf, Stop, warn } from '../finding.ts'
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
    onlyIf(as !== undefined, 'only with --as')
    return await replay(examination, profileOf(as))
  },
}

/** Repeats the requests of one client, up to the sign-in. */
async function replay(examination: Examination, client: ClientProfile): Promise<Finding> {
  const { name } = client
  /** The requests so far, each with its result. */
  const requests: string[] = []
  /** Facts that do not stop the client. */
  const notes: string[] = []
  /** Suggestions for problems that do not stop the client. */
  const hints: string[] = []

  /** Sends a request to the MCP endpoint. @throws {Stop} without a response */
  async function endpoint(request: EndpointRequest): Promise<HttpExchange> {
    const path = quote(examination.url.pathname)
    const label = `${request.method} ${path} with User-Agent ${request.userAgent ?? 'none'}`
    const response = await note(label, requestEndpoint(examination, request))
    if (response !== undefined) return response
    throw new Stop('no response', 'allow this client in the firewall: see edge.user-agents')
  }

  /** Returns the JSON object at a URL, or `undefined`. */
  const documentAt = async (url: URL | undefined): Promise<JsonObject | undefined> =>
    url && documentOf(await get(url))

  /**
   * Fetches a document, and follows redirects. Returns `undefined` without a response.
   * @param accept the `Accept` header, if it differs from that of other requests for metadata
   */
  function get(url: URL, accept?: string): Promise<HttpExchange | undefined> {
    const headers = { ...client.metadataHeaders, ...(accept !== undefined && { accept }) }
    return followRedirects(url, async (at) => {
      const isSameOrigin = at.origin === examination.url.origin
      const label = `GET ${quote(isSameOrigin ? at.pathname : `${at.origin}${at.pathname}`)}`
      if (examination.mayFetch(at)) return await note(label, examination.fetchPlain('GET', at, { headers }))
      requests.push(`${label} (not sent, because it is not https)`)
      return undefined
    })
  }

  /** Adds a request to the list. Returns the response, or `undefined` without one. */
  async function note(label: string, request: Promise<HttpExchange>): Promise<HttpExchange | undefined> {
    const answer = await answerOf(request)
    const isMissing = answer instanceof NoResponseError
    requests.push(`${label} (${isMissing ? answer.detail : answer.status})`)
    return isMissing ? undefined : answer
  }

  /** Returns `false` if the server requires no sign-in. @throws {Stop} */
  async function signIn(): Promise<boolean> {
    const { isOpen, challenge } = await begin()
    if (isOpen) return false
    const resource = await findResource(challenge)
    const metadata = await findIssuer(resource)
    checkFlow(metadata)
    noteRegistration(metadata)
    noteScopes(challenge?.parameters.get('scope'), resource, metadata)
    await afterSignIn()
    return true
  }

  const has = (quirk: string): boolean => quirkOf(quirk).affected.includes(name)

  /** Returns the source of the first of these quirks that the client has, in parentheses. */
  function sourceOf(...quirks: readonly string[]): string {
    const quirk = quirks.find((id) => has(id))
    return quirk === undefined ? '' : ` (${quirkOf(quirk).source})`
  }

  /** Sends the requests to the endpoint. @throws {Stop} unless the server responds with 401, or without a gate */
  async function begin(): Promise<{ readonly isOpen: boolean; readonly challenge: Challenge | undefined }> {
    let challenge: Challenge | undefined
    let isOpen = false
    const { requests, requestAfterSignIn: later } = client
    for (const request of requests) {
      const response = await endpoint(request)
      if (response.status === 401) challenge ??= response.challenge
      else if (request.method === 'POST') isOpen = checkOpen(response)
    }
    // Without a POST, the client connects before it searches for a sign-in, unless the server requires one.
    const connects = !requests.some(({ method }) => method === 'POST')
    if (later !== undefined && connects && (await firstResponse(examination)).status !== 401) {
      const response = await endpoint(later)
      isOpen = response.status !== 401 && checkOpen(response)
    }
    if (has('error-in-challenge') && challenge?.parameters.has('error') === true) {
      notes.push('the challenge contains error, with which Codex Desktop starts no sign-in')
      hints.push(
        `send no error if the request has no token (mcp-gatekit: challengeWithoutToken: 'bare')${sourceOf('error-in-challenge')}`,
      )
    }
    return { isOpen, challenge }
  }

  /** Returns `true` for the response of an open server. @throws {Stop} for any other response */
  function checkOpen(response: HttpExchange): boolean {
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
  async function findResource(challenge: Challenge | undefined): Promise<JsonObject | undefined> {
    const { places, requiredPlaces } = client
    const url = urlOf(challenge?.parameters.get('resource_metadata'))
    const isDecided = url !== undefined && client.has('final')
    for (const place of isDecided ? (['challenge'] as const) : places) {
      const document = await documentAt(placeUrl(place, url))
      if (document === undefined) continue
      checkResource(document.resource)
      if (place === 'challenge' && requiredPlaces !== undefined) await requireAt(requiredPlaces, url)
      else if (place === 'root' && requiredPlaces?.includes('root') === false) await requireAt(['path'])
      return document
    }
    if (!client.has('needs metadata')) return undefined
    throw new Stop(
      'the resource metadata is missing',
      `serve it at ${metadataUrls(examination.url).path.href} (RFC 9728)${challengeHint(url)}`,
    )
  }

  function challengeHint(url: URL | undefined): string {
    if (url === undefined || client.places.includes('challenge')) return ''
    return `; ${name} does not read resource_metadata of the challenge`
  }

  function placeUrl(place: MetadataPlace, challenged?: URL): URL | undefined {
    const { url } = examination
    const { path, root } = metadataUrls(url)
    if (place === 'challenge') return challenged
    if (place === 'path') return path
    if (place === 'root') return path.href === root.href ? undefined : root
    if (url.pathname === '/') return undefined
    return new URL(`${withoutSlash(url.pathname)}${root.pathname}`, url.origin)
  }

  /** @throws {Stop} if none of these well-known places has the document */
  async function requireAt(required: readonly MetadataPlace[], challenged?: URL): Promise<void> {
    const urls = required.flatMap((place) => placeUrl(place) ?? [])
    if (urls.some(({ href }) => href === challenged?.href)) return
    for (const url of urls) if ((await documentAt(url)) !== undefined) return
    throw new Stop(
      `the resource metadata is not at ${quote(urls.map(({ href }) => href).join(' or '))}, which ${name} needs later`,
      `serve it there, too (RFC 9728 §3.1; mcp-gatekit: leave resourceMetadataPath unset)${sourceOf('needs-path-metadata', 'forgets-metadata-url')}`,
    )
  }

  function checkResource(resource: unknown): void {
    const { url } = examination
    const { resource: rule, source } = client
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
  async function findIssuer(resource: JsonObject | undefined): Promise<JsonObject> {
    const { origin } = examination.url
    const issuer = textsOf(resource, 'authorization_servers')?.[0] ?? origin
    if (!isHttpUrl(issuer)) throw new Stop(`the issuer is ${quote(issuer)}`, 'use an https URL')
    const found = await searchIssuer(issuer)
    if (found !== undefined) return found
    // A client that guesses on the host of the MCP server searches there before.
    if (client.has('guesses server') && new URL(issuer).origin !== origin) {
      const own = await searchIssuer(origin)
      if (own !== undefined) return own
    }
    throw withoutIssuer(issuer, resource)
  }

  async function searchIssuer(issuer: string): Promise<JsonObject | undefined> {
    const { issuerForms, issuerAccept } = client
    for (const url of discoveryUrls(issuer, issuerForms)) {
      const response = await get(url, issuerAccept)
      if (response === undefined) continue
      const document = documentOf(response)
      if (client.has('strict') && (response.status >= 500 || (response.succeeded && document === undefined)))
        throw new Stop(
          `${response.summary} instead of JSON or 404, with which ${name} does not try the next URL`,
          'respond with the metadata, or with 404',
        )
      if (typeof document?.authorization_endpoint !== 'string') continue
      if (client.has('compares') && !isAcceptedIssuer(document.issuer, issuer))
        throw new Stop(
          `issuer is ${quoteValue(document.issuer)}, the resource names ${quote(issuer)}`,
          'make both identical (RFC 8414 §3.3)',
        )
      return document
    }
    return undefined
  }

  function withoutIssuer(issuer: string, resource: JsonObject | undefined): Stop {
    const { url } = examination
    const base = client.has('guesses server') ? url.origin : new URL(issuer).origin
    const guess = `, so that ${name} opens ${quote(`${base}/authorize`)}, which it guesses`
    const end = client.has('guesses server') || client.has('guesses issuer') ? guess : ''
    if (resource === undefined)
      return new Stop(
        `there is neither resource metadata nor metadata of an authorization server on this host${end}`,
        `serve the resource metadata at ${metadataUrls(url).path.href} (RFC 9728)${challengeHint(new URL(issuer))}`,
      )
    return new Stop(
      `${quote(issuer)} has no metadata${end}`,
      `serve the metadata at ${quote(formUrl(issuer, 'oauth-inserted').href)}, or a copy of it on the host of the MCP server (mcp-gatekit: authorizationServerMetadata)${sourceOf('guesses-endpoints', 'cursor-guesses')}`,
    )
  }

  function checkFlow(metadata: JsonObject): void {
    if (typeof metadata.token_endpoint !== 'string')
      throw new Stop('the metadata has no token_endpoint', 'see issuer.endpoints')
    const given = metadata.code_challenge_methods_supported
    if (given === undefined && !client.has('needs PKCE')) return
    if (textsOf(metadata, 'code_challenge_methods_supported')?.includes('S256') === true) return
    throw new Stop(
      `code_challenge_methods_supported is ${given === undefined ? 'missing' : quoteValue(given)}`,
      `list S256 in it: ${name} does not sign in otherwise${sourceOf('pkce-must-be-listed')}`,
    )
  }

  function noteRegistration(metadata: JsonObject): void {
    const canUseDocument =
      !client.has('dynamic only') &&
      acceptsMetadataDocuments(metadata) &&
      (!client.has('needs none') || acceptsPublicClients(metadata))
    if (canUseDocument) notes.push('it uses its client ID metadata document')
    else if (typeof metadata.registration_endpoint === 'string') notes.push('it registers dynamically')
    else {
      notes.push('it cannot register')
      hints.push(
        `enable client ID metadata documents or dynamic registration, or configure a client ID in ${name}`,
      )
    }
  }

  function noteScopes(
    challenged: string | undefined,
    resource: JsonObject | undefined,
    metadata: JsonObject,
  ) {
    const lists = {
      challenge: challenged?.split(' ') ?? [],
      resource: textsOf(resource, 'scopes_supported') ?? [],
      issuer: textsOf(metadata, 'scopes_supported') ?? [],
    }
    const source = client.scopes.find((name) => lists[name].length > 0)
    if (source === undefined) notes.push('it requests no scope')
    else notes.push(`it requests the scopes ${quoteAll(lists[source])} of the ${SCOPE_SOURCES[source]}`)
    if (has('empty-scope') && lists.resource.length === 0)
      hints.push(
        `list at least one scope in scopes_supported of the resource metadata: ${name} sends an empty scope otherwise${sourceOf('empty-scope')}`,
      )
  }

  /** Sends the first request after the sign-in, without a token. @throws {Stop} if it is blocked */
  async function afterSignIn(): Promise<void> {
    const { requestAfterSignIn: request, metadataHeaders } = client
    if (request === undefined) return
    const isNew = request.userAgent !== metadataHeaders['user-agent']
    const { status, summary } = await endpoint(request)
    if (status !== 401)
      throw new Stop(
        `${summary} instead of 401. ${name} sends ${isNew ? 'this User-Agent' : 'this request'} only after the sign-in, which therefore seems to succeed`,
        `allow ${request.userAgent} in the firewall: see edge.user-agents${sourceOf('claude-user-agent')}`,
      )
  }

  if (client.has('hosted') && examination.isLocal)
    notes.push(`${name} connects from the internet and needs a public URL of this server`)
  try {
    const result = (await signIn()) ? 'gets to the sign-in' : 'connects without a sign-in'
    const sent = `${name} ${result} after ${requests.length} requests: ${requests.join(', ')}`
    const seen = [sent, ...notes].join('; ')
    return hints.length === 0 ? ok(seen) : warn(seen, hints.join('; '))
  } catch (error) {
    if (!(error instanceof Stop)) throw error
    const seen = `${name} stops at request ${requests.length}, ${requests.at(-1)}: ${error.message}`
    const before = requests.slice(0, -1).join(', ')
    return fail(before === '' ? seen : `${seen}; requests before: ${before}`, error.hint)
  }
}

const SCOPE_SOURCES = {
  challenge: 'challenge',
  resource: 'resource metadata',
  issuer: 'authorization server',
} as const
