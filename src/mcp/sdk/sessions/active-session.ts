import {
  isInitializeRequest,
  type JSONRPCMessage,
  type JSONRPCNotification,
  type JSONRPCRequest,
  type MessageExtraInfo,
  type RequestId,
  type TransportSendOptions,
} from '@modelcontextprotocol/server'
import type { HttpResponse, PlainResponse } from '../../../http/plain-response.ts'
import type { Subscriptions } from '../../operations/subscriptions.ts'
import { isEventStream, withBodyEnd } from '../../wire/event-stream.ts'
import { CANCELED, jsonRpcError, retryLater, sessionNotFound } from '../../wire/json-rpc.ts'
import { FastResponse } from './fast-response.ts'
import {
  type Cancellation,
  type PendingRequest,
  PendingRequests,
  type RequestGroup,
} from './pending-requests.ts'
import { ServerMessages } from './server-messages.ts'
import { ServerRequests } from './server-requests.ts'
import type { SessionCall } from './session-call.ts'
import type { SessionLink, SessionSide } from './session-link.ts'
import { type SessionHost, SessionServers } from './session-servers.ts'
import { SessionEnded, SessionTransport, type TransportSession } from './session-transport.ts'

/** The session of an `ActiveSession`. */
export interface WholeSession extends TransportSession, Subscriptions {
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

/**
 * The part of a session that exists only while the session is in use: a transport of the SDK, the servers behind it, and the
 * requests in progress. It passes the messages of the client on to the servers; `ServerMessages` carries theirs to the client.
 */
export class ActiveSession implements SessionSide {
  readonly #session: WholeSession
  readonly #servers: SessionServers
  readonly #pending: PendingRequests
  readonly #serverRequests: ServerRequests
  readonly #transport: SessionTransport
  readonly #sent: ServerMessages
  /** Settles when the last stream is open. Streams are opened one after the other, each with its own token. */
  #opening: Promise<unknown> = Promise.resolve()
  /** The HTTP requests in progress. Each function ends one. */
  readonly #uses = new Set<() => void>()
  #hasEnded = false

