import { performance } from 'node:perf_hooks'
import {
  isInitializeRequest,
  type JSONRPCMessage,
  type McpServer,
  type MessageExtraInfo,
  type RequestId,
  type Server,
  type ServerEvent,
  type TransportSendOptions,
  WebStandardStreamableHTTPServerTransport,
} from '@modelcontextprotocol/server'
import type { HttpResponse, PlainResponse } from '../../../http/plain-response.ts'
import type { AuthInfo } from '../../../oauth/auth-info.ts'
import { elapsedMs } from '../../../timers.ts'
import { SubscribedUris, type Subscriptions } from '../../operations/subscriptions.ts'
import { isEventStream } from '../../wire/event-stream.ts'
import { CANCELED, jsonRpcError, requestIdOf, retryLater, sessionNotFound } from '../../wire/json-rpc.ts'
import type { ObservedClient } from '../../wire/request-telemetry.ts'
import { EventOutlet } from '../streams/event-outlet.ts'
import type { StreamClock } from '../streams/stream-clock.ts'
import type { GuardedOutflow } from '../watch-messages.ts'
import { type PendingRequest, PendingRequests, RequestGroup } from './pending-requests.ts'
import type { SessionCall } from './session-call.ts'
import { SessionEvents, STANDALONE_STREAM } from './session-events.ts'

/** The adapter of a session. */
export interface SessionOwner {
  readonly maxBufferedBytes: number
  readonly clock: StreamClock
  makeServer(session: Session, request: Request): Promise<Server | McpServer>
  /** Returns a key of what a token permits. The server of a session serves only tokens with the same key. */
  authorityOf(auth: AuthInfo | undefined): string
  /** Called for every request. */
  onUse(session: Session): void
  /** Called when the session keeps events of `bytes` bytes in addition, or has dropped them. */
  onKept(session: Session, bytes: number): void
  /** Called once, when the session has ended. */
  onEnd(session: Session): void
}

/** The maximum number of requests of one session in progress. Requests whose client has disconnected count. */
const MAX_PENDING = 1_024

/** The maximum size of an `initialize` request as JSON, in bytes. The server of a session keeps parts of it. */
const MAX_INITIALIZE_BYTES = 131_072

/** The same for a request without a token. Clients send less than 2,000 bytes. */
const MAX_ANONYMOUS_INITIALIZE_BYTES = 8_192

/** The time after which a client opens a stream again that has ended, in milliseconds. */
const RETRY_MS = 1_000

/** The status with which the transport refuses to open a stream that is open. */
const CONFLICT = 409

type Transport = WebStandardStreamableHTTPServerTransport

