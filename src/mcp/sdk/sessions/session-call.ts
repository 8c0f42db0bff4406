import {
  isInitializeRequest,
  isJSONRPCNotification,
  isJSONRPCRequest,
  isJSONRPCResponse,
  type JSONRPCMessage,
} from '@modelcontextprotocol/server'
import type { PlainResponse } from '../../../base/http/plain-response.ts'
import type { ClientConnection } from '../../wire/event-stream.ts'
import type { Exchange } from '../../wire/exchange.ts'
import type { McpRequest } from '../../wire/mcp-request.ts'
import { Reply, type ReplyOptions } from '../streams/event-outlet.ts'

/** A request to a session. */
export interface SessionCall {
  readonly request: McpRequest
  readonly client: ClientConnection
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

/** Returns the revision that a message asks for, if it is `initialize`. */
export function revisionIn(message: unknown): string | undefined {
  const { method } = Object(message)
  return method === 'initialize' && isInitializeRequest(message) ? message.params.protocolVersion : undefined
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

/** A request to a session, and its response. */
export class PendingRequest extends Reply {
  /** It has no body: the memory of a body counts only until the response, and timers hold this object longer. */
  readonly received: Omit<SessionCall, 'body'>
  /** The stream of the response, among the streams of the session. */
  readonly streamId: number

  constructor(
    { body: _body, ...received }: SessionCall,
    streamId: number,
    options: Omit<ReplyOptions, 'client'>,
  ) {
    super({ ...options, client: received.client })
    this.received = received
    this.streamId = streamId
  }
}
