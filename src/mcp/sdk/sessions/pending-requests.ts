import type { RequestId } from '@modelcontextprotocol/server'
import { BatchTurns } from '../streams/batch-turns.ts'
import type { EventOutlet } from '../streams/event-outlet.ts'
import type { SessionCall } from './session-call.ts'

/** The requests of one POST. They share an event stream, so their ids are in use until all of them have ended. */
export class RequestGroup {
  readonly received: SessionCall
  readonly requests: ReadonlyMap<RequestId, PendingRequest>
  /** The stream of the responses. A client that resumes it gets another one. */
  outflow: EventOutlet
  /** The order of the requests. Undefined for a single request. */
  readonly turns: BatchTurns | undefined
  /** The name of the stream in the event store, once it is known. */
  streamId: string | undefined = undefined

  constructor(received: SessionCall, ids: readonly RequestId[], outflow: EventOutlet) {
    this.received = received
    this.outflow = outflow
    this.requests = new Map(ids.map((id) => [id, { group: this, isDelivered: false, isDone: false }]))
    this.turns = ids.length > 1 ? new BatchTurns({ room: () => this.outflow.room() }) : undefined
  }
}

/** A request of the client without a response, or in a group with such a request. */
export interface PendingRequest {
  readonly group: RequestGroup
  /** `true` if the request has a response. */
  isDone: boolean
  /** `true` if the server has received the request, or it waits for its turn in a batch. */
  isDelivered: boolean
  /** Called when the server has received the request, which was canceled before. */
  onDelivered?: () => void
}

/** The requests of one session that are in progress, by id. */
export class PendingRequests extends Map<RequestId, PendingRequest> {
  /** Reserves the ids of the requests of one POST. */
  reserve(group: RequestGroup): void {
    for (const [id, request] of group.requests) this.set(id, request)
  }

  /** Frees the ids of the requests of one POST. */
  free({ requests, turns }: RequestGroup): void {
    turns?.clear()
    for (const [id, request] of requests) if (this.get(id) === request) this.delete(id)
  }

  /** Frees the ids of a group if all of its requests have a response. */
  settle(group: RequestGroup): void {
    if ([...group.requests.values()].every(({ isDone }) => isDone)) this.free(group)
  }

  override clear(): void {
    for (const { group } of this.values()) group.turns?.clear()
    super.clear()
  }
}
