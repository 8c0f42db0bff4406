import {
  type JSONRPCMessage,
  type McpServer,
  type MessageExtraInfo,
  type RequestId,
  type Server,
  type ServerEvent,
  SUPPORTED_PROTOCOL_VERSIONS,
  type Transport,
  type TransportSendOptions,
} from '@modelcontextprotocol/server'
import type { HttpResponse, PlainResponse } from '../../../base/http/plain-response.ts'
import { elapsedMs } from '../../../base/timers.ts'
import { tryOrUndefined } from '../../../base/try-or-undefined.ts'
import type { AuthInfo } from '../../../oauth/auth-info.ts'
import { SubscribedUris, type Subscriptions } from '../../operations/subscriptions.ts'
import { EVENT_STREAM_HEADERS, isEventStream, OPEN } from '../../wire/event-stream.ts'
import { type Exchange, isAnonymous, type ObservedClient } from '../../wire/exchange.ts'
import { CANCELED, jsonRpcError, requestIdOf, retryLater, sessionNotFound } from '../../wire/json-rpc.ts'
import { accepts, SERVED_TYPES } from '../../wire/request-headers.ts'
import { EventOutlet } from '../streams/event-outlet.ts'
import { isMessage, PendingRequest, refusalFor, revisionIn, type SessionCall } from './session-call.ts'
import { SessionEvents } from './session-events.ts'

/** The handler of requests, as sessions see it. */
export interface SessionsHost {
  /**
   * `true` for servers of the application. They can read the web-standard request, and telemetry takes the events of tool calls
   * from their responses.
   */
  readonly isForeign: boolean
  makeServer(session: Session, received: SessionCall): Promise<Server | McpServer>
  /** Returns a key of what a token permits. The server of a session serves only tokens with the same key. */
  authorityOf(auth: AuthInfo | undefined): string
  /** Returns `true` if the token of a request may read a resource. */
  permitsResource(exchange: Exchange, uri: string): boolean
  /** Returns the owner that a session and its streams count for, or undefined if it is not known. */
  countedFor(received: SessionCall): string | undefined
  /** Takes a slot for an event stream. @returns a function that frees the slot, or the refusal if none is free */
  takeStream(received: SessionCall): (() => void) | PlainResponse
  /** Called when a session ends. */
  onSessionEnd(session: Pick<Session, 'durationMs' | 'revision' | 'observedClient'>): void
}

/** The sessions of an adapter, as a session sees them. */
export interface SessionOwner {
  readonly host: SessionsHost
  readonly options: { readonly maxBufferedBytes: number }
  /** Called for every request. */
  used(session: Session): void
  /** Called when the session keeps a further event. */
  limitKept(session: Session): void
  /** Called once, when the session has ended. */
  ended(session: Session): void
}

/** The maximum number of requests of one session in progress. Requests whose client has disconnected count. */
const MAX_PENDING = 1_024

/** The maximum size of an `initialize` request as JSON, in bytes. The server of a session keeps parts of it. */
const MAX_INITIALIZE_BYTES = 131_072

/** The same for a request without a token. Clients send less than 2,000 bytes. */
const MAX_ANONYMOUS_INITIALIZE_BYTES = 8_192

/** The stream that a client opens with GET, among the streams of a session. */
const STANDALONE_STREAM = 0

/** The first revision whose clients know events without data. */
const EMPTY_EVENTS_REVISION = '2025-11-25'

