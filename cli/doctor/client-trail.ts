import type { ClientProfile, EndpointRequest } from '../clients/profiles.ts'
import type { Examination } from './examination.ts'
import { answerOf, type HttpExchange, NoResponseError } from './http-exchange.ts'
import type { JsonObject } from './json-object.ts'
import { documentOf, followRedirects } from './metadata-documents.ts'
import { quote } from './quote.ts'
import { requestEndpoint } from './request-endpoint.ts'

/** The reason for which a client, or doctor itself, gives up signing in. */
export class Stop extends Error {
  override readonly name = 'Stop'
  readonly hint: string

  constructor(reason: string, hint: string) {
    super(reason)
    this.hint = hint
  }
}

/** Sends the requests of one client and keeps a list of them. */
export class ClientTrail {
  /** The requests so far, each with its result. */
  readonly requests: string[] = []
  readonly #examination: Examination
  readonly #headers: ClientProfile['metadataHeaders']

  constructor(examination: Examination, { metadataHeaders }: ClientProfile) {
    this.#examination = examination
    this.#headers = metadataHeaders
  }

  /** Sends a request to the MCP endpoint. @throws {Stop} without a response */
  async endpoint(request: EndpointRequest): Promise<HttpExchange> {
    const path = quote(this.#examination.url.pathname)
    const label = `${request.method} ${path} with User-Agent ${request.userAgent ?? 'none'}`
    const response = await this.#note(label, requestEndpoint(this.#examination, request))
    if (response !== undefined) return response
    throw new Stop('no response', 'allow this client in the firewall: see edge.user-agents')
  }

  /** Returns the JSON object at a URL, or `undefined`. */
  async documentAt(url: URL | undefined): Promise<JsonObject | undefined> {
    return url === undefined ? undefined : documentOf(await this.get(url))
  }

  /**
   * Fetches a document, and follows redirects. Returns `undefined` without a response.
   * @param accept the `Accept` header, if it differs from that of other requests for metadata
   */
  get(url: URL, accept?: string): Promise<HttpExchange | undefined> {
    const headers = { ...this.#headers, ...(accept !== undefined && { accept }) }
    return followRedirects(url, async (at) => {
      const isSameOrigin = at.origin === this.#examination.url.origin
      const label = `GET ${quote(isSameOrigin ? at.pathname : `${at.origin}${at.pathname}`)}`
      if (this.#examination.mayFetch(at))
        return await this.#note(label, this.#examination.fetchPlain('GET', at, { headers }))
      this.requests.push(`${label} (not sent, because it is not https)`)
      return undefined
    })
  }

  /** Adds a request to the list. Returns the response, or `undefined` without one. */
  async #note(label: string, request: Promise<HttpExchange>): Promise<HttpExchange | undefined> {
    const answer = await answerOf(request)
    const isMissing = answer instanceof NoResponseError
    this.requests.push(`${label} (${isMissing ? answer.detail : answer.status})`)
    return isMissing ? undefined : answer
  }
}
