import { request as httpRequest, type IncomingMessage } from 'node:http'
import { request as httpsRequest } from 'node:https'
import { isIP } from 'node:net'
import type { TLSSocket } from 'node:tls'
import { responseOf } from '../../src/base/http/response-of.ts'
import { isRecord } from '../../src/base/options/value-kinds.ts'
import { tryOrUndefined } from '../../src/base/try-or-undefined.ts'
import { bearerChallengeOf, type Challenge } from './challenges.ts'
import { quote } from './quote.ts'
import { type JsonObject, memberOf } from './values.ts'

/** The maximum number of events that are read. A server sends few of them before a response. */
const MAX_EVENTS = 1_000

/** Reads the events of an event stream while it arrives, each character once, whatever the size of the chunks. */
export class EventReader {
  /** The beginning of the line that the last chunk cut off. */
  #line = ''
  #data: string[] = []
  #count = 0

  /** `true` if the maximum number of events was read. */
  get isFull(): boolean {
    return this.#count === MAX_EVENTS
  }

  /** Returns the data of each event that the chunk completes. Comments and other fields are left out. */
  read(chunk: string): readonly string[] {
    const events: string[] = []
    const [first = '', ...others] = chunk.split('\n')
    const lines = [this.#line + first, ...others]
    this.#line = lines.pop() ?? ''
    for (const line of lines) {
      if (this.isFull) break
      const text = line.endsWith('\r') ? line.slice(0, -1) : line
      if (text.startsWith('data:')) this.#data.push(text.slice(text[5] === ' ' ? 6 : 5))
      if (text !== '') continue
      events.push(this.#data.join('\n'))
      this.#data = []
      this.#count++
    }
    return events
  }
}

/** The maximum size of a response body. The rest of a longer body is not read. */
const MAX_BODY_BYTES = 4 * 1024 * 1024
/** The number of characters of a body in which its first text is searched. */
const MAX_SEARCHED = 4_096
/** The members of a JSON body that describe an error, such as those of RFC 9457. */
const DESCRIPTIONS = ['detail', 'title', 'message']

export interface Outgoing {
  readonly method: string
  readonly url: URL
  /** Sent unchanged, including `Host` and `Origin`. */
  readonly headers: Readonly<Record<string, string>>
  readonly body?: string | undefined
  /** The timeout of the whole exchange. */
  readonly timeoutMs: number
  /** Reads an event stream that a GET opens until its first event, instead of until its headers. */
  readonly readsFirstEvent?: boolean | undefined
}

/** The reasons for a missing response, each with the error codes of Node.js and the fix. */
const NO_RESPONSES = {
  /** The host name does not resolve. */
  name: [/^(?:ENOTFOUND|EAI_)/, 'check the host name and its DNS record'],
  /** Nothing listens there. */
  refused: [
    /^ECONNREFUSED$/,
    'start the server; check the port, and that the server listens on an address that is reachable from this machine',
  ],
  /** The connection was closed before the response was complete. */
  closed: [
    /^(?:ECONNRESET|ECONNABORTED|EPIPE|UND_ERR_SOCKET)$/,
    'check the logs of the server and of the proxy in front of it: the connection was closed without a response',
  ],
  timeout: [/^ETIMEDOUT$/, 'find out what the server waits for, or use a longer --timeout'],
  /** The TLS certificate is not trusted. */
  certificate: [
    /CERT|^UNABLE_TO_|^ERR_TLS_CERT|^HOSTNAME_MISMATCH|^INVALID_CA|^CRL_/,
    'use a certificate of a known authority; for a private authority, set NODE_EXTRA_CA_CERTS',
  ],
  /** The server does not support TLS, or no common version. */
  tls: [
    /^(?:EPROTO|ERR_SSL_|ERR_TLS_)/,
    'check the port, and https against http: the server does not support TLS, or only versions that are obsolete',
  ],
  'not-http': [/^HPE_/, 'check the port, and http against https: the response is not HTTP'],
  network: [/^/, 'check the network between this machine and the server'],
} as const satisfies Readonly<Record<string, readonly [codes: RegExp, fix: string]>>

type NoResponseKind = keyof typeof NO_RESPONSES
const KINDS = Object.keys(NO_RESPONSES) as NoResponseKind[]

/** A request without a complete response. `detail` is the error code of Node.js. */
export class NoResponseError extends Error {
  override readonly name = 'NoResponseError'
  readonly status = undefined
  readonly succeeded = false
  readonly redirect = undefined
  readonly kind: NoResponseKind
  readonly detail: string
  readonly fix: string

  constructor(kind: NoResponseKind, detail: string) {
    super(`no response: ${detail}`)
    this.kind = kind
    this.detail = detail
    this.fix = NO_RESPONSES[kind][1]
  }
}

/** A request with its response. The body of an event stream ends at the first JSON-RPC response in it. */
export class HttpExchange {
  readonly outgoing: Outgoing
  readonly status: number
  readonly body: string
  readonly durationMs: number
  /** The protocol of a TLS connection, and the time at which the certificate expires. */
  readonly tls: ReturnType<typeof tlsFacts>
  readonly #headers: NodeJS.Dict<string[]>
  /** The JSON-RPC response in a JSON body or an event stream, or `undefined`. */
  readonly message: JsonObject | undefined

  constructor(
    outgoing: Outgoing,
    response: Pick<IncomingMessage, 'statusCode' | 'headersDistinct'>,
    body: string,
    durationMs: number,
    tls: HttpExchange['tls'],
  ) {
    this.outgoing = outgoing
    this.status = response.statusCode ?? 0
    this.#headers = response.headersDistinct
    this.body = body
    this.durationMs = durationMs
    this.tls = tls
    // The end of the body can cut off the last event.
    const texts = this.mediaType === 'text/event-stream' ? new EventReader().read(`${body}\n\n`) : [body]
    this.message = texts.map(rpcResponseOf).find((response) => response !== undefined)
  }

  /** Returns a header by its lowercase name. Several lines are joined by commas (RFC 9110 §5.3). */
  header(name: string): string | undefined {
    return this.#headers[name]?.join(', ')
  }

  /** Returns the names and the values of the cookies that the response sets. */
  get cookies(): readonly (readonly [name: string, value: string])[] {
    const lines = this.#headers['set-cookie'] ?? []
    return lines.flatMap((line) => {
      const [, name, value] = /^([^\s;,=]+)=([^;]+)/.exec(line) ?? []
      return name === undefined || value === undefined ? [] : [[name, value] as const]
    })
  }

  /** `true` if the status is 2xx. */
  get succeeded(): boolean {
    return this.status >= 200 && this.status < 300
  }

  get mediaType(): string {
    return (this.header('content-type') ?? '').split(';', 1)[0]?.trim().toLowerCase() ?? ''
  }

  /** The body parsed as JSON, or `undefined` if it is not valid JSON. */
  get json(): unknown {
    return parseJson(this.body)
  }

  /** The JSON object in the body, or `undefined`. */
  get object(): JsonObject | undefined {
    const { json } = this
    return isRecord(json) ? json : undefined
  }

  /** Returns a member of the result of the JSON-RPC response. */
  result(...names: readonly string[]): unknown {
    return memberOf(this.message?.result, ...names)
  }

  /** `true` if the JSON-RPC response has a result. */
  get hasResult(): boolean {
    return this.message?.result !== undefined
  }

  /** The code of the JSON-RPC error. */
  get errorCode(): unknown {
    return memberOf(this.message, 'error', 'code')
  }

  /** The `Bearer` challenge, or `undefined` if there is none or the header cannot be parsed. */
  get challenge(): Challenge | undefined {
    return bearerChallengeOf(this.header('www-authenticate'))
  }

  /** Returns a parameter of the `Bearer` challenge. */
  parameter(name: string): string | undefined {
    return this.challenge?.parameters.get(name)
  }

  /** `a redirect to …`, or `undefined` if the status is not 3xx. */
  get redirect(): string | undefined {
    if (this.status < 300 || this.status > 399) return undefined
    return `a redirect to ${quote(this.header('location') ?? 'no location')}`
  }

  /** The reason that the server gives for an error, in the `Bearer` challenge (RFC 6750 §3) or else in the body. */
  get reason(): Readonly<Record<'error' | 'description', string | undefined>> {
    const { json, message } = this
    const error = message?.error ?? memberOf(json, 'error')
    const described = [this.parameter('error_description'), memberOf(json, 'error_description')]
    return {
      error: this.parameter('error') ?? firstText([error]),
      // The last one is that of a JSON-RPC error.
      description: firstText([...described, memberOf(error, 'message')]),
    }
  }

  /** The words of the server about an error, or else the first text of the body of an error. JWTs are masked. */
  get #words(): string {
    const { error, description } = this.reason
    const stated = description ?? firstText(DESCRIPTIONS.map((name) => memberOf(this.json, name)))
    const isText = stated === undefined && error === undefined && this.message === undefined
    const text = this.body.slice(0, MAX_SEARCHED).replace(/<(?:script|style)\b[^<]*|<[^<>]*>/gi, ' ')
    const words = this.status < 400 ? description : isText ? text : stated
    return quote((words ?? '').replace(/\bey[\w-]{8,}(?:\.[\w-]*)*/g, '[secret]'))
  }

  /**
   * The status and the media type. For an error, the status, the code, and the words of the server, as in
   * `401, invalid_token: "The access token has expired"`.
   */
  get summary(): string {
    const { error = typeof this.errorCode === 'number' ? `JSON-RPC error ${this.errorCode}` : undefined } =
      this.reason
    const start = `${this.status}${error === undefined ? ` ${this.mediaType}`.trimEnd() : `, ${quote(error)}`}`
    return this.#words === '' ? start : `${start}: "${this.#words}"`
  }
}

function firstText(values: readonly unknown[]): string | undefined {
  return values.find((value): value is string => typeof value === 'string' && value !== '')
}

/** Parses a body or the data of an event, or returns `undefined` if it is not valid JSON, such as a body that was cut off. */
export const parseJson = (text: string): unknown => tryOrUndefined(() => JSON.parse(text))

/** Returns the JSON-RPC response in a body or in the data of an event, or `undefined`. */
function rpcResponseOf(text: string): JsonObject | undefined {
  const value = parseJson(text)
  return isRecord(value) && value.jsonrpc === '2.0' && ('result' in value || 'error' in value)
    ? value
    : undefined
}

/**
 * Sends one request over a new connection and reads the response. Does not follow redirects or keep cookies. An event
 * stream that a GET opens is closed when its headers have arrived, unless its first event is wanted.
 * @throws {NoResponseError}
 */
export async function sendRequest(outgoing: Outgoing): Promise<HttpExchange> {
  const { method, url, headers, body, timeoutMs, readsFirstEvent = false } = outgoing
  const startedAt = performance.now()
  const signal = AbortSignal.timeout(timeoutMs)
  const length = body === undefined ? {} : { 'content-length': String(Buffer.byteLength(body)) }
  const options = { method, headers: { ...headers, ...length }, agent: false, maxHeaderSize: 65_536, signal }
  // Without `servername`, Node.js would use the Host header, which can name another host.
  const servername = isIP(url.hostname.replace(/^\[|\]$/g, '')) === 0 ? url.hostname : ''
  const isEncrypted = url.protocol === 'https:'
  const request = isEncrypted ? httpsRequest(url, { ...options, servername }) : httpRequest(url, options)
  const failures: Error[] = []
  request.on('error', (error) => failures.push(error))
  request.end(body)
  try {
    const response = await responseOf(request)
    // The socket loses these facts when it is closed.
    const tls = tlsFacts(response.socket)
    const streams = /^text\/event-stream\b/i.test(response.headers['content-type'] ?? '')
    const events = new EventReader()
    const isWanted = (data: string): boolean =>
      readsFirstEvent ? data !== '' : rpcResponseOf(data) !== undefined
    let received = ''
    let size = 0
    let isOver = streams && method === 'GET' && !readsFirstEvent
    if (!isOver)
      for await (const chunk of response.setEncoding('utf8')) {
        received += chunk
        size += Buffer.byteLength(chunk)
        isOver = size > MAX_BODY_BYTES || (streams && (events.read(chunk).some(isWanted) || events.isFull))
        if (isOver) break
      }
    // The end of a connection, also by the time limit, ends a body without a length.
    if (!isOver && (signal.aborted || failures.length > 0)) throw signal.reason
    const durationMs = Math.round(performance.now() - startedAt)
    return new HttpExchange(outgoing, response, received, durationMs, tls)
  } catch (error) {
    if (signal.aborted) throw new NoResponseError('timeout', `timeout after ${timeoutMs / 1000} s`)
    throw noResponseError(failures[0] ?? (error as Error))
  } finally {
    request.destroy()
  }
}

function noResponseError(error: Error & { code?: unknown }): NoResponseError {
  const code = typeof error.code === 'string' ? error.code : error.name
  return new NoResponseError(KINDS.find((kind) => NO_RESPONSES[kind][0].test(code)) ?? 'network', code)
}

/** Returns the response, or the error of a missing one. */
export function answerOf(response: Promise<HttpExchange>): Promise<HttpExchange | NoResponseError> {
  return response.catch((error: unknown) => {
    if (error instanceof NoResponseError) return error
    throw error
  })
}

function tlsFacts(socket: IncomingMessage['socket']) {
  const tls = socket as Partial<TLSSocket>
  if (tls.encrypted !== true) return undefined
  const validTo = new Date(tls.getPeerCertificate?.().valid_to ?? Number.NaN)
  const isKnown = !Number.isNaN(validTo.getTime())
  return { protocol: tls.getProtocol?.() ?? 'TLS', validTo: isKnown ? validTo : undefined }
}
