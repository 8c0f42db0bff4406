import {
  isInitializeRequest,
  type JSONRPCMessage,
  type JSONRPCNotification,
  type JSONRPCRequest,
  type MessageExtraInfo,
  type RequestId,
  type TransportSendOptions,
} from '@modelcontextprotocol/server'
import type { PlainResponse } from '../../../http/plain-response.ts'
import { EVENT_STREAM_HEADERS, isEventStream, withBodyEnd } from '../../wire/event-stream.ts'
import { CANCELED, jsonRpcError, retryLater } from '../../wire/json-rpc.ts'
import { EventOutlet } from '../streams/event-outlet.ts'
import type { StreamClock } from '../streams/stream-clock.ts'
import { sendWithoutKeeping } from '../watch-messages.ts'
import {
  type Cancellation,
  type PendingRequest,
  PendingRequests,
  type RequestGroup,
} from './pending-requests.ts'
import { QuickCall } from './quick-call.ts'
import { ServerRequests } from './server-requests.ts'
import type { SessionLink, SessionSide } from './session-link.ts'
import { sessionNotFound } from './session-not-found.ts'
import type { SessionRequest } from './session-request.ts'
import { SessionEnded, type SessionHost, SessionServers } from './session-servers.ts'
import { RETRY_MS, SessionTransport, STANDALONE_STREAM, type TransportSession } from './session-transport.ts'

/** The session of an `ActiveSession`. */
export interface WholeSession extends TransportSession {
  readonly clock: StreamClock
  idleSince: number
  /** Ends the session, and closes its `ActiveSession`. */
  end(): void
}

/** The maximum number of requests of one session in progress. Requests whose client has disconnected count. */
const MAX_PENDING = 1_024

/** The maximum size of an `initialize` request as JSON, in bytes. A session keeps it. */
const MAX_INITIALIZE_BYTES = 131_072

/** The same for a request without a token. Clients send less than 2,000 bytes. */
const MAX_ANONYMOUS_INITIALIZE_BYTES = 8_192

/** The first revision whose clients accept events without data. Such an event begins a stream. */
const FIRST_WITH_EMPTY_EVENTS = '2025-11-25'

const RESOURCE_UPDATED = 'notifications/resources/updated'

/** The scopes that stored messages need. */
const neededScopes = new WeakMap<JSONRPCMessage, readonly string[]>()

/** Returns the scopes that a token needs to receive a message again, if any. */
export function scopesNeededBy(message: JSONRPCMessage): readonly string[] | undefined {
  return neededScopes.get(message)
}

/**
 * The part of a session that exists only while the session is in use: a transport of the SDK, the servers behind it, and the
 * requests in progress.
 */
export class ActiveSession implements SessionSide {
  readonly #session: WholeSession
  readonly #servers: SessionServers
  readonly #pending: PendingRequests
  readonly #serverRequests: ServerRequests
  /** The link whose server responds to a request, by the request and by its token. */
  readonly #linkOf = new WeakMap<object, SessionLink>()
  readonly #transport: SessionTransport
  /** Settles when the last stream is open. Streams are opened one after the other, each with its own token. */
  #opening: Promise<unknown> = Promise.resolve()
  /** The request that opened the standalone stream, or is opening it. */
  #reader: Pick<SessionRequest, 'permitsResource'> | undefined
  /** The streams that clients have resumed, by name. */
  readonly #resumed = new Map<string, EventOutlet>()
  /** The HTTP requests in progress. Each function ends one. */
  readonly #uses = new Set<() => void>()
  /** The notifications that wait to be sent. */
  readonly #notifications = new Map<string, { method: string; params?: { uri: string } }>()
  #hasEnded = false

