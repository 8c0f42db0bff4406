import {
  isInitializeRequest,
  isJSONRPCNotification,
  isJSONRPCRequest,
  isJSONRPCResponse,
  type JSONRPCMessage,
  type RequestId,
} from '@modelcontextprotocol/server'
import type { PlainResponse } from '../../../base/http/plain-response.ts'
import type { Exchange } from '../../wire/exchange.ts'
import type { McpRequest } from '../../wire/mcp-request.ts'
import { Reply, type ReplyOptions } from '../streams/event-outlet.ts'
import { BatchTurns } from '../watch-messages.ts'

/** A request to a session. */
export interface SessionCall {
  readonly request: McpRequest
  readonly exchange: Exchange
  /** The parsed body. Undefined for GET and DELETE. */
  readonly body: unknown
  /** The scopes that the operations of `body` need. */
  readonly scopes: readonly string[]
}

/** Returns `true` for a JSON-RPC message. */
export function isMessage(message: unknown): message is JSONRPCMessage {
  return isJSONRPCRequest(message) || isJSONRPCNotification(message) || isJSONRPCResponse(message)
}

/** Returns the revision that `initialize` asks for, if one of the messages is `initialize`. */
export function revisionIn(messages: readonly unknown[]): string | undefined {
  for (const message of messages)
    if ((message as { method?: unknown } | null)?.method === 'initialize' && isInitializeRequest(message))
      return message.params.protocolVersion
  return undefined
}

/** Returns the response to a token that lacks some of these scopes, or undefined if it has them all. */
export function refusalFor(
  { request, exchange }: SessionCall,
  scopes: readonly string[],
): PlainResponse | undefined {
  const { gate, auth } = exchange
  if (gate === undefined || auth === undefined || gate.permits(auth.scopes, scopes)) return undefined
  return gate.responseTo(gate.insufficientScope(scopes, auth.scopes), request)
}

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