/** One session of a client of a 2025 revision: a server of the SDK and its transport. */
export class Session implements Subscriptions {
  readonly id: string
  /** The owner. A session that was opened without a token has none (`''`) until it is adopted. */
  owner: string
  /** The owner that the session counts for, or undefined if it is not known or the session is not counted. */
  countedFor: string | undefined = undefined
  idleSince = 0
  /** The revision that the client has asked for, if the SDK supports it. Set when the session has begun. */
  revision: string | undefined = undefined
  /** The client, if telemetry observes it. Set when the session has begun. */
  observedClient: ObservedClient | undefined = undefined
  hasBegun = false
  readonly #sessions: SessionOwner
  readonly #startedAt = performance.now()
  /** The events that a client can receive again. */
  readonly events: SessionEvents
  /** By id, the requests of the client without a response. */
  readonly #pending = new Map<RequestId, PendingRequest>()
  /** The token for which the server was made. See `SessionsHost.authorityOf`. */
  readonly #authority: string
  readonly #transport: Transport
  /** The headers of every stream. */
  readonly #headers: Readonly<Record<string, string>>
  #isConnected = false
  #revisions: readonly string[] = SUPPORTED_PROTOCOL_VERSIONS
  /** The number of HTTP requests in progress, with their streams. */
  #uses = 0
  #lastStreamId = STANDALONE_STREAM
  /** The request that has opened the stream of GET that is open. */
  #reader: { readonly received: SessionCall; readonly outlet: EventOutlet } | undefined = undefined
  readonly #subscribed = new SubscribedUris()
  #hasEnded = false

