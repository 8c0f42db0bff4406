import {
  type JSONRPCMessage,
  type JSONRPCRequest,
  type MessageExtraInfo,
  SUPPORTED_PROTOCOL_VERSIONS,
  type TransportSendOptions,
  WebStandardStreamableHTTPServerTransport,
} from '@modelcontextprotocol/server'
import { isEventStream } from '../../wire/event-stream.ts'
import type { StreamClock } from '../streams/stream-clock.ts'
import type { SessionCall } from './session-call.ts'
import type { SessionEvents } from './session-events.ts'
import type { StandaloneStream } from './standalone-stream.ts'

/** The time after which a client opens a stream again that has ended, in milliseconds. */
export const RETRY_MS = 1_000

/** The part of the client's messages that a session keeps while it has no server. */
export interface ClientState {
  /** The parameters of the client's `initialize`, as JSON. */
  initialize: string | undefined
  isInitialized: boolean
  /** The log level that the client has set. */
  logLevel: string | undefined
  /** The id of the next request to the client. */
  nextRequestId: number
}

/** The session of a transport. */
export interface TransportSession {
  readonly id: string
  readonly client: ClientState
  readonly events: SessionEvents
  readonly clock: StreamClock
  readonly standalone: StandaloneStream
}

/** The receiver of what a transport receives. */
export interface TransportSide {
  onMessage(message: JSONRPCMessage, extra: MessageExtraInfo | undefined): void
  onError(error: Error): void
  /** Called when the client has ended the session. */
  onClose(): void
  /** Returns the scopes that a request needs, as `McpServer` declares them to its transport. */
  challengeFor(context: { request: JSONRPCRequest; authInfo?: object }): unknown
}

/** Thrown if a session has ended while a request was on its way to a server. */
export class SessionEnded extends Error {}

/**
 * The transport of the SDK for one session. It is created when a request needs it. If the client has sent `initialize`
 * before, the transport receives it again, because it rejects all requests before.
 */
export class SessionTransport {
  readonly #session: TransportSession
  readonly #side: TransportSide
  #transport: WebStandardStreamableHTTPServerTransport | undefined
  /** Settles when the transport has received `initialize` again. */
  #restored: Promise<void> | undefined
  #isRestoring = false
  #versions: string[] | undefined
  #isClosed = false

  constructor(session: TransportSession, side: TransportSide) {
    this.#session = session
    this.#side = side
  }

  /** @throws {SessionEnded} if the transport is closed */
  async handle(received: SessionCall): Promise<Response> {
    if (this.#isClosed) throw new SessionEnded()
    const transport = this.#transport ?? this.#create(received)
    if (this.#restored !== undefined) await this.#restored
    const { request, body, auth } = received
    const response = await transport.handleRequest(request, {
      ...(body !== undefined && { parsedBody: body }),
      ...(auth !== undefined && { authInfo: auth }),
    })
    if (!this.#isClosed || !isEventStream(response)) return response
    // The transport does not end a stream that it begins after it was closed.
    response.body?.cancel().catch(() => undefined)
    throw new SessionEnded()
  }

  /** Sends a message on the stream of the request that it belongs to. */
  async send(
    message: JSONRPCMessage,
    { relatedRequestId }: Pick<TransportSendOptions, 'relatedRequestId'> = {},
  ): Promise<void> {
    await this.#transport?.send(message, relatedRequestId === undefined ? {} : { relatedRequestId })
  }

  /** The revisions that the client may name in a request. */
  get protocolVersions(): readonly string[] {
    return this.#versions ?? SUPPORTED_PROTOCOL_VERSIONS
  }

  setSupportedProtocolVersions(versions: string[]): void {
    this.#versions = versions
    this.#transport?.setSupportedProtocolVersions(versions)
  }

  close(): void {
    this.#isClosed = true
    // The session has ended, so an error has no receiver.
    this.#transport?.close().catch(() => undefined)
  }

  #create(received: SessionCall): WebStandardStreamableHTTPServerTransport {
    const { id, events, client, standalone } = this.#session
    const side = this.#side
    const transport = new WebStandardStreamableHTTPServerTransport({
      sessionIdGenerator: () => id,
      eventStore: {
        storeEvent: async (streamId, message) =>
          this.#isRestoring ? '' : await events.storeEvent(streamId, message),
        getStreamIdForEventId: (eventId) => events.getStreamIdForEventId(eventId),
        replayEventsAfter: (eventId, to) =>
          events.replayEventsAfter(eventId, to, (message) => standalone.mayBeRead(message)),
      },
      retryInterval: RETRY_MS,
      // The outlets send comments.
      keepAliveMs: 0,
      ...(this.#versions !== undefined && { supportedProtocolVersions: this.#versions }),
    })
    transport.onmessage = (message, extra) => this.#deliver(message, extra)
    transport.onerror = (error) => side.onError(error)
    transport.onclose = () => side.onClose()
    transport.setScopeChallengeResolver((context) => side.challengeFor(context) as never)
    this.#transport = transport
    if (client.initialize !== undefined)
      this.#restored = this.#restore(transport, received, client.initialize)
    return transport
  }

  #deliver(message: JSONRPCMessage, extra: MessageExtraInfo | undefined): void {
    const { standalone } = this.#session
    // The transport does not have the standalone stream.
    const closeStandaloneSSEStream = extra?.closeStandaloneSSEStream && (() => standalone.close())
    this.#side.onMessage(message, closeStandaloneSSEStream ? { ...extra, closeStandaloneSSEStream } : extra)
  }

  async #restore(
    transport: WebStandardStreamableHTTPServerTransport,
    { request: { url } }: SessionCall,
    initialize: string,
  ): Promise<void> {
    this.#isRestoring = true
    transport.onmessage = (message) => {
      // The response is part of restoring the state, and no client receives it.
      if ('id' in message) transport.send({ jsonrpc: '2.0', id: 0, result: {} }).catch(() => undefined)
    }
    try {
      const headers = { 'content-type': 'application/json', accept: 'application/json, text/event-stream' }
      const response = await transport.handleRequest(new Request(url, { method: 'POST', headers }), {
        parsedBody: { jsonrpc: '2.0', id: 0, method: 'initialize', params: JSON.parse(initialize) },
      })
      await response.text()
    } finally {
      transport.onmessage = (message, extra) => this.#deliver(message, extra)
      this.#isRestoring = false
    }
  }
}