/** One session of a client of a 2025 revision: a server behind a transport of the SDK. */
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
  readonly #adapter: SessionOwner
  readonly #startedAt = performance.now()
  readonly #events: SessionEvents
  readonly #pending = new PendingRequests()
  /** The token for which the server was made. See `SessionOwner.authorityOf`. */
  readonly #authority: string
  #transport: Transport | undefined = undefined
  /** Sends a message, without what wraps `send` of the transport. */
  #sendNow: Transport['send'] = async () => undefined
  /** The number of HTTP requests in progress, with their streams. */
  #uses = 0
  /** The request that has opened the stream of GET that is open. */
  #reader: { readonly received: SessionCall; readonly outlet: EventOutlet } | undefined = undefined
  /** Settles when the last GET has its stream. Streams are opened one after the other, each with its own token. */
  #opening: Promise<unknown> | undefined = undefined
  #subscribed: SubscribedUris | undefined = undefined
  /** The notifications that are being sent. */
  readonly #notifying = new Set<string>()
  #hasEnded = false

  constructor(id: string, owner: string, { auth }: SessionCall, adapter: SessionOwner) {
    this.id = id
    this.owner = owner
    this.#adapter = adapter
    this.#authority = adapter.authorityOf(auth)
    this.#events = new SessionEvents(adapter.maxBufferedBytes, (bytes) => adapter.onKept(this, bytes))
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

  /** The memory that the kept events take, in bytes. */
  get keptBytes(): number {
    return this.#events.bytes
  }

  /** Drops the oldest of the kept events. Returns `false` if there is none. */
  dropOldestEvent(): boolean {
    return this.#events.dropOldest()
  }

  /** Serves an HTTP request. @param release is called when the request and its stream have ended */
  async serve(received: SessionCall, release: () => void = () => undefined): Promise<HttpResponse> {
    // A server that the application has made for another token must not serve this one. The client begins again.
    if (this.#adapter.authorityOf(received.auth) !== this.#authority) {
      release()
      return sessionNotFound()
    }
    this.#adapter.onUse(this)
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
      if (!(response instanceof Response && isEventStream(response))) end()
      return response
    } catch (error) {
      end()
      throw error
    }
  }

  /** Returns the stream of a request. Notifications for a client that does not read wait there. */
  outflowOf(id: RequestId | undefined): GuardedOutflow | undefined {
    return id === undefined ? undefined : this.#pending.get(id)?.group
  }

  /** Sends a notification to a client that wants it. Without an open stream, the notification is kept. */
  notify(event: ServerEvent, notification: { method: string; params?: { uri: string } }): void {
    if (event.kind === 'resource_updated' && this.#subscribed?.has(event.uri) !== true) return
    // Another one that is still being sent would say the same.
    const text = JSON.stringify(notification)
    if (this.#notifying.has(text)) return
    this.#notifying.add(text)
    // Sending fails only if the session has ended.
    this.#send({ jsonrpc: '2.0', ...notification })
      .catch(() => undefined)
      .finally(() => this.#notifying.delete(text))
  }

  subscribe(_owner: string, uri: string): void {
    this.#subscribed ??= new SubscribedUris()
    this.#subscribed.add(uri)
  }

  unsubscribe(_owner: string, uri: string): void {
    this.#subscribed?.delete(uri)
  }

  end(): void {
    if (this.#hasEnded) return
    this.#hasEnded = true
    this.#adapter.onEnd(this)
    this.#pending.clear()
    // The session has ended, so an error has no receiver.
    this.#transport?.close().catch(() => undefined)
  }

  /** @param end is called when the stream of the response has ended */
  async #respond(received: SessionCall, end: () => void): Promise<HttpResponse> {
    const transport = this.#transport ?? (await this.#connect(received))
    if (received.method === 'POST') return await this.#post(transport, received, end)
    if (received.method !== 'GET') return await handle(transport, received)
    const opened = Promise.resolve(this.#opening).then(() => this.#open(transport, received, end))
    // The caller gets the error from `opened`; the next request only waits for it.
    this.#opening = opened.catch(() => undefined)
    return await opened
  }

  async #connect({ request }: SessionCall): Promise<Transport> {
    const server = await this.#adapter.makeServer(this, request)
    const transport = new WebStandardStreamableHTTPServerTransport({
      sessionIdGenerator: () => this.id,
      eventStore: this.#events,
      retryInterval: RETRY_MS,
      // The outlets send comments.
      keepAliveMs: 0,
    })
    this.#sendNow = transport.send.bind(transport)
    transport.send = (message, options) => this.#send(message, options)
    // An application that closes the server of a session ends the session, and so does DELETE.
    transport.onclose = () => this.end()
    await server.connect(transport)
    const { onerror, onmessage = () => undefined } = transport
    transport.onmessage = (message, extra) => this.#receive(message, extra, onmessage)
    transport.onerror = (error) => {
      // A stream that is open is replaced.
      if (!error.message.startsWith('Conflict')) onerror?.(error)
    }
    this.#transport = transport
    return transport
  }

  async #post(transport: Transport, received: SessionCall, end: () => void): Promise<HttpResponse> {
    const messages = [received.body].flat()
    const ids = messages.flatMap((message) => requestIdOf(message) ?? [])
    const refused = this.#refusal(received, messages, ids)
    if (refused !== undefined) return refused
    const outlet = new EventOutlet({ onEnd: end })
    const group = new RequestGroup(received, ids, outlet)
    this.#pending.reserve(group)
    received.onStream(outlet)
    try {
      const response = await handle(transport, received)
      if (!isEventStream(response)) this.#pending.free(group)
      return this.#relay(response, received, outlet, (chunk) => this.#learnStream(group, chunk))
    } catch (error) {
      this.#pending.free(group)
      throw error
    }
  }

  /** Opens the stream of GET, or resumes the stream of a POST, in place of a stream that is open. */
  async #open(transport: Transport, received: SessionCall, end: () => void): Promise<HttpResponse> {
    const { lastEventId } = received
    const refused = received.refusalFor(this.#events.scopesAfter(lastEventId))
    if (refused !== undefined) return refused
    const streamId = lastEventId === '' ? STANDALONE_STREAM : this.#events.streamOf(lastEventId)
    const group = [...this.#pending.values()].find((one) => one.group.streamId === streamId)?.group
    const previous = this.#reader
    const outlet = new EventOutlet({
      endsWhenFull: true,
      expiresAt: received.auth?.expiresAt,
      onEnd: () => {
        if (this.#reader?.outlet === outlet) this.#reader = undefined
        end()
      },
    })
    if (streamId === STANDALONE_STREAM) this.#reader = { received, outlet }
    this.#events.permits = (message) => mayBeRead(message, received)
    let response = await handle(transport, received)
    if (response.status === CONFLICT) {
      // A proxy can hold a stream open that the client has lost.
      if (streamId === STANDALONE_STREAM) previous?.outlet.end()
      else group?.outflow.end()
      response = await handle(transport, received)
    }
    const isOpen = isEventStream(response)
    if (isOpen && group !== undefined) group.outflow = outlet
    if (!isOpen && this.#reader?.outlet === outlet) this.#reader = previous
    return this.#relay(response, received, outlet)
  }

  /** Relays an event stream of the transport to the client. */
  #relay(
    response: Response,
    received: SessionCall,
    outlet: EventOutlet,
    onFirst?: (chunk: Uint8Array) => void,
  ): HttpResponse {
    if (!isEventStream(response)) return response
    const source = response.body as ReadableStream<Uint8Array>
    if (this.#hasEnded) {
      // The transport does not end a stream that it begins after it was closed.
      source.cancel().catch(() => undefined)
      return sessionNotFound()
    }
    const stream = outlet.relay(source, this.#adapter.clock, onFirst)
    // A web-standard host may neither read nor cancel the body.
    received.onDisconnect(() => outlet.end())
    return new Response(stream, response)
  }

  /** Learns the name that a stream has in the event store from its first chunk. */
  #learnStream(group: RequestGroup, chunk: Uint8Array): void {
    const [, eventId] =
      /^(?:event: message\n)?id: (\S+)\n/.exec(Buffer.from(chunk).toString('latin1', 0, 128)) ?? []
    if (eventId === undefined) return
    group.streamId = this.#events.streamOf(eventId)
    this.#events.restrict(eventId, group.received.scopes)
  }

  /** Receives a message of the client. @param deliver passes it on to the server */
  #receive(
    message: JSONRPCMessage,
    extra: MessageExtraInfo | undefined,
    deliver: (message: JSONRPCMessage, extra?: MessageExtraInfo) => void,
  ): void {
    const canceled = canceledBy(message)
    const id = canceled ?? requestIdOf(message)
    const pending = id === null ? undefined : this.#pending.get(id)
    if (canceled !== undefined && pending?.isDelivered === false) {
      pending.onDelivered = () => this.#receive(message, extra, deliver)
      return
    }
    deliver(message, extra)
    if (pending === undefined) return
    if (canceled === undefined) {
      pending.isDelivered = true
      pending.onDelivered?.()
      return
    }
    // The server does not respond to a canceled request. Without a response, its stream would stay open, and the SDK would never
    // forget the id.
    setImmediate(() => void this.#respondTo(pending, { jsonrpc: '2.0', id: canceled, error: CANCELED }))
  }

  /** Sends a message of the server. */
  async #send(message: JSONRPCMessage, options?: TransportSendOptions): Promise<void> {
    if (!('method' in message)) {
      const pending = this.#pending.get(message.id as RequestId)
      if (pending !== undefined) await this.#respondTo(pending, message)
      return
    }
    const related = options?.relatedRequestId
    if (related === undefined) {
      // Without an open stream, the message is kept. The token that asks for it is checked then.
      if (this.#reader === undefined || mayBeRead(message, this.#reader.received))
        await this.#sendNow(message)
      return
    }
    const pending = this.#pending.get(related)
    if (pending?.isDone === false) {
      this.#events.needScopes(message, pending.group.received.scopes)
      await this.#sendNow(message, { relatedRequestId: related })
    } else if ('id' in message) throw new Error('The request that this server request belongs to has ended')
  }

  async #respondTo(pending: PendingRequest, response: JSONRPCMessage): Promise<void> {
    if (pending.isDone) return
    pending.isDone = true
    const { group } = pending
    group.received.onResponse(response)
    this.#events.needScopes(response, group.received.scopes)
    // Sending fails only if the session has ended.
    await this.#sendNow(response).catch(() => undefined)
    this.#pending.settle(group)
  }

  #refusal(
    { isAnonymous }: SessionCall,
    messages: readonly unknown[],
    ids: readonly RequestId[],
  ): PlainResponse | undefined {
    if (ids.some((id) => this.#pending.has(id)))
      return jsonRpcError(400, -32_600, 'Invalid Request: a request with this id is still in flight')
    if (this.#pending.size + ids.length > MAX_PENDING)
      return retryLater(429, 'Too many requests of this session are in flight')
    const max = isAnonymous ? MAX_ANONYMOUS_INITIALIZE_BYTES : MAX_INITIALIZE_BYTES
    if (messages.some((message) => isInitializeRequest(message) && bytesOf(message) > max))
      return jsonRpcError(400, -32_602, `Invalid params: initialize must have at most ${max} bytes`)
    return undefined
  }
}

/** Passes a request on to the transport. */
async function handle(transport: Transport, { request, body, auth }: SessionCall): Promise<Response> {
  return await transport.handleRequest(request, {
    ...(body !== undefined && { parsedBody: body }),
    ...(auth !== undefined && { authInfo: auth }),
  })
}

/** Returns `true` if the token of the request that has opened a stream may read a message on it. */
function mayBeRead(message: JSONRPCMessage, reader: SessionCall): boolean {
  if (!('method' in message) || message.method !== 'notifications/resources/updated') return true
  const uri = message.params?.uri
  return typeof uri !== 'string' || reader.permitsResource(uri)
}

/** Returns the id of the request that a message cancels. */
function canceledBy(message: JSONRPCMessage): RequestId | undefined {
  if (!('method' in message) || message.method !== 'notifications/cancelled') return undefined
  return message.params?.requestId as RequestId | undefined
}

function bytesOf(message: unknown): number {
  return Buffer.byteLength(JSON.stringify(message))
}