  constructor(session: WholeSession, host: SessionHost) {
    this.#session = session
    this.#servers = new SessionServers(this, host, session.client)
    this.#pending = new PendingRequests((link) => this.#servers.giveBack(link))
    this.#serverRequests = new ServerRequests(session.client)
    this.#transport = new SessionTransport(session, {
      onMessage: (message, extra) => this.#receive(message, extra),
      onError: (error) => this.#servers.current?.onerror?.(error),
      onClose: () => this.#end(),
      mayBeRead: (message) => this.#mayBeRead(message),
      challengeFor: (context) => {
        const link = (context.authInfo && this.#linkOf.get(context.authInfo)) ?? this.#servers.current
        return link?.resolveChallenge?.(context)
      },
    })
  }

  get id(): string {
    return this.#session.id
  }

  /** `true` if no HTTP request is in progress and no stream is open. */
  get isIdle(): boolean {
    return this.#uses.size === 0
  }

  /** `true` if nothing would be lost by closing. */
  get canRest(): boolean {
    return (
      this.isIdle &&
      this.#servers.canBeMadeAgain &&
      this.#pending.size === 0 &&
      this.#serverRequests.size === 0 &&
      this.#notifications.size === 0
    )
  }

  /** Serves an HTTP request. @param release is called when the request and its stream have ended */
  async serve(
    received: SessionRequest,
    release: () => void = () => undefined,
  ): Promise<Response | PlainResponse> {
    const endUse = this.#beginUse(received, release)
    let response: Response | PlainResponse
    try {
      if (received.method !== 'POST') response = await this.#bodiless(received)
      else if (received.quick === undefined) response = await this.#post(received)
      else response = await this.#postQuick(received, received.quick)
    } catch (error) {
      endUse()
      if (error instanceof SessionEnded) return sessionNotFound()
      throw error
    }
    if (response instanceof Response && isEventStream(response))
      return new Response(withBodyEnd(response.body as ReadableStream<Uint8Array>, endUse), response)
    endUse()
    return response
  }

  /** Sends a notification on the standalone stream. A notification that still waits is not sent twice. */
  notify(notification: { method: string; params?: { uri: string } }): void {
    const isSending = this.#notifications.size > 0
    this.#notifications.set(`${notification.method} ${notification.params?.uri ?? ''}`, notification)
    if (!isSending) void this.#sendNotifications()
  }

  async #sendNotifications(): Promise<void> {
    for (const [key, notification] of this.#notifications) {
      await Promise.resolve()
      // A change from now on is sent again.
      this.#notifications.delete(key)
      await this.#sendStandalone({ jsonrpc: '2.0', ...notification }).catch(() => undefined)
    }
  }

  /** Ends all streams, and closes the servers. The session itself may continue. */
  close(): void {
    if (this.#hasEnded) return
    this.#hasEnded = true
    for (const endUse of [...this.#uses]) endUse()
    this.#servers.end()
    for (const { quick } of this.#pending.all()) quick?.respond(sessionNotFound())
    this.#pending.clear()
    this.#serverRequests.clear()
    this.#transport.close()
  }

  #beginUse(received: SessionRequest, release: () => void): () => void {
    const endUse = (): void => {
      if (!this.#uses.delete(endUse)) return
      this.#session.idleSince = Date.now()
      release()
    }
    this.#uses.add(endUse)
    received.onDisconnect(endUse)
    return endUse
  }

  async #post(received: SessionRequest): Promise<Response | PlainResponse> {
    const { request, body, auth } = received
    const messages = messagesOf(body)
    const ids = requestIds(messages)
    const refused = this.#refusal(received, messages, ids)
    if (refused !== undefined) return refused
    const group = this.#pending.reserve(ids, received)
    let link: SessionLink | undefined
    try {
      link = messages.some(needsServer) ? await this.#servers.lease(received) : undefined
      if (link !== undefined) this.#linkOf.set(request, link)
      if (link !== undefined && auth !== undefined) this.#linkOf.set(auth, link)
      return await this.#stream(group)
    } catch (error) {
      this.#pending.free(group)
      throw error
    } finally {
      if (link !== undefined) this.#servers.giveBack(link)
    }
  }

  /** Passes a POST on to the transport, and relays its event stream. */
  async #stream(group: RequestGroup): Promise<Response> {
    const { received, outlet } = group
    const response = await this.#handle(received)
    if (!isEventStream(response)) {
      this.#pending.free(group)
      return response
    }
    const body = response.body as ReadableStream<Uint8Array>
    if (this.#hasEnded) {
      // The transport does not end a stream that it begins after it was closed.
      body.cancel().catch(() => undefined)
      throw new SessionEnded()
    }
    const stream = outlet.relay(body, this.#session.clock, (chunk) => this.#learnStream(group, chunk))
    received.onStream(outlet)
    // A web-standard host may neither read nor cancel the body. The requests of a batch would wait forever.
    if (group.turns !== undefined) received.onDisconnect(() => outlet.end())
    return new Response(stream, response)
  }

  /** Passes a request on to a server without the transport of the SDK. See `QuickCall`. */
  async #postQuick(received: SessionRequest, message: JSONRPCRequest): Promise<Response | PlainResponse> {
    const ids = [message.id]
    const refused = this.#refusal(received, [message], ids)
    if (refused !== undefined) return refused
    const group = this.#pending.reserve(ids, received)
    const pending = this.#pending.get(message.id) as PendingRequest
    try {
      const link = await this.#servers.lease(received)
      if (this.#hasEnded) throw new SessionEnded()
      const quick = new QuickCall(() => {
        received.onStream(group.outlet)
        return this.#stream(group)
      })
      pending.link = link
      pending.quick = quick
      const { handle, auth } = received
      link.onmessage?.(message, {
        request: handle,
        ...(auth !== undefined && { authInfo: auth }),
        closeSSEStream: () => quick.closeStream(),
      })
      if (pending.cancellation !== undefined) this.#cancel(pending, pending.cancellation)
      return await quick.response
    } catch (error) {
      pending.quick?.stop()
      this.#pending.free(group)
      throw error
    }
  }

  async #bodiless(received: SessionRequest): Promise<Response | PlainResponse> {
    const opened = this.#opening.then(() =>
      received.method === 'GET' ? this.#open(received) : this.#handle(received),
    )
    this.#opening = opened.catch(() => undefined)
    return await opened
  }

  /** Opens the standalone stream, or resumes a stream after `Last-Event-ID`. */
  async #open(received: SessionRequest): Promise<Response | PlainResponse> {
    const lastEventId = received.header('last-event-id') ?? ''
    const streamId = lastEventId === '' ? STANDALONE_STREAM : this.#session.events.streamOf(lastEventId)
    const refused =
      lastEventId === '' ? undefined : received.refusalFor(this.#session.events.scopesAfter(lastEventId))
    if (refused !== undefined) return refused
    const previous = this.#reader
    if (streamId === STANDALONE_STREAM) this.#reader = received
    const response = await this.#handle(received)
    if (!isEventStream(response)) {
      this.#reader = previous
      return response
    }
    const outlet = new EventOutlet({
      endsWhenFull: true,
      expiresAt: received.auth?.expiresAt,
      onEnd: () => {
        if (streamId === STANDALONE_STREAM && this.#reader === received) this.#reader = undefined
        if (streamId !== undefined && this.#resumed.get(streamId) === outlet) this.#resumed.delete(streamId)
      },
    })
    if (streamId !== undefined) this.#resumed.set(streamId, outlet)
    return new Response(
      outlet.relay(response.body as ReadableStream<Uint8Array>, this.#session.clock),
      response,
    )
  }

  /** Passes a request on to the transport. */
  async #handle(received: SessionRequest): Promise<Response> {
    if (this.#hasEnded) throw new SessionEnded()
    return await this.#transport.handle(received)
  }

  /** Ends the session, unless it only rests. */
  #end(): void {
    if (!this.#hasEnded) this.#session.end()
  }

  #refusal(
    { isAnonymous }: SessionRequest,
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

  /** Learns the name that a stream has in the event store from its first chunk. */
  #learnStream(group: RequestGroup, chunk: Uint8Array): void {
    const [, eventId] =
      /^(?:event: message\n)?id: (\S+)\n/.exec(Buffer.from(chunk).toString('latin1', 0, 128)) ?? []
    if (eventId === undefined) return
    group.streamId = this.#session.events.streamOf(eventId)
    const { scopes } = group.received
    if (scopes.length > 0) this.#session.events.restrict(eventId, scopes)
  }

  closedBy(link: SessionLink): void {
    this.#serverRequests.forgetAllOf(link)
    // An application that closes the server of a session ends the session.
    if (this.#servers.closed(link)) this.#end()
  }

  setSupportedProtocolVersions(versions: string[]): void {
    this.#transport.setSupportedProtocolVersions(versions)
  }

  /** Receives a message of the client. */
  #receive(message: JSONRPCMessage, extra: MessageExtraInfo | undefined): void {
    const link = (extra?.request && this.#linkOf.get(extra.request)) ?? this.#servers.current
    if (!('method' in message)) this.#serverRequests.respond(message, extra)
    else if ('id' in message) this.#receiveRequest(message, extra, link)
    else this.#receiveNotification(message, extra, link)
  }

  #receiveNotification(
    message: JSONRPCNotification,
    extra: MessageExtraInfo | undefined,
    link: SessionLink | undefined,
  ): void {
    switch (message.method) {
      case 'notifications/cancelled':
        this.#receiveCancellation(message, extra)
        break
      case 'notifications/progress':
        this.#serverRequests.reportProgress(message, extra)
        break
      default:
        if (message.method === 'notifications/initialized') this.#servers.initialized()
        link?.onmessage?.(message, extra)
    }
  }

  #receiveRequest(
    message: JSONRPCRequest,
    extra: MessageExtraInfo | undefined,
    link: SessionLink | undefined,
  ): void {
    const pending = this.#pending.get(message.id)
    if (pending === undefined || link === undefined) return
    if (pending.quick !== undefined) {
      // The server has received it already.
      pending.quick.begun(extra?.closeSSEStream)
      return
    }
    pending.link = link
    link.uses++
    const deliver = (): void => {
      if (this.#hasEnded) return
      this.#servers.received(message)
      link.onmessage?.(message, extra)
      if (pending.cancellation !== undefined) this.#cancel(pending, pending.cancellation)
    }
    const { turns } = pending.group
    if (turns === undefined) deliver()
    else turns.take(pending, deliver)
  }

  #receiveCancellation(message: JSONRPCNotification, extra: MessageExtraInfo | undefined): void {
    const pending = this.#pending.get(message.params?.requestId as RequestId)
    if (pending === undefined || pending.isDone) return
    // The request may wait for its server, or for its turn.
    pending.cancellation = { message, extra }
    if (pending.link !== undefined) this.#cancel(pending, pending.cancellation)
  }

  #cancel(pending: PendingRequest, { message, extra }: Cancellation): void {
    pending.link?.onmessage?.(message, extra)
    const id = message.params?.requestId as RequestId
    // The server does not respond to a canceled request. Without a response, the stream of the call would stay open, and
    // the SDK would never forget the id.
    setImmediate(() => {
      if (pending.isDone) return
      const response = { jsonrpc: '2.0', id, error: CANCELED } as const
      pending.group.received.onResponse(response)
      if (pending.quick?.isQuick === true) this.#respondQuickly(pending, pending.quick, response)
      else void this.#sendWhenOpen(pending, response).catch(() => undefined)
      this.#pending.finish(pending)
    })
  }

  /** Sends a message on the stream of a request, once the stream is open. */
  async #sendWhenOpen(
    { quick }: PendingRequest,
    message: JSONRPCMessage,
    options?: TransportSendOptions,
  ): Promise<void> {
    if (quick !== undefined) await quick.open()
    await this.#transport.send(message, options)
  }

  /** Responds to a call whose stream is not open. The client can ask for the events of the response again, as for a stream. */
  #respondQuickly({ group }: PendingRequest, quick: QuickCall, message: JSONRPCMessage): void {
    const { received } = group
    const json = JSON.stringify(message)
    const ids = this.#session.events.storeResponse(message, json, received.scopes)
    const revision = received.header('mcp-protocol-version') ?? ''
    const beginning =
      revision < FIRST_WITH_EMPTY_EVENTS ? '' : `id: ${ids.beginning}\nretry: ${RETRY_MS}\ndata: \n\n`
    quick.respond({
      status: 200,
      headers: { ...EVENT_STREAM_HEADERS, 'mcp-session-id': this.#session.id },
      body: `${beginning}event: message\nid: ${ids.message}\ndata: ${json}\n\n`,
    })
  }

  async sendFrom(link: SessionLink, message: JSONRPCMessage, options?: TransportSendOptions): Promise<void> {
    if (!('method' in message)) return await this.#sendResponse(link, message)
    const related = options?.relatedRequestId
    const pending = related === undefined ? undefined : this.#pending.get(related)
    const isForRequest = related !== undefined
    const isInProgress = pending?.link === link && !pending.isDone
    if ('id' in message) {
      if (isForRequest && !isInProgress)
        throw new Error('The request that this server request belongs to has ended')
      return await this.#sendServerRequest(link, pending, message, options)
    }
    const notification = this.#serverRequests.toClient(link, message)
    if (!isForRequest) return await this.#sendStandalone(notification)
    if (pending === undefined || !isInProgress) return
    const { group } = pending
    await this.#outletOf(group).notify(notification, (one) => this.#sendFor(pending, one, options))
  }

  async #sendResponse(
    link: SessionLink,
    message: Exclude<JSONRPCMessage, { method: string }>,
  ): Promise<void> {
    const pending = this.#pending.get(message.id as RequestId)
    if (pending === undefined || pending.link !== link || pending.isDone) return
    const { group, quick } = pending
    if (quick?.isQuick === true) {
      group.received.onResponse(message)
      this.#respondQuickly(pending, quick, message)
      this.#pending.finish(pending)
      return
    }
    const settled = this.#outletOf(group).settle()
    if (settled !== undefined) await settled
    if (pending.isDone) return
    group.received.onResponse(message)
    if (group.turns?.hasWaiting === true)
      await sendWithoutKeeping(message, (one) => this.#sendFor(pending, one))
    else await this.#sendFor(pending, message)
    this.#pending.finish(pending)
  }

  async #sendFor(
    pending: PendingRequest,
    message: JSONRPCMessage,
    options?: TransportSendOptions,
  ): Promise<void> {
    const { scopes } = pending.group.received
    if (scopes.length > 0) neededScopes.set(message, scopes)
    await this.#sendWhenOpen(pending, message, options)
  }

  /** Sends a notification on the standalone stream. */
  async #sendStandalone(message: JSONRPCNotification): Promise<void> {
    // If no stream is open, the message is stored. The token that asks for it later is checked then.
    if (this.#reader !== undefined && !this.#mayBeRead(message)) return
    await this.#transport.send(message)
  }

  /** Returns `true` if the token of the standalone stream may read the message. */
  #mayBeRead(message: JSONRPCMessage): boolean {
    if (!('method' in message) || message.method !== RESOURCE_UPDATED) return true
    const uri = message.params?.uri
    return typeof uri !== 'string' || this.#reader?.permitsResource(uri) !== false
  }

  /** @param pending the request that the server request belongs to, if any */
  async #sendServerRequest(
    link: SessionLink,
    pending: PendingRequest | undefined,
    message: JSONRPCRequest,
    options?: TransportSendOptions,
  ): Promise<void> {
    const request = this.#serverRequests.register(link, message)
    try {
      if (pending === undefined) await this.#transport.send(request)
      else await this.#sendFor(pending, request, options)
    } catch (error) {
      this.#serverRequests.forget(request.id)
      throw error
    }
  }

  #outletOf(group: RequestGroup): EventOutlet {
    const { streamId } = group
    return (streamId === undefined ? undefined : this.#resumed.get(streamId)) ?? group.outlet
  }
}

type PostedMessage = Partial<Record<'id' | 'method', unknown>> | null

function messagesOf(body: unknown): readonly PostedMessage[] {
  return (body === undefined ? [] : [body].flat()) as PostedMessage[]
}

function requestIds(messages: readonly PostedMessage[]): RequestId[] {
  return messages.flatMap((message) => {
    const id = message?.method === undefined ? undefined : message.id
    return typeof id === 'string' || typeof id === 'number' ? [id] : []
  })
}

/** Returns `false` for responses and for messages about one call, which go to the server that they are about. */
function needsServer(message: PostedMessage): boolean {
  return (
    message?.method !== undefined &&
    message.method !== 'notifications/cancelled' &&
    message.method !== 'notifications/progress'
  )
}

function bytesOf(message: unknown): number {
  return Buffer.byteLength(JSON.stringify(message))
}
