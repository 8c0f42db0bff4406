import {
  type BodyLimits,
  type BodyMemory,
  type BodyRead,
  readBody,
  webSource,
} from '../../base/http/body-reader.ts'
import { requestOrigin } from '../../base/http/request-origin.ts'
import type { AuthInfo } from '../../oauth/auth-info.ts'
import type { Gate, GateRequest } from '../../oauth/gate.ts'
import type { ClientConnection } from './event-stream.ts'
import type { Exchange } from './exchange.ts'

/** A request to the MCP endpoint, from Node or as a web-standard `Request`. */
export interface McpRequest extends GateRequest, ClientConnection {
  /** The `Host` header. */
  readonly host: string | undefined
  /** The HTTP version, such as `1.1`, if it is known. */
  readonly httpVersion: string | undefined
  /** Set for a message over stdio, which has neither HTTP headers nor an HTTP status. */
  readonly transport?: 'pipe'
  /** `true` if the server accepts connections only on a loopback address. */
  readonly listensOnLoopback: boolean
  /**
   * Sets the CORS headers of the response, unless something in front of the endpoint, such as `mcpCors`, has decided about CORS.
   * @param restricts `true` to overrule what is in front if that lets every origin read the response
   */
  setCorsHeaders(headers: Readonly<Record<string, string>>, restricts: boolean): void
  /**
   * Returns the exchange of a request that `mcpAuth` has authenticated.
   * @param gate the gate of the endpoint. Undefined for an endpoint without OAuth, which may have `mcpAuth(oauthOptions)` in front.
   */
  authenticatedBy(gate: Gate | undefined): Exchange | undefined
  /** Sets `req.auth` to the verified token. */
  authenticatedAs(auth: AuthInfo): void
  /** Returns the value of a request header by its lower-case name. */
  header(name: string): string | undefined
  readBody(limits: BodyLimits, memory?: BodyMemory): BodyRead | Promise<BodyRead>
}

/** A request to the web-standard handler. */
export class WebMcpRequest implements McpRequest {
  readonly request: Request
  readonly listensOnLoopback = false
  readonly httpVersion = undefined
  readonly #responseHeaders: Record<string, string> = {}
  readonly #url: URL
  readonly #trustsProxy: boolean

  constructor(request: Request, trustsProxy: boolean) {
    this.request = request
    this.#url = new URL(request.url)
    this.#trustsProxy = trustsProxy
  }

  get method(): string {
    return this.request.method
  }

  get authorization(): string | undefined {
    return this.header('authorization')
  }

  get dpop(): string | undefined {
    return this.header('dpop')
  }

  get host(): string {
    return this.header('host') ?? this.#url.host
  }

  get origin(): string | undefined {
    const protocol = this.#url.protocol === 'https:' ? 'https' : 'http'
    const source = { protocol, host: this.#url.host, header: (name: string) => this.header(name) } as const
    return requestOrigin(source, this.#trustsProxy)
  }

  get path(): string {
    return this.#url.pathname
  }

  /** The headers that every response carries. */
  get responseHeaders(): Readonly<Record<string, string>> {
    return this.#responseHeaders
  }

  setCorsHeaders(headers: Readonly<Record<string, string>>): void {
    Object.assign(this.#responseHeaders, headers)
  }

  authenticatedBy(): undefined {
    return undefined
  }

  authenticatedAs(): void {
    // A web-standard request does not have a property for the token.
  }

  header(name: string): string | undefined {
    return this.request.headers.get(name) ?? undefined
  }

  get disconnected(): boolean {
    return this.request.signal.aborted
  }

  onDisconnect(listener: () => void): void {
    const { signal } = this.request
    if (signal.aborted) listener()
    else signal.addEventListener('abort', listener, { once: true })
  }

  readBody(limits: BodyLimits, memory?: BodyMemory): BodyRead | Promise<BodyRead> {
    const { body, bodyUsed, signal } = this.request
    if (body === null) return { kind: 'text', text: '' }
    // A locked stream belongs to another reader, which may never release it.
    if (bodyUsed || body.locked) return { kind: 'consumed' }
    if (Number(this.header('content-length')) > limits.maxBytes) return { kind: 'too-large' }
    const coding = this.header('content-encoding')
    if (coding !== undefined && isEncoded(coding)) return { kind: 'encoded' }
    return readBody(webSource(body, signal), limits, memory)
  }
}

/** Returns `true` if a body is compressed. Only a body parser in front can decompress it. */
export function isEncoded(contentEncoding: string): boolean {
  return contentEncoding.toLowerCase() !== 'identity'
}
