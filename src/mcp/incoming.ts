import type { GateRequest } from '../oauth/gate.ts'
import { requestOrigin } from '../oauth/request-origin.ts'

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

export interface BodyLimits {
  readonly maxBytes: number
  readonly timeoutMs: number
}

/** A body: its text, its value where somebody has parsed it already, or why there is none. */
export type BodyRead =
  | { readonly kind: 'text'; readonly text: string }
  | { readonly kind: 'value'; readonly value: unknown }
  | { readonly kind: 'too-large' | 'timeout' | 'unreadable' | 'encoded' }

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

  async readBody({ maxBytes, timeoutMs }: BodyLimits): Promise<BodyRead> {
    const { body } = this.request
    if (body === null) return { kind: 'text', text: '' }
    if (this.request.bodyUsed) return { kind: 'unreadable' }
    if (Number(this.header('content-length')) > maxBytes) return { kind: 'too-large' }
    if (isEncoded(this.header('content-encoding'))) return { kind: 'encoded' }
    const reader = body.getReader()
    let timer: NodeJS.Timeout | undefined
    const deadline = new Promise<'timeout'>((resolve) => {
      timer = setTimeout(resolve, timeoutMs, 'timeout')
    })
    try {
      const chunks: Uint8Array[] = []
      for (let size = 0; ; ) {
        const read = await Promise.race([reader.read(), deadline])
        if (read === 'timeout') return { kind: 'timeout' }
        if (read.done) return { kind: 'text', text: Buffer.concat(chunks).toString('utf8') }
        size += read.value.byteLength
        if (size > maxBytes) return { kind: 'too-large' }
        chunks.push(read.value)
      }
    } catch {
      return { kind: 'unreadable' }
    } finally {
      clearTimeout(timer)
      reader.cancel().catch(() => undefined)
    }
  }
}

/** Whether a `Content-Encoding` says that a body must be unpacked first, which is left to what stands in front. */
export function isEncoded(contentEncoding: string | undefined): boolean {
  return contentEncoding !== undefined && contentEncoding.toLowerCase() !== 'identity'
}
