import type {
  JSONRPCMessage,
  JSONRPCRequest,
  RequestId,
  TransportSendOptions,
} from '@modelcontextprotocol/server'
import type { HttpResponse } from '../../../http/plain-response.ts'
import { EVENT_STREAM_HEADERS, isEventStream } from '../../wire/event-stream.ts'
import { EventOutlet } from '../streams/event-outlet.ts'
import { sendWithoutKeeping } from '../watch-messages.ts'
import type { FastResponse } from './fast-response.ts'
import type { PendingRequest, PendingRequests, RequestGroup } from './pending-requests.ts'
import type { ServerRequests } from './server-requests.ts'
import type { SessionCall } from './session-call.ts'
import type { SessionLink } from './session-link.ts'
import { RETRY_MS, type SessionTransport, type TransportSession } from './session-transport.ts'

/** The first revision whose clients accept events without data. Such an event begins a stream. */
const FIRST_WITH_EMPTY_EVENTS = '2025-11-25'

/** The messages that the servers of a session send to the client, and the streams that carry them. */
export class ServerMessages {
  readonly #session: TransportSession
  readonly #transport: SessionTransport
  readonly #pending: PendingRequests
  readonly #serverRequests: ServerRequests
  /** The streams that clients have resumed, by name. */
  readonly #resumed = new Map<string, EventOutlet>()

  constructor(
    session: TransportSession,
    transport: SessionTransport,
    pending: PendingRequests,
    serverRequests: ServerRequests,
  ) {
    this.#session = session
    this.#transport = transport
    this.#pending = pending
    this.#serverRequests = serverRequests
  }

  /** Resumes the stream of a POST after `Last-Event-ID`. Must be called for one request at a time. */
  async resume(received: SessionCall): Promise<HttpResponse> {
    const { events, clock } = this.#session
    const { lastEventId } = received
    const streamId = events.streamOf(lastEventId)
    const refused = received.refusalFor(events.scopesAfter(lastEventId))
    if (refused !== undefined) return refused
    // A proxy can hold a stream open that the client has lost.
    if (streamId !== undefined) {
      this.#resumed.get(streamId)?.end()
      for (const { group } of this.#pending.values()) if (group.streamId === streamId) group.outlet.end()
    }
    const response = await this.#transport.handle(received)
    if (!isEventStream(response)) return response
    const outlet = new EventOutlet({
      endsWhenFull: true,
      expiresAt: received.auth?.expiresAt,
      onEnd: () => {
        if (streamId !== undefined && this.#resumed.get(streamId) === outlet) this.#resumed.delete(streamId)
      },
    })
    if (streamId !== undefined) this.#resumed.set(streamId, outlet)
    return new Response(outlet.relay(response.body as ReadableStream<Uint8Array>, clock), response)
  }

  /** Passes a POST on to the transport, and relays its event stream. */
  async openFor(group: RequestGroup): Promise<Response> {
    const { received, outlet } = group
    const response = await this.#transport.handle(received)
    if (!isEventStream(response)) {
      this.#pending.free(group)
      return response
    }
    const body = response.body as ReadableStream<Uint8Array>
    const stream = outlet.relay(body, this.#session.clock, (chunk) => this.#learnStream(group, chunk))
    received.onStream(outlet)
    // A web-standard host may neither read nor cancel the body. The requests of a batch would wait forever.
    if (group.turns !== undefined) received.onDisconnect(() => outlet.end())
    return new Response(stream, response)
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

  /** Sends a message of a server. */
  async send(link: SessionLink, message: JSONRPCMessage, options?: TransportSendOptions): Promise<void> {
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
    if (!isForRequest) return this.#session.standalone.send(notification)
    if (pending === undefined || !isInProgress) return
    const { group } = pending
    await this.#outletOf(group).notify(notification, (one) => this.sendFor(pending, one, options))
  }

  async #sendResponse(
    link: SessionLink,
    message: Exclude<JSONRPCMessage, { method: string }>,
  ): Promise<void> {
    const pending = this.#pending.get(message.id as RequestId)
    if (pending === undefined || pending.link !== link || pending.isDone) return
    const { group, fast } = pending
    if (fast?.isFast === true) {
      group.received.onResponse(message)
      this.respondFast(pending, fast, message)
    } else {
      const settled = this.#outletOf(group).settle()
      if (settled !== undefined) await settled
      if (pending.isDone) return
      group.received.onResponse(message)
      if (group.turns?.hasWaiting === true)
        await sendWithoutKeeping(message, (one) => this.sendFor(pending, one))
      else await this.sendFor(pending, message)
    }
    this.#pending.finish(pending)
  }

  /** Responds to a call whose stream is not open. The client can ask for the events of the response again, as for a stream. */
  respondFast({ group }: PendingRequest, fast: FastResponse, message: JSONRPCMessage): void {
    const { received } = group
    const json = JSON.stringify(message)
    const ids = this.#session.events.storeResponse(message, json, received.scopes)
    const revision = received.header('mcp-protocol-version') ?? ''
    const beginning =
      revision < FIRST_WITH_EMPTY_EVENTS ? '' : `id: ${ids.beginning}\nretry: ${RETRY_MS}\ndata: \n\n`
    fast.respond({
      status: 200,
      headers: { ...EVENT_STREAM_HEADERS, 'mcp-session-id': this.#session.id },
      body: `${beginning}event: message\nid: ${ids.message}\ndata: ${json}\n\n`,
    })
  }

  /** Sends a message on the stream of a request, once the stream is open. */
  async sendFor(
    { group, fast }: PendingRequest,
    message: JSONRPCMessage,
    options?: TransportSendOptions,
  ): Promise<void> {
    this.#session.events.needScopes(message, group.received.scopes)
    if (fast !== undefined) await fast.open()
    await this.#transport.send(message, options)
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
      if (pending === undefined) this.#session.standalone.send(request)
      else await this.sendFor(pending, request, options)
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
