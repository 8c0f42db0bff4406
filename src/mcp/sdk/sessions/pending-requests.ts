import type { JSONRPCNotification, MessageExtraInfo, RequestId } from '@modelcontextprotocol/server'
import { BatchTurns } from '../streams/batch-turns.ts'
import { EventOutlet } from '../streams/event-outlet.ts'
import type { FastResponse } from './fast-response.ts'
import type { SessionCall } from './session-call.ts'
import type { SessionLink } from './session-link.ts'

/** The requests of one POST. They share an event stream, so their ids are in use until all of them have ended. */
export class RequestGroup {
  readonly requests: Map<RequestId, PendingRequest> = new Map()
  /** The number of requests that are neither completed nor canceled. */
  open: number
  readonly received: SessionCall
  /** The order of the requests. Undefined for a single request. */
  readonly turns: BatchTurns | undefined
  /** The name of the stream in the event store, once it is known. */
  streamId: string | undefined = undefined
  #outlet: EventOutlet | undefined

  constructor(received: SessionCall, open: number) {
    this.received = received
    this.open = open
    this.turns = open > 1 ? new BatchTurns(this.outlet) : undefined
  }

  /** The stream of the response. It is created at the first use, because most responses are not streams. */
  get outlet(): EventOutlet {
    this.#outlet ??= new EventOutlet()
    return this.#outlet
  }
}

/** A cancellation by the client. */
export interface Cancellation {
  readonly message: JSONRPCNotification
  readonly extra: MessageExtraInfo | undefined
}

/** A request of the client without a response. */
export interface PendingRequest {
  readonly group: RequestGroup
  /** The link to the server that the request was delivered to. */
  link?: SessionLink
  /** Set for a request that was delivered without the transport of the SDK. */
  fast?: FastResponse
  isDone: boolean
  /** The cancellation, if it came before the request was delivered. */
  cancellation?: Cancellation
}

/** The requests of one session that are in progress, by id. */
export class PendingRequests extends Map<RequestId, PendingRequest> {
  readonly #giveBack: (link: SessionLink) => void

  /** @param giveBack is called for the link of each request that has ended */
  constructor(giveBack: (link: SessionLink) => void) {
    super()
    this.#giveBack = giveBack
  }

  /** Reserves the ids of the requests of one POST. */
  reserve(ids: readonly RequestId[], received: SessionCall): RequestGroup {
    const group = new RequestGroup(received, ids.length)
    for (const id of ids) {
      const request: PendingRequest = { group, isDone: false }
      group.requests.set(id, request)
      this.set(id, request)
    }
    return group
  }

  /** Frees the ids of the requests of one POST. */
  free(group: RequestGroup): void {
    group.turns?.clear()
    for (const [id, request] of group.requests) {
      if (this.get(id) === request) this.delete(id)
      if (!request.isDone && request.link !== undefined) this.#giveBack(request.link)
      request.isDone = true
    }
  }

  /** Ends a request that has a response or was canceled. */
  finish(request: PendingRequest): void {
    if (request.isDone) return
    request.isDone = true
    const { group, link } = request
    group.turns?.end(request)
    if (--group.open === 0) this.free(group)
    if (link !== undefined) this.#giveBack(link)
  }
}
