import type { JSONRPCMessage } from '@modelcontextprotocol/server'
import type { PlainResponse } from '../../../http/plain-response.ts'
import type { AuthInfo } from '../../../oauth/auth-info.ts'
import { type Exchange, isAnonymous } from '../../wire/exchange.ts'
import type { McpRequest } from '../../wire/mcp-request.ts'
import type { ObservedClient } from '../../wire/request-telemetry.ts'
import { type ServedRequest, servedRequest } from '../served-request.ts'
import type { EventOutlet } from '../streams/event-outlet.ts'

/** The body of a POST to a session. */
export interface SessionBody {
  /** The parsed body. Undefined for GET and DELETE. */
  readonly body: unknown
  /** The messages in `body`. */
  readonly messages: readonly unknown[]
}

/** The adapter of sessions, as their requests see it. */
export interface SessionCallHost {
  /** `true` if telemetry takes the events of tool calls from the responses. */
  readonly emitsToolEvents: boolean
  /** Returns the scopes that messages need. */
  scopesOf(messages: readonly unknown[]): readonly string[]
  /** Returns `true` if the token of a request may read a resource. */
  permitsResource(exchange: Exchange, uri: string): boolean
  countedFor(request: McpRequest, auth: AuthInfo | undefined): string | undefined
  takeStream(request: McpRequest, exchange: Exchange): (() => void) | PlainResponse
}

/** A request to a session. */
export class SessionCall {
  readonly body: unknown
  /** The scopes that the operations of `body` need. */
  readonly scopes: readonly string[]
  readonly #received: McpRequest
  readonly #exchange: Exchange
  readonly #host: SessionCallHost
  #request: ServedRequest | undefined

  constructor(received: McpRequest, exchange: Exchange, posted: SessionBody, host: SessionCallHost) {
    this.body = posted.body
    this.scopes = host.scopesOf(posted.messages)
    this.#received = received
    this.#exchange = exchange
    this.#host = host
  }

  /** The owner that the session and its streams count for, or undefined if it is not known. */
  get countedFor(): string | undefined {
    return this.#host.countedFor(this.#received, this.auth)
  }

  /** Returns `true` if the token may read a resource. */
  permitsResource(uri: string): boolean {
    return this.#host.permitsResource(this.#exchange, uri)
  }

  /** Takes a slot for an event stream. @returns a function that frees the slot, or the refusal if none is free */
  takeStream(): (() => void) | PlainResponse {
    return this.#host.takeStream(this.#received, this.#exchange)
  }

  get method(): string {
    return this.#received.method
  }

  get auth(): AuthInfo | undefined {
    return this.#exchange.auth
  }

  /** The client that has sent the request, if telemetry observes it. */
  get client(): ObservedClient | undefined {
    return this.#exchange.telemetry.client
  }

  /** `true` if a gate serves the request without a token. */
  get isAnonymous(): boolean {
    return isAnonymous(this.#exchange)
  }

  /** The request for the transport of the SDK. */
  get request(): Request {
    this.#request ??= servedRequest(this.#received, this.#exchange)
    return this.#request
  }

  /** Returns the value of a request header by its lower-case name. */
  header(name: string): string | undefined {
    return this.#received.header(name)
  }

  /** The event after which the client resumes a stream; `''` if it opens a new one. */
  get lastEventId(): string {
    return this.header('last-event-id') ?? ''
  }

  /** Returns the response to a token that lacks some of these scopes, or undefined if it has them all. */
  refusalFor(scopes: readonly string[]): PlainResponse | undefined {
    const { gate, auth } = this.#exchange
    if (gate === undefined || auth === undefined || gate.permits(auth.scopes, scopes)) return undefined
    return gate.responseTo(gate.insufficientScope(scopes, auth.scopes), this.#received)
  }

  /** Calls `listener` when the client disconnects. The host may leave the stream open then. */
  onDisconnect(listener: () => void): void {
    this.#received.onDisconnect(listener)
  }

  /** Receives the responses to the requests in `body`. */
  onResponse(response: JSONRPCMessage): void {
    this.#exchange.telemetry.messageSent(response, this.#host.emitsToolEvents)
  }

  /** Receives the stream of the response, so that handlers can wait until its client has read. */
  onStream(outlet: EventOutlet): void {
    this.#exchange.outflow = outlet
  }
}
