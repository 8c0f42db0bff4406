import type { GateRequest } from '../oauth/gate.ts'
import { requestOrigin } from '../oauth/request-origin.ts'
import { type BodyLimits, type BodyRead, readBody, webSource } from './body-reader.ts'

/** A request to an MCP route, as both faces give it. */
export interface McpIncoming extends GateRequest {
  /** The `Host` header. */
  readonly host: string | undefined
  /** Such as `1.1`, where it is known. */
  readonly httpVersion: string | undefined
  /** Whether the server accepts connections on a loopback address only. */
  readonly listensOnLoopback: boolean
  /** Value of a request header, by its lower-case name. */
  header(name: string): string | undefined
  readBody(limits: BodyLimits): Promise<BodyRead>
  /** Whether the client has hung up before its answer was complete. */
  readonly disconnected: boolean
  /** Calls `listener` when that happens, also when it has happened already. */
  onDisconnect(listener: () => void): void
}

/** The web-standard face of a request. */
export class WebIncoming implements McpIncoming {
  readonly request: Request
  readonly listensOnLoopback = false
  readonly httpVersion = undefined
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

  async readBody(limits: BodyLimits): Promise<BodyRead> {
    const { body, bodyUsed, signal } = this.request
    if (body === null) return { kind: 'text', text: '' }
    // A locked stream belongs to another reader, which may never let it go.
    if (bodyUsed || body.locked) return { kind: 'unreadable' }
    if (Number(this.header('content-length')) > limits.maxBytes) return { kind: 'too-large' }
    if (isEncoded(this.header('content-encoding'))) return { kind: 'encoded' }
    return await readBody(webSource(body, signal), limits)
  }
}

/** Whether a `Content-Encoding` says that a body must be unpacked first, which is left to what stands in front. */
export function isEncoded(contentEncoding: string | undefined): boolean {
  return contentEncoding !== undefined && contentEncoding.toLowerCase() !== 'identity'
}
