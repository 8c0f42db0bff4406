import type { McpRequest } from '../wire/mcp-request.ts'

/** A message over stdio, in the form of the requests that telemetry and the application's context read. */
export class StdioRequest implements McpRequest {
  readonly method = 'STDIO'
  readonly transport = 'pipe'
  readonly path = ''
  readonly authorization = undefined
  readonly dpop = undefined
  readonly origin = undefined
  readonly host = undefined
  readonly httpVersion = undefined
  readonly listensOnLoopback = true
  readonly decidesCors = false
  readonly disconnected = false
  #request: Request | undefined

  /** A request to `stdio:` without headers. */
  get request(): Request {
    this.#request ??= new Request('stdio:')
    return this.#request
  }

  addResponseHeaders(): void {
    // Responses over stdio do not have headers.
  }

  authenticatedBy(): undefined {
    return undefined
  }

  authenticatedAs(): void {
    // Clients do not send tokens over stdio.
  }

  header(): undefined {
    return undefined
  }

  onDisconnect(): void {
    // The connection ends all requests itself.
  }

  async readBody(): Promise<{ readonly kind: 'unreadable' }> {
    return { kind: 'unreadable' }
  }
}