  constructor(session: WholeSession, host: SessionHost) {
    this.#session = session
    this.#servers = new SessionServers(this, host, session.client)
    this.#pending = new PendingRequests((link) => this.#servers.giveBack(link))
    this.#serverRequests = new ServerRequests(session.client)
    this.#transport = new SessionTransport(session, {
      onMessage: (message, extra) => this.#receive(message, extra),
      onError: (error) => this.onError(error),
      onClose: () => this.#end(),
      challengeFor: (context) => this.#servers.of(context.authInfo)?.resolveChallenge?.(context),
    })
    this.#sent = new ServerMessages(session, this.#transport, this.#pending, this.#serverRequests)
  }

  get id(): string {
    return this.#session.id
  }

  get subscriptions(): Subscriptions {
    return this.#session
  }

  /** The revisions that the client may name in a request. */
  get protocolVersions(): readonly string[] {
    return this.#transport.protocolVersions
  }

  /** `true` if no HTTP request is in progress and no stream is open, other than the standalone stream. */
  get isIdle(): boolean {
    return this.#uses.size === 0
  }

  /** `true` if nothing would be lost by closing. */
  get canRest(): boolean {
    return (
      this.isIdle &&
      this.#servers.canBeMadeAgain &&
      this.#pending.size === 0 &&
      this.#serverRequests.size === 0
    )
  }

  /** Serves an HTTP request. @param release is called when the request and its stream have ended */
  async serve(received: SessionCall, release: () => void = () => undefined): Promise<HttpResponse> {
    const endUse = this.#beginUse(received, release)
    let response: HttpResponse
    try {
      response = await (received.method === 'POST' ? this.#post(received) : this.#bodiless(received))
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

  /** Passes an error of the transport on to the server. */
  onError(error: Error): void {
    this.#servers.current?.onerror?.(error)
  }

  /** Ends all streams, and closes the servers. The session itself may continue. */
  close(): void {
    if (this.#hasEnded) return
    this.#hasEnded = true
    for (const endUse of [...this.#uses]) endUse()
    this.#servers.end()
    for (const { fast } of this.#pending.values()) fast?.respond(sessionNotFound())
    this.#pending.clear()
    this.#serverRequests.clear()
    this.#transport.close()
  }

  #beginUse(received: SessionCall, release: () => void): () => void {
    const endUse = (): void => {
      if (!this.#uses.delete(endUse)) return
      this.#session.idleSince = Date.now()
      release()
    }
    this.#uses.add(endUse)
    received.onDisconnect(endUse)
    return endUse
  }

  async #post(received: SessionCall): Promise<HttpResponse> {
    const { fast } = received
    const messages = messagesOf(received.body)
    const ids = requestIds(messages)
    const refused = this.#refusal(received, messages, ids)
    if (refused !== undefined) return refused
    const group = this.#pending.reserve(ids, received)
    let link: SessionLink | undefined
    try {
      link = messages.some(needsServer) ? await this.#servers.lease(received) : undefined
      return await (fast === undefined || link === undefined
        ? this.#sent.openFor(group)
        : this.#postFast(group, link, fast))
    } catch (error) {
      this.#pending.free(group)
      throw error
    } finally {
      if (link !== undefined) this.#servers.giveBack(link)
    }
  }

  /** Passes a request on to a server without the transport of the SDK. See `FastResponse`. */
  async #postFast(group: RequestGroup, link: SessionLink, message: JSONRPCRequest): Promise<HttpResponse> {
    if (this.#hasEnded) throw new SessionEnded()
    const { received } = group
    const pending = this.#pending.get(message.id) as PendingRequest
    const fast = new FastResponse(() => {
      received.onStream(group.outlet)
      return this.#sent.openFor(group)
    })
    pending.fast = fast
    pending.link = link
    link.uses++
    try {
      const { handle, auth } = received
      link.onmessage?.(message, {
        request: handle,
        ...(auth !== undefined && { authInfo: auth }),
        closeSSEStream: () => fast.closeStream(),
      })
      if (pending.cancellation !== undefined) this.#cancel(pending, pending.cancellation)
      return await fast.response
    } finally {
      fast.stop()
    }
  }

  async #bodiless(received: SessionCall): Promise<HttpResponse> {
    const opened = this.#opening.then(() =>
      received.method === 'GET' ? this.#sent.resume(received) : this.#transport.handle(received),
    )
    // The caller gets the error from `opened`; the next request only waits for it.
    this.#opening = opened.catch(() => undefined)
    return await opened
  }

  /** Ends the session, unless it only rests. */
  #end(): void {
    if (!this.#hasEnded) this.#session.end()
  }

  #refusal(
    { isAnonymous }: SessionCall,
    messages: readonly PostedMessage[],
    ids: readonly RequestId[],
  ): PlainResponse | undefined {
    if (ids.some((id) => this.#pending.has(id)))
      return jsonRpcError(400, -32_600, 'Invalid Request: a request with this id is still in flight')
    if (this.#pending.size + ids.length > MAX_PENDING)
      return retryLater(429, 'Too many requests of this session are in flight')
    const max = isAnonymous ? MAX_ANONYMOUS_INITIALIZE_BYTES : MAX_INITIALIZE_BYTES
    if (messages.some((message) => isInitialize(message) && bytesOf(message) > max))
      return jsonRpcError(400, -32_602, `Invalid params: initialize must have at most ${max} bytes`)
    return undefined
  }

  sendFrom(link: SessionLink, message: JSONRPCMessage, options?: TransportSendOptions): Promise<void> {
    return this.#sent.send(link, message, options)
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
    if (!('method' in message)) this.#serverRequests.respond(message, extra)
    else if ('id' in message) this.#receiveRequest(message, extra)
    else this.#receiveNotification(message, extra)
  }

  #receiveNotification(message: JSONRPCNotification, extra: MessageExtraInfo | undefined): void {
    switch (message.method) {
      case 'notifications/cancelled':
        this.#receiveCancellation(message, extra)
        break
      case 'notifications/progress':
        this.#serverRequests.reportProgress(message, extra)
        break
      default:
        if (message.method === 'notifications/initialized') this.#servers.initialized()
        this.#servers.of(extra?.authInfo)?.onmessage?.(message, extra)
    }
  }

  #receiveRequest(message: JSONRPCRequest, extra: MessageExtraInfo | undefined): void {
    const pending = this.#pending.get(message.id)
    if (pending?.fast !== undefined) {
      // The server has received it already.
      pending.fast.begun(extra?.closeSSEStream)
      return
    }
    const link = this.#servers.of(extra?.authInfo)
    if (pending === undefined || link === undefined) return
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
      if (pending.fast?.isFast === true) this.#sent.respondFast(pending, pending.fast, response)
      // Sending fails only if the client has left.
      else void this.#sent.sendFor(pending, response).catch(() => undefined)
      this.#pending.finish(pending)
    })
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

function isInitialize(message: PostedMessage): boolean {
  return message?.method === 'initialize' && isInitializeRequest(message)
}

function bytesOf(message: unknown): number {
  return Buffer.byteLength(JSON.stringify(message))
}
