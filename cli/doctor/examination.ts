import { isLoopbackHostname } from '../../src/base/options/option-checks.ts'
import { type ClientId, profileOf, quirkOf } from './clients.ts'
import { type Finding, fail, InconclusiveError, warn } from './finding.ts'
import { type HttpExchange, type Outgoing, sendRequest } from './http-exchange.ts'
import type { McpMessage } from './messages.ts'
import { Secrets } from './quote.ts'
import { urlOf } from './values.ts'

/** Runs a check. @throws {InconclusiveError} if it is not possible, {NoResponseError} if the server does not respond */
export type CheckFunction = (examination: Examination) => Promise<Finding>

/** The functions of checks by ID. */
export type CheckFunctions = Readonly<Record<string, CheckFunction>>

/** Users notice a longer response time. */
const SLOW_MS = 2_000

/** The options of `--login`. */
export interface LoginOptions {
  /** The ID of a registered client. By default, doctor registers a new client. */
  readonly clientId?: string | undefined
  /** The secret of the client. Requires `issuer`, and is sent only to its token endpoint. */
  readonly clientSecret?: string | undefined
  /** The authorization server to sign in to. Defaults to the first one that the examined server names. */
  readonly issuer?: string | undefined
  /** The port of the redirect on 127.0.0.1; 0 for a free one. */
  readonly redirectPort: number
}

/** The options of `--events`. */
export interface WebhookOptions {
  /** The https URL that leads to the port, such as the one of a tunnel. */
  readonly url: URL
  /** The port on 127.0.0.1 on which doctor receives the messages. */
  readonly port: number
  /** The event type. Defaults to the first one with webhooks and without required arguments. */
  readonly event?: string | undefined
  /** The time to wait for an event. Defaults to 60 s. */
  readonly waitMs?: number | undefined
}

export interface ExaminationOptions {
  readonly url: URL
  readonly token?: string | undefined
  readonly underScopedToken?: string | undefined
  /** A token of a second user. */
  readonly otherToken?: string | undefined
  readonly login?: LoginOptions | undefined
  /** The only tool that may be called. */
  readonly call?: string | undefined
  readonly callArguments: Readonly<Record<string, unknown>>
  /** The origin of a web page that must be able to use the server. Defaults to an example origin, on loopback to the MCP Inspector's. */
  readonly origin?: string | undefined
  /** The client whose discovery is replayed, and whose known problems are failures. */
  readonly as?: ClientId | undefined
  /** `true` if clients may be registered at the authorization servers. */
  readonly register?: boolean
  /** The webhook to subscribe with. Without it, no subscription is made. */
  readonly webhook?: WebhookOptions | undefined
  /** The timeout of each request. */
  readonly timeoutMs: number
  /** The duration from which a response is reported as slow. Defaults to 2 s. */
  readonly slowMs?: number | undefined
  /** The IDs of checks whose results are ignored. */
  readonly ignore: readonly string[]
  /** Prints a message for the user, such as the URL to open for `--login`. */
  readonly print: (text: string) => void
}

/** A request to any server. */
type FetchOptions = Pick<Outgoing, 'headers' | 'body' | 'readsFirstEvent'>

/** Additions to a request to the MCP endpoint. */
type SendOptions = Partial<FetchOptions> & { readonly token?: string | undefined }

/** The examination of one server: its options, and every response of the server. */
export class Examination {
  readonly options: ExaminationOptions
  readonly url: URL
  readonly secrets: Secrets = new Secrets()
  /** Every response of the MCP endpoint, in order. */
  readonly exchanges: HttpExchange[] = []
  /** Work to do after the last check, such as ending sessions. */
  readonly closing: (() => Promise<unknown>)[] = []
  /** The number of requests to any server. */
  requests = 0
  /** Sends the code of the sign-in again, after it has been exchanged for a token. */
  replayCode: (() => Promise<Response>) | undefined
  /** The slow responses of the current check. */
  readonly slow: HttpExchange[] = []
  /** The token of the sign-in, if it is not sent because it is for another resource. */
  withheld: { readonly audiences: readonly string[]; readonly resource: string } | undefined
  #token: string | undefined

  constructor(options: ExaminationOptions) {
    this.options = options
    this.url = options.url
    for (const secret of [options.underScopedToken, options.otherToken, options.login?.clientSecret])
      this.secrets.add(secret)
    for (const value of options.url.searchParams.values()) if (value.length >= 8) this.secrets.add(value)
    this.token = options.token
  }

  /** The access token. Always `undefined` if it would be sent over plain http to another machine. */
  get token(): string | undefined {
    return this.#token
  }

  set token(token: string | undefined) {
    this.secrets.add(token)
    this.#token = this.mayCarryToken ? token : undefined
  }

