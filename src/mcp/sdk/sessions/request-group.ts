import type { RequestId } from '@modelcontextprotocol/server'
import { BatchTurns } from '../streams/batch-turns.ts'
import { Reply, type ReplyOptions } from '../streams/reply.ts'
import type { SessionCall } from './session-call.ts'

/** The requests of one POST to a session. They share a response. */
export class RequestGroup extends Reply {
  /** It has no body: the memory of a body counts only until the response, and timers hold this object longer. */
  readonly received: Omit<SessionCall, 'body'>
  /** The stream of the response, among the streams of the session. */
  readonly streamId: number
  /** The order of the requests. Undefined for a single request. */
  readonly turns: BatchTurns | undefined
  /** The number of requests without a response. */
  #owed: number

  constructor(
    { body: _body, ...received }: SessionCall,
    ids: readonly RequestId[],
    streamId: number,
    options: Omit<ReplyOptions, 'client'>,
  ) {
    super({ ...options, client: received.request })
    this.received = received
    this.streamId = streamId
    this.turns = ids.length > 1 ? new BatchTurns({ room: () => this.outflow.room() }) : undefined
    this.#owed = ids.length
  }

  /** Sends the response to one of the requests. */
  respond(id: RequestId, event: string): void {
    this.#owed--
    if (this.#owed > 0) this.write(event)
    else this.end(event)
    this.turns?.end(id)
  }
}
