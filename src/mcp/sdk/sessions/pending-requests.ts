import type {
  JSONRPCMessage,
  JSONRPCNotification,
  MessageExtraInfo,
  RequestId,
} from '@modelcontextprotocol/server'
import { EventOutlet } from '../streams/event-outlet.ts'
import type { SessionLink } from './session-link.ts'

/** The requests of one POST. They share an event stream, so their ids are in use until all of them have ended. */
export interface RequestGroup {
  readonly requests: Map<RequestId, PendingRequest>
  /** The number of requests that are neither completed nor canceled. */
  open: number
  /** The scopes that the operations of the requests need. */
  readonly scopes: readonly string[]
  /** Receives the responses. */
  readonly onResponse: ((response: JSONRPCMessage) => void) | undefined
  readonly outlet: EventOutlet
  /** The name of the stream in the event store, once it is known. */
  streamId?: string | undefined
}

/** A request of the client without a response. */
export interface PendingRequest {
  readonly group: RequestGroup
  /** The link to the server that the request was delivered to. */
  link?: SessionLink
  isDone: boolean
  /** The cancellation, if it came before the request was delivered. */
  cancellation?: { readonly message: JSONRPCNotification; readonly extra: MessageExtraInfo | undefined }
}

/** The requests of one session that are in progress, by id. */
export class PendingRequests {
  readonly #byId = new Map<RequestId, PendingRequest>()
  readonly #giveBack: (link: SessionLink) => void

  /** @param giveBack is called for the link of each request that has ended */
  constructor(giveBack: (link: SessionLink) => void) {
    this.#giveBack = giveBack
  }

  get size(): number {
    return this.#byId.size
  }

  has(id: RequestId): boolean {
    return this.#byId.has(id)
  }

  get(id: RequestId): PendingRequest | undefined {
    return this.#byId.get(id)
  }

  /** Reserves the ids of the requests of one POST. */
  reserve(
    ids: readonly RequestId[],
    {
      scopes,
      onResponse,
    }: Pick<RequestGroup, 'scopes'> & { readonly onResponse?: RequestGroup['onResponse'] },
  ): RequestGroup {
    const group: RequestGroup = {
      requests: new Map(),
      open: ids.length,
      scopes,
      onResponse,
      outlet: new EventOutlet(),
    }
    for (const id of ids) {
      const request: PendingRequest = { group, isDone: false }
      group.requests.set(id, request)
      this.#byId.set(id, request)
    }
    return group
  }

  /** Frees the ids of the requests of one POST. */
  free(group: RequestGroup): void {
    for (const [id, request] of group.requests) {
      if (this.#byId.get(id) === request) this.#byId.delete(id)
      if (!request.isDone && request.link !== undefined) this.#giveBack(request.link)
      request.isDone = true
    }
  }

  /** Ends a request that has a response or was canceled. */
  finish(request: PendingRequest): void {
    if (request.isDone) return
    request.isDone = true
    const { group, link } = request
    if (--group.open === 0) this.free(group)
    if (link !== undefined) this.#giveBack(link)
  }

  clear(): void {
    this.#byId.clear()
  }
}
