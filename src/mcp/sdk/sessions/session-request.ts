import type { JSONRPCMessage, JSONRPCRequest } from '@modelcontextprotocol/server'
import type { PlainResponse } from '../../../http/plain-response.ts'
import type { AuthInfo } from '../../../oauth/auth-info.ts'
import type { EventOutlet } from '../streams/event-outlet.ts'

/** An HTTP request to a session. */
export interface SessionRequest {
  readonly method: string
  /** The request for the transport of the SDK. */
  readonly request: Request
  /** A cheaper object, from which a server of the SDK gets the data of the request. */
  readonly handle: Request
  /** The only message of the body, if it is a well-formed request that does not need the transport of the SDK. */
  readonly quick: JSONRPCRequest | undefined
  /** The parsed body of a POST. */
  readonly body: unknown
  readonly auth: AuthInfo | undefined
  /** `true` if a gate serves the request without a token. */
  readonly isAnonymous: boolean
  /** The scopes that the operations of `body` need. */
  readonly scopes: readonly string[]
  /** Returns the value of a request header by its lower-case name. */
  header(name: string): string | undefined
  /** Returns the response to a token that lacks some of these scopes, or undefined if it has them all. */
  refusalFor(scopes: readonly string[]): PlainResponse | undefined
  /** Returns `true` if the token may read a resource. */
  permitsResource(uri: string): boolean
  /** Calls `listener` when the client disconnects. The host may leave the stream open then. */
  onDisconnect(listener: () => void): void
  /** Receives the responses to the requests in `body`. */
  onResponse(response: JSONRPCMessage): void
  /** Receives the stream of the response, so that handlers can wait until its client has read. */
  onStream(outlet: EventOutlet): void
}