  /** `true` if tokens are safe on the way: https, or this machine. */
  get mayCarryToken(): boolean {
    return this.url.protocol === 'https:' || this.isLocal
  }

  /** @throws {InconclusiveError} if tokens are not safe on the way */
  requireSafeWay(): void {
    if (!this.mayCarryToken)
      throw new InconclusiveError('tokens are not sent over plain http: see server.tls')
  }

  get isLocal(): boolean {
    return isLoopbackHostname(this.url.hostname)
  }

  /** The origin of a web page that uses the server. */
  get pageOrigin(): string {
    // The default port of the MCP Inspector. A server on loopback should reject pages of other machines.
    return this.options.origin ?? (this.isLocal ? 'http://localhost:6274' : 'https://client.example')
  }

  /** Sends a request to the MCP endpoint. @throws {NoResponseError} or, after a 429, {InconclusiveError} */
  async send(method: string, { token, headers, ...request }: SendOptions = {}): Promise<HttpExchange> {
    const authorization = token !== undefined && { authorization: `Bearer ${token}` }
    return this.keep(
      await this.fetch(method, this.url, { headers: { ...headers, ...authorization }, ...request }),
      token,
    )
  }

  post({ headers, body }: McpMessage, options: SendOptions = {}): Promise<HttpExchange> {
    return this.send('POST', { body, ...options, headers: { ...headers, ...options.headers } })
  }

  /**
   * Keeps a response of the MCP endpoint. Ends the session that it opens after the last check.
   * @throws {InconclusiveError} after a 429
   */
  keep(response: HttpExchange, token?: string): HttpExchange {
    this.exchanges.push(response)
    const sessionId = response.header('mcp-session-id')
    if (sessionId !== undefined && response.outgoing.headers['mcp-session-id'] === undefined)
      this.closing.push(() => this.send('DELETE', { headers: { 'mcp-session-id': sessionId }, token }))
    // A check that gets a 429 cannot reach a conclusion. server.endpoint handles the first response.
    if (response.status === 429 && this.exchanges.length > 1)
      throw new InconclusiveError('the server responded with 429: see limit.rate, and run doctor again later')
    return response
  }

  /** Sends a request to any server, without a token. @throws {NoResponseError} */
  async fetch(method: string, url: URL, { headers, ...request }: FetchOptions): Promise<HttpExchange> {
    const response = await this.fetchPlain(method, url, {
      headers: { 'user-agent': 'mcp-gatekit-doctor', ...headers },
      ...request,
    })
    if (response.durationMs > (this.options.slowMs ?? SLOW_MS)) this.slow.push(response)
    return response
  }

  /** Sends a request with exactly the given headers, so that `User-Agent` can be missing. @throws {NoResponseError} */
  fetchPlain(method: string, url: URL, request: FetchOptions): Promise<HttpExchange> {
    this.requests++
    return sendRequest({ method, url, ...request, timeoutMs: this.options.timeoutMs })
  }

  /** Ends sessions on a best-effort basis, all at once, because a server may not respond to any of these requests. */
  async close(): Promise<void> {
    await Promise.all(this.closing.splice(0).map((close) => close().catch(() => undefined)))
  }

  /** Returns `true` if it is safe to fetch a document at a URL that a server has named. */
  mayFetch(url: URL): boolean {
    if (url.username !== '' || url.password !== '') return false
    if (url.protocol === 'https:' || url.origin === this.url.origin) return true
    return url.protocol === 'http:' && this.isLocal && isLoopbackHostname(url.hostname)
  }

  /** Returns a URL in a document of a server, or `undefined` if it is not a URL that is safe to fetch. */
  safeUrl(value: unknown): URL | undefined {
    const url = urlOf(value)
    return url !== undefined && this.mayFetch(url) ? url : undefined
  }
}

/** Caches the result of `observe` for each examination, or for each other object that is its first argument. */
export function observation<T, Key extends object = Examination, Rest extends readonly unknown[] = []>(
  observe: (key: Key, ...rest: Rest) => Promise<T>,
): (key: Key, ...rest: Rest) => Promise<T> {
  const seen = new WeakMap<Key, Promise<T>>()
  return (key, ...rest) => {
    const result = seen.get(key) ?? observe(key, ...rest)
    seen.set(key, result)
    return result
  }
}

/**
 * Reports a problem that only some clients have: a failure if `--as` names one of them, otherwise a warning. The finding
 * names the clients and the source.
 */
export function clientProblem(
  { options: { as } }: Examination,
  id: string,
  seen: string,
  fix?: string,
): Finding {
  const { affected, source, remedy } = quirkOf(id)
  const concerns = as !== undefined && affected.includes(profileOf(as).name)
  return (concerns ? fail : warn)(`${seen}; affects ${affected.join(', ')}`, `${fix ?? remedy} (${source})`)
}
