import { isLoopbackHostname } from '../../src/options/option-checks.ts'
import { InconclusiveError } from './finding.ts'
import { type HttpExchange, sendRequest } from './http-exchange.ts'
import type { McpMessage } from './messages.ts'
import { Secrets } from './secrets.ts'

/** How `--login` gets its token. */
export interface LoginOptions {
  /** A client that is registered already. Default: the doctor registers itself. */
  readonly clientId?: string | undefined
  /** The secret of that client. It is sent to the token endpoint of `issuer` only, which is required with it. */
  readonly clientSecret?: string | undefined
  /** The authorization server to sign in at. Default: the first that the examined server names. */
  readonly issuer?: string | undefined
  /** Port of the redirect on 127.0.0.1. Default 0: a free one. */
  readonly redirectPort: number
}

export interface ExaminationOptions {
  readonly url: URL
  readonly token?: string | undefined
  readonly underScopedToken?: string | undefined
  readonly login?: LoginOptions | undefined
  /** The one tool that may be called. */
  readonly call?: string | undefined
  readonly callArguments: Readonly<Record<string, unknown>>
  /** The origin of a page whose client is to work. Default: some page, of this machine for a server on loopback. */
  readonly origin?: string | undefined
  /** Milliseconds for each request. */
  readonly timeoutMs: number
  /** Ids of checks whose outcome does not count. */
  readonly ignore: readonly string[]
  /** Says something to the person who waits: the address to open for `--login`. */
  readonly print: (text: string) => void
}

/** What a request is sent with besides what its message wants. */
export interface SendOptions {
  readonly token?: string | undefined
  readonly headers?: Readonly<Record<string, string>>
}

/** One server being looked at: what was asked of it, and every answer. */
export class Examination {
  readonly options: ExaminationOptions
  readonly url: URL
  readonly secrets: Secrets = new Secrets()
  /** Every answer of the MCP endpoint, in order. */
  readonly exchanges: HttpExchange[] = []
  /** Work to be done when everything is over, such as ending sessions. */
  readonly closing: (() => Promise<unknown>)[] = []
  /** Requests sent, to whomever. */
  requests = 0
  #token: string | undefined

  constructor(options: ExaminationOptions) {
    this.options = options
    this.url = options.url
    for (const secret of [options.token, options.underScopedToken, options.login?.clientSecret])
      this.secrets.add(secret)
    for (const value of options.url.searchParams.values()) if (value.length >= 8) this.secrets.add(value)
    this.token = options.token
  }

  /** The token to be let in with; absent as well where it would be sent in the clear. */
  get token(): string | undefined {
    return this.#token
  }

  set token(token: string | undefined) {
    this.secrets.add(token)
    this.#token = this.mayCarryToken ? token : undefined
  }

  /** Whether what is sent stays between us: https, or this machine. */
  get mayCarryToken(): boolean {
    return this.url.protocol === 'https:' || this.isLocal
  }

  get isLocal(): boolean {
    return isLoopbackHostname(this.url.hostname)
  }

  /** The origin of a page that wants to use this server. */
  get pageOrigin(): string {
    // The Inspector's; a server on loopback rightly refuses pages of other machines.
    return this.options.origin ?? (this.isLocal ? 'http://localhost:6274' : 'https://client.example')
  }

  /** Asks the MCP endpoint. @throws {NoResponseError} or, for a 429, {InconclusiveError} */
  async send(
    method: string,
    headers: Readonly<Record<string, string>>,
    { body, token }: { readonly body?: string; readonly token?: string | undefined } = {},
  ): Promise<HttpExchange> {
    const answer = await this.fetch(method, this.url, {
      headers: { ...headers, ...(token !== undefined && { authorization: `Bearer ${token}` }) },
      body,
    })
    this.exchanges.push(answer)
    this.#endLater(answer, token)
    // The first one is judged; later ones say nothing about what they were to show.
    if (answer.status === 429 && this.exchanges.length > 1)
      throw new InconclusiveError('the server answered 429: see limit.rate, and run the doctor again later')
    return answer
  }

  post(message: McpMessage, { token, headers }: SendOptions = {}): Promise<HttpExchange> {
    return this.send('POST', { ...message.headers, ...headers }, { body: message.body, token })
  }

  /** A session that a handshake may have opened is ended when everything is over. */
  #endLater(answer: HttpExchange, token: string | undefined): void {
    const sessionId = answer.header('mcp-session-id')
    if (sessionId === undefined || answer.outgoing.headers['mcp-session-id'] !== undefined) return
    this.closing.push(() => this.send('DELETE', { 'mcp-session-id': sessionId }, { token }))
  }

  /** Asks anybody. Never with a token. */
  async fetch(
    method: string,
    url: URL,
    {
      headers,
      body,
    }: { readonly headers: Readonly<Record<string, string>>; readonly body?: string | undefined },
  ): Promise<HttpExchange> {
    this.requests++
    return await sendRequest({
      method,
      url,
      headers: { 'user-agent': 'mcp-gatekit-doctor', ...headers },
      body,
      timeoutMs: this.options.timeoutMs,
    })
  }

  /** Whether a document at `url` may be fetched because a server said so. */
  mayFetch(url: URL): boolean {
    if (url.username !== '' || url.password !== '') return false
    if (url.protocol === 'https:' || url.origin === this.url.origin) return true
    return url.protocol === 'http:' && this.isLocal && isLoopbackHostname(url.hostname)
  }
}

/** Something seen of a server, which is looked for once and then remembered. */
export type Observation<T> = (examination: Examination) => Promise<T>

export function observation<T>(look: Observation<T>): Observation<T> {
  const seen = new WeakMap<Examination, Promise<T>>()
  return (examination) => {
    const known = seen.get(examination)
    if (known !== undefined) return known
    const looking = look(examination)
    seen.set(examination, looking)
    return looking
  }
}
