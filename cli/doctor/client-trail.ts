import type { EndpointRequest } from '../clients/profiles.ts'
import { requestEndpoint, sendAsClient } from './client-requests.ts'
import type { Examination } from './examination.ts'
import { type HttpExchange, NoResponseError } from './http-exchange.ts'
import { quote } from './quote.ts'

const MAX_REDIRECTS = 3

/** The reason for which a client gives up. */
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
  readonly #headers: Readonly<Record<string, string>>

  /** @param headers the headers of requests for metadata */
  constructor(examination: Examination, headers: Readonly<Record<string, string>>) {
    this.#examination = examination
    this.#headers = headers
  }

  /** Sends a request to the MCP endpoint. @throws {Stop} without a response */
  async endpoint(request: EndpointRequest): Promise<HttpExchange> {
    const agent = request.userAgent ?? 'none'
    const label = `${request.method} ${quote(this.#examination.url.pathname)} with User-Agent ${agent}`
    try {
      const response = await requestEndpoint(this.#examination, request)
      this.requests.push(`${label} (${response.status})`)
      return response
    } catch (error) {
      if (!(error instanceof NoResponseError)) throw error
      this.requests.push(`${label} (${error.detail})`)
      throw new Stop('no response', 'allow this client in the firewall: see edge.user-agents')
    }
  }

  /** Returns the JSON object at a URL, or `undefined`. */
  async documentAt(url: URL | undefined): Promise<Readonly<Record<string, unknown>> | undefined> {
    const response = url === undefined ? undefined : await this.get(url)
    return response === undefined ? undefined : objectOf(response)
  }

  /**
   * Fetches a document, and follows redirects. Returns `undefined` without a response.
   * @param accept the `Accept` header, if it differs from that of other requests for metadata
   */
  async get(url: URL, accept?: string): Promise<HttpExchange | undefined> {
    let at = url
    for (let hop = 0; hop <= MAX_REDIRECTS; hop++) {
      const label = at.origin === this.#examination.url.origin ? at.pathname : `${at.origin}${at.pathname}`
      if (!this.#examination.mayFetch(at)) {
        this.requests.push(`GET ${quote(label)} (not sent, because it is not https)`)
        return undefined
      }
      const response = await this.#send(at, quote(label), accept)
      const location = response?.header('location')
      if (response === undefined || response.status < 300 || response.status > 399 || location === undefined)
        return response
      if (!URL.canParse(location, at.href)) return undefined
      at = new URL(location, at)
    }
    return undefined
  }

  async #send(url: URL, label: string, accept: string | undefined): Promise<HttpExchange | undefined> {
    try {
      const headers = accept === undefined ? this.#headers : { ...this.#headers, accept }
      const response = await sendAsClient(this.#examination, { method: 'GET', url, headers })
      this.requests.push(`GET ${label} (${response.status})`)
      return response
    } catch (error) {
      if (!(error instanceof NoResponseError)) throw error
      this.requests.push(`GET ${label} (${error.detail})`)
      return undefined
    }
  }
}

/** Returns the JSON object of a response with the status 200, or `undefined`. */
export function objectOf({ status, json }: HttpExchange): Readonly<Record<string, unknown>> | undefined {
  return status === 200 && typeof json === 'object' && json !== null && !Array.isArray(json)
    ? (json as Record<string, unknown>)
    : undefined
}