  constructor(id: string, owner: string, { exchange }: SessionCall, sessions: SessionOwner) {
    this.id = id
    this.owner = owner
    this.#sessions = sessions
    this.#authority = sessions.host.authorityOf(exchange.auth)
    this.events = new SessionEvents(sessions.options.maxBufferedBytes, () => sessions.limitKept(this))
    this.#headers = { ...EVENT_STREAM_HEADERS, 'Mcp-Session-Id': id }
    this.#transport = {
      sessionId: id,
      start: async () => undefined,
      send: (message, options) => this.#send(message, options),
      // An application that closes the server of a session ends the session.
      close: async () => this.end(),
      setSupportedProtocolVersions: (revisions) => {
        this.#revisions = revisions
      },
    }
  }

  /** `true` if no HTTP request is in progress and no stream is open. */
  get isIdle(): boolean {
    return this.#uses === 0
  }

  get hasEnded(): boolean {
    return this.#hasEnded
  }

  /** The time since the session began, in milliseconds. */
  get durationMs(): number {
    return elapsedMs(this.#startedAt)
  }

  /** Returns `false` for a token that the server must not serve, because the application has made it for another one. */
  serves(auth: AuthInfo | undefined): boolean {
    return this.#sessions.host.authorityOf(auth) === this.#authority
  }

  /** Serves an HTTP request. @param release is called when the request and its stream have ended */
  async serve(received: SessionCall, release: () => void = () => undefined): Promise<HttpResponse> {
    this.#sessions.used(this)
    this.#uses++
    let isInUse = true
    const end = (): void => {
      if (!isInUse) return
      isInUse = false
      this.#uses--
      this.idleSince = Date.now()
      release()
    }
    try {
      const response = await this.#respond(received, end)
      if (!isEventStream(response)) end()
      return response
    } catch (error) {
      end()
      throw error
    }
  }

  /** Returns a request without a response. Notifications for a client that does not read wait in its stream. */
  requestOf(id: RequestId | undefined): PendingRequest | undefined {
    return id === undefined ? undefined : this.#pending.get(id)
  }

  /** Sends a notification to a client that wants it. Without an open stream, the notification is kept. */
  notify(event: ServerEvent, notification: { method: string; params?: { uri: string } }): void {
    if (event.kind === 'resource_updated' && !this.#subscribed.has(event.uri)) return
    // Sending fails only if the session has ended.
    this.#send({ jsonrpc: '2.0', ...notification }).catch(() => undefined)
  }

  subscribe(_owner: string, uri: string): void {
    this.#subscribed.add(uri)
  }

  unsubscribe(_owner: string, uri: string): void {
    this.#subscribed.delete(uri)
  }

  end(): void {
    if (this.#hasEnded) return
    this.#hasEnded = true
    this.#sessions.ended(this)
    for (const pending of this.#pending.values()) pending.close(sessionNotFound())
    this.#pending.clear()
    this.#reader?.outlet.end()
    // The session has ended, so an error has no receiver.
    tryOrUndefined(() => this.#transport.onclose?.())
  }

  /** @param end is called when the stream of the response has ended */
  async #respond(received: SessionCall, end: () => void): Promise<HttpResponse> {
    const { method } = received.request
    if (!this.#isConnected) {
      this.#isConnected = true
      const server = await this.#sessions.host.makeServer(this, received)
      await server.connect(this.#transport)
    }
    if (this.#hasEnded) return sessionNotFound()
    const refused = this.#refusal(received)
    if (refused !== undefined) return refused
    if (method === 'POST') return await this.#post(received, received.body as JSONRPCMessage, end)
    if (method === 'GET') return this.#open(received, end)
    this.end()
    return { status: 200, headers: {} }
  }

  async #post(received: SessionCall, message: JSONRPCMessage, end: () => void): Promise<HttpResponse> {
    const { request, exchange, scopes } = received
    const { auth } = exchange
    const info = {
      ...(auth !== undefined && { authInfo: auth }),
      ...(this.#sessions.host.isForeign && { request: request.request }),
    }
    const id = requestIdOf(message)
    if (id === null) {
      this.#receive(message, info)
      return { status: 202, headers: {} }
    }
    const streamId = ++this.#lastStreamId
    const revision = revisionIn(message) ?? request.header('mcp-protocol-version') ?? ''
    const canResume = this.#revisions.includes(revision) && revision >= EMPTY_EVENTS_REVISION
    const pending = new PendingRequest(received, streamId, {
      ...(canResume && { first: this.events.store(streamId, scopes) }),
      headers: this.#headers,
      onEnd: end,
    })
    const extra = {
      ...info,
      ...(canResume && {
        closeSSEStream: () => pending.release(),
        closeStandaloneSSEStream: () => this.#reader?.outlet.end(),
      }),
    }
    this.#pending.set(id, pending)
    exchange.outflow = pending.outflow
    try {
      this.#receive(message, extra)
    } catch (error) {
      this.#pending.delete(id)
      pending.close(sessionNotFound())
      throw error
    }
    setImmediate(() => pending.begin())
    return await pending.response
  }

  /** Opens the stream of GET, or resumes the stream of a POST, in place of a stream that is open. */
  #open(received: SessionCall, end: () => void): HttpResponse {
    const { request, exchange } = received
    const lastEventId = request.header('last-event-id') ?? ''
    const last = this.events.find(lastEventId)
    const refused = refusalFor(received, last?.scopes ?? [])
    if (refused !== undefined) return refused
    const streamId = lastEventId === '' ? STANDALONE_STREAM : last?.streamId
    if (streamId === undefined) return this.#refuse(400, 'Invalid event ID format')
    const pending = [...this.#pending.values()].find((one) => one.streamId === streamId)
    const outlet = new EventOutlet({
      endsWhenFull: true,
      expiresAt: exchange.auth?.expiresAt,
      isDirect: true,
      onEnd: () => {
        if (this.#reader?.outlet === outlet) this.#reader = undefined
        end()
      },
    })
    // A proxy can hold a stream open that the client has lost.
    pending?.release(outlet)
    if (streamId === STANDALONE_STREAM) {
      this.#reader?.outlet.end()
      this.#reader = { received, outlet }
    }
    const missed = this.events.after(lastEventId, (message) => this.#mayBeRead(message, received))
    const goesOn = pending !== undefined || streamId === STANDALONE_STREAM
    const response = outlet.open(goesOn && missed.length === 0 ? OPEN : '', this.#headers)
    for (const event of missed) outlet.write(event)
    if (!goesOn) outlet.end()
    // A web-standard host may neither read nor cancel the body.
    request.onDisconnect(() => outlet.end())
    return response
  }

  /** Passes a message of the client on to the server. */
  #receive(message: JSONRPCMessage, extra: MessageExtraInfo): void {
    this.#transport.onmessage?.(message, extra)
    if (!('method' in message) || message.method !== 'notifications/cancelled') return
    const canceled = message.params?.requestId as RequestId
    const pending = this.#pending.get(canceled)
    if (pending === undefined) return
    // The server does not respond to a canceled request. Without a response, its stream would stay open.
    setImmediate(() => {
      if (this.#pending.get(canceled) === pending)
        this.#respondTo(canceled, { jsonrpc: '2.0', id: canceled, error: CANCELED })
    })
  }

  /** Sends a message of the server. */
  async #send(message: JSONRPCMessage, options?: TransportSendOptions): Promise<void> {
    if (!('method' in message)) return this.#respondTo(message.id as RequestId, message)
    const related = options?.relatedRequestId
    if (related === undefined) {
      // Without an open stream, the message is kept. The token that asks for it is checked then.
      if (this.#reader !== undefined && !this.#mayBeRead(message, this.#reader.received)) return
      const event = this.events.store(STANDALONE_STREAM, [], message)
      this.#reader?.outlet.write(event)
      return
    }
    const pending = this.#pending.get(related)
    if (pending !== undefined)
      pending.write(this.events.store(pending.streamId, pending.received.scopes, message))
    else if ('id' in message) throw new Error('The request that this server request belongs to has ended')
  }

  #respondTo(id: RequestId, response: JSONRPCMessage): void {
    const pending = this.#pending.get(id)
    if (pending === undefined) return
    this.#pending.delete(id)
    const { exchange, scopes } = pending.received
    exchange.telemetry.messageSent(response, this.#sessions.host.isForeign)
    pending.end(this.events.store(pending.streamId, scopes, response))
  }

  /** Returns the response to a request that the protocol, or a limit, does not allow. */
  #refusal({ request, exchange, body }: SessionCall): PlainResponse | undefined {
    const id = requestIdOf(body)
    if (id !== null && this.#pending.has(id))
      return jsonRpcError(400, -32_600, 'Invalid Request: a request with this id is still in flight')
    if (id !== null && this.#pending.size >= MAX_PENDING)
      return retryLater(429, 'Too many requests of this session are in flight')
    const { method } = request
    const types = method === 'DELETE' ? [] : method === 'GET' ? ['text/event-stream'] : SERVED_TYPES
    if (types.some((type) => !accepts(request.header('accept'), type)))
      return this.#refuse(
        406,
        `Not Acceptable: Client must accept ${types.length > 1 ? 'both ' : ''}${types.join(' and ')}`,
      )
    if (method === 'POST' && !isMessage(body))
      return this.#refuse(400, 'Parse error: Invalid JSON-RPC message', -32_700)
    if (revisionIn(body) !== undefined) {
      const max = isAnonymous(exchange) ? MAX_ANONYMOUS_INITIALIZE_BYTES : MAX_INITIALIZE_BYTES
      if (Buffer.byteLength(JSON.stringify(body)) > max)
        return jsonRpcError(400, -32_602, `Invalid params: initialize must have at most ${max} bytes`)
      return this.hasBegun
        ? this.#refuse(400, 'Invalid Request: Server already initialized', -32_600)
        : undefined
    }
    const revision = request.header('mcp-protocol-version')
    if (revision === undefined || this.#revisions.includes(revision)) return undefined
    const supported = this.#revisions.join(', ')
    return this.#refuse(
      400,
      `Bad Request: Unsupported protocol version: ${revision} (supported versions: ${supported})`,
    )
  }

  /** Returns `true` if the token of the request that has opened a stream may read a message on it. */
  #mayBeRead(message: JSONRPCMessage, { exchange }: SessionCall): boolean {
    if (!('method' in message) || message.method !== 'notifications/resources/updated') return true
    const uri = message.params?.uri
    return typeof uri !== 'string' || this.#sessions.host.permitsResource(exchange, uri)
  }

  /** Returns a refusal, about which the server learns. */
  #refuse(status: number, message: string, code = -32_000): PlainResponse {
    this.#transport.onerror?.(new Error(message))
    return jsonRpcError(status, code, message)
  }
}
