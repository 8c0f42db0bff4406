import type {
  JSONRPCMessage,
  JSONRPCNotification,
  JSONRPCRequest,
  MessageExtraInfo,
  RequestId,
} from '@modelcontextprotocol/server'
import type { SessionLink } from './session-link.ts'
import type { ClientState } from './session-transport.ts'

interface ServerRequest {
  readonly link: SessionLink
  /** The id that the server has given the request. Several servers of a session use the same ids. */
  readonly id: RequestId
}

/**
 * The requests that the servers of one session have sent to the client and that have no response yet. The client sees each
 * of them under an id that no other server of the session uses.
 */
export class ServerRequests {
  readonly #byId = new Map<number, ServerRequest>()
  readonly #client: Pick<ClientState, 'nextRequestId'>

  constructor(client: Pick<ClientState, 'nextRequestId'>) {
    this.#client = client
  }

  get size(): number {
    return this.#byId.size
  }

  /** Returns a request of a server as it is sent to the client. */
  register(link: SessionLink, request: JSONRPCRequest): JSONRPCRequest & { readonly id: number } {
    const id = this.#client.nextRequestId++
    this.#byId.set(id, { link, id: request.id })
    const meta = request.params?._meta
    const wantsProgress = meta?.progressToken === request.id && meta !== undefined
    const params = wantsProgress
      ? { ...request.params, _meta: { ...meta, progressToken: id } }
      : request.params
    return { ...request, id, ...(params !== undefined && { params }) } as JSONRPCRequest & { id: number }
  }

  forget(id: number): void {
    this.#byId.delete(id)
  }

  /** Forgets the requests of a server that was closed. */
  forgetAllOf(link: SessionLink): void {
    for (const [id, request] of this.#byId) if (request.link === link) this.#byId.delete(id)
  }

  clear(): void {
    this.#byId.clear()
  }

  /** Passes the client's response on to the server that has sent the request. */
  respond(response: JSONRPCMessage & { id?: unknown }, extra: MessageExtraInfo | undefined): void {
    // The SDK, too, takes the id as a number.
    const id = Number(response.id)
    const request = this.#byId.get(id)
    if (request === undefined) return
    this.#byId.delete(id)
    request.link.onmessage?.({ ...response, id: request.id } as JSONRPCMessage, extra)
  }

  /** Passes a progress notification of the client on to the server that has sent the request. */
  reportProgress(notification: JSONRPCNotification, extra: MessageExtraInfo | undefined): void {
    const request = this.#byId.get(Number(notification.params?.progressToken))
    if (request === undefined) return
    const params = { ...notification.params, progressToken: request.id }
    request.link.onmessage?.({ ...notification, params } as JSONRPCNotification, extra)
  }

  /** Returns a notification of a server as it is sent to the client: a cancellation names the id that the client knows. */
  toClient(link: SessionLink, notification: JSONRPCNotification): JSONRPCNotification {
    if (notification.method !== 'notifications/cancelled') return notification
    for (const [id, request] of this.#byId) {
      if (request.link !== link || request.id !== notification.params?.requestId) continue
      this.#byId.delete(id)
      return { ...notification, params: { ...notification.params, requestId: id } }
    }
    return notification
  }
}
