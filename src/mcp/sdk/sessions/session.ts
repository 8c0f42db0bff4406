import {
  isInitializeRequest,
  type JSONRPCMessage,
  type JSONRPCNotification,
  type JSONRPCRequest,
  type McpServer,
  type MessageExtraInfo,
  type RequestId,
  type Server,
  type TransportSendOptions,
  WebStandardStreamableHTTPServerTransport,
} from '@modelcontextprotocol/server'
import type { PlainResponse } from '../../../http/plain-response.ts'
import type { AuthInfo } from '../../../oauth/auth-info.ts'
import { jsonRpcError } from '../../wire/json-rpc.ts'
import { endingAt, withBodyEnd } from '../../wire/stream-end.ts'
import { EventOutlet } from '../streams/event-outlet.ts'
import { SessionEvents } from './session-events.ts'
import { SessionLink, type SessionSide } from './session-link.ts'

/** One request to a session. */
export interface SessionRequest {
  readonly request: Request
  /** The parsed body of a POST. */
  readonly body: unknown
  readonly auth: AuthInfo | undefined
  /** The scopes that the operations of `body` need. */
  readonly scopes: readonly string[]
  /** The answer to a token that lacks scopes; undefined if it has them. */
  judge(scopes: readonly string[]): PlainResponse | undefined
  /** Whether the token may read a resource. */
  permitsResource(uri: string): boolean
  /** Calls `listener` when the client hangs up: a host that has lost it may do nothing with a stream. */
  onDisconnect(listener: () => void): void
  /** Receives the answers to the requests in `body`. */
  readonly onAnswer?: ((answer: JSONRPCMessage) => void) | undefined
  /** Takes the stream of the answer, so that handlers know how far its client is. */
  onStream?(outlet: EventOutlet): void
}

/** Makes the servers of a session. */
export interface SessionHost {
  makeServer(request: Request): Server | McpServer | Promise<Server | McpServer>
  /** Two tokens with the same authority may share a server. */
  authorityOf(auth: AuthInfo | undefined): string
}

export interface SessionProps {
  readonly id: string
  readonly owner: string
  readonly maxBufferedBytes: number
  readonly host: SessionHost
  /** Called for every request. */
  readonly onUse: () => void
  /** Called once, when the session has ended. */
  readonly onEnd: () => void
}

/** The requests of one POST. They share its event stream, and so their ids are in use until all have ended. */
interface Posted {
  readonly flights: Map<RequestId, Flight>
  /** Those that are neither answered nor cancelled. */
  pending: number
  readonly scopes: readonly string[]
  readonly onAnswer: SessionRequest['onAnswer']
  readonly outlet: EventOutlet
  /** The stream's name in the event store, once it is known. */
  streamId?: string | undefined
}

/** A request that has no answer yet. */
interface Flight {
  readonly posted: Posted
  link?: SessionLink
  isDone: boolean
  /** The cancellation, if it came before the request was delivered. */
  cancellation?: { readonly message: JSONRPCNotification; readonly extra: MessageExtraInfo | undefined }
}

/** A request of a server to the client that has no answer yet. */
interface Asked {
  readonly link: SessionLink
  /** The id that the server gave it. Several servers of a session use the same ones. */
  readonly id: RequestId
}

/** After how long a client whose stream has ended comes back. */
const RETRY_MS = 1_000

/** The number of requests of one session that may be in flight; those whose client has hung up go on. */
const MAX_IN_FLIGHT = 1_024

/** Nothing of a session keeps more than so many characters of its `initialize`. */
const MAX_INITIALIZE_LENGTH = 131_072

/** What ends the event stream of a call that its client has cancelled. */
const CANCELLED = { code: -32_800, message: 'The request was cancelled' }

const STANDALONE_STREAM = '_GET_stream'
const RESOURCE_UPDATED = 'notifications/resources/updated'

/** A session that ended while a request was on its way to it. */
class SessionEnded extends Error {}

/**
 * One session of a client of a 2025 revision: a transport of the SDK, and the server behind it. When a token brings
 * other authority than the server was made for, another server takes its place, and continues where the first was:
 * it is given the client's `initialize` and log level. Calls that are under way end at the server where they began.
 */
export class Session implements SessionSide {
  readonly id: string
  readonly owner: string
  idleSince = 0
  readonly #props: SessionProps
  readonly #transport: WebStandardStreamableHTTPServerTransport
  readonly #events: SessionEvents
  readonly #inFlight = new Map<RequestId, Flight>()
  readonly #asked = new Map<number, Asked>()
  #nextAsked = 0
  /** The scopes that stored messages need. */
  readonly #scopes = new WeakMap<JSONRPCMessage, readonly string[]>()
  /** The link whose server answers a request, by the request and by its token. */
  readonly #linkOf = new WeakMap<object, SessionLink>()
  readonly #links = new Set<SessionLink>()
  #current: SessionLink | undefined
  /** Servers are made one after the other. */
  #making: Promise<unknown> | undefined
  /** Streams are opened one after the other, so that each is judged by its own token. */
  #opening: Promise<unknown> = Promise.resolve()
  /** The reader of the stream that belongs to no request, and of the one that is being opened. */
  #reader: Pick<SessionRequest, 'permitsResource'> | undefined
  /** Streams that their client has come back for, by name. */
  readonly #resumed = new Map<string, EventOutlet>()
  /** What is under way: each gives itself back. */
  readonly #uses = new Set<() => void>()
  /** Notifications that wait to be sent. */
  readonly #untold = new Map<string, { method: string; params?: { uri: string } }>()
  #initialize: string | undefined
  #isInitialized = false
  #logLevel: string | undefined
  #hasEnded = false

  constructor(props: SessionProps) {
    this.id = props.id
    this.owner = props.owner
    this.#props = props
    this.#events = new SessionEvents(props.maxBufferedBytes, (message) => this.#scopes.get(message))
    const events = this.#events
    this.#transport = new WebStandardStreamableHTTPServerTransport({
      sessionIdGenerator: () => props.id,
      eventStore: {
        storeEvent: (streamId, message) => events.storeEvent(streamId, message),
        getStreamIdForEventId: (eventId) => events.getStreamIdForEventId(eventId),
        replayEventsAfter: (eventId, to) =>
          events.replayEventsAfter(eventId, to, (message) => this.#mayBeRead(message)),
      },
      retryInterval: RETRY_MS,
    })
    this.#transport.onmessage = (message, extra) => this.#receive(message, extra)
    this.#transport.onerror = (error) => this.#current?.onerror?.(error)
    this.#transport.onclose = () => this.end()
    this.#transport.setScopeChallengeResolver((context) => {
      const link = (context.authInfo && this.#linkOf.get(context.authInfo)) ?? this.#current
      return link?.resolveChallenge?.(context) as never
    })
  }

  /** Whether nothing is under way. */
  get isIdle(): boolean {
    return this.#uses.size === 0
  }

  get hasEnded(): boolean {
    return this.#hasEnded
  }

  /** Answers a request. @param release is called when its stream has ended, if it is one. */
  async serve(
    asked: SessionRequest,
    release: () => void = () => undefined,
  ): Promise<Response | PlainResponse> {
    this.#props.onUse()
    const use = this.#use(asked, release)
    let response: Response | PlainResponse
    try {
      response = asked.request.method === 'POST' ? await this.#post(asked) : await this.#bodiless(asked)
    } catch (error) {
      use()
      if (error instanceof SessionEnded) return sessionNotFound()
      throw error
    }
    if (!(response instanceof Response) || response.body === null || !isEventStream(response)) {
      use()
      return response
    }
    const ended = withBodyEnd(response.body, use)
    const { auth, request } = asked
    const listens = request.method === 'GET' && auth?.expiresAt !== undefined
    return new Response(listens ? endingAt(ended, auth.expiresAt as number) : ended, response)
  }

  /** Sends a notification on the stream that belongs to no request. One that is still waiting is not sent twice. */
  tell(notification: { method: string; params?: { uri: string } }): void {
    const isTelling = this.#untold.size > 0
    this.#untold.set(`${notification.method} ${notification.params?.uri ?? ''}`, notification)
    if (!isTelling) void this.#tellAll()
  }

  async #tellAll(): Promise<void> {
    for (const [key, notification] of this.#untold) {
      // What is said from now on is said again.
      await Promise.resolve()
      this.#untold.delete(key)
      await this.#sendAlone({ jsonrpc: '2.0', ...notification }).catch(() => undefined)
    }
  }

  end(): void {
    if (this.#hasEnded) return
    this.#hasEnded = true
    this.#props.onEnd()
    for (const use of [...this.#uses]) use()
    for (const link of [...this.#links]) void link.close()
    this.#inFlight.clear()
    this.#asked.clear()
    this.#transport.close().catch(() => undefined)
  }

  #use({ onDisconnect }: SessionRequest, release: () => void): () => void {
    const use = (): void => {
      if (!this.#uses.delete(use)) return
      this.idleSince = Date.now()
      release()
    }
    this.#uses.add(use)
    onDisconnect(use)
    return use
  }

  async #post(asked: SessionRequest): Promise<Response | PlainResponse> {
    const { request, body, auth } = asked
    const messages = messagesOf(body)
    const ids = requestIds(messages)
    const refused = this.#refusal(messages, ids)
    if (refused !== undefined) return refused
    const posted = this.#reserve(ids, asked)
    let link: SessionLink | undefined
    try {
      link = messages.some(needsServer) ? await this.#lease(asked) : undefined
      if (link !== undefined) this.#linkOf.set(request, link)
      if (link !== undefined && auth !== undefined) this.#linkOf.set(auth, link)
      const response = await this.#handle(asked)
      if (response.body === null || !isEventStream(response)) {
        this.#forget(posted)
        return response
      }
      const stream = posted.outlet.relay(response.body, (chunk) => this.#learnStream(posted, chunk))
      asked.onStream?.(posted.outlet)
      return new Response(stream, response)
    } catch (error) {
      this.#forget(posted)
      throw error
    } finally {
      if (link !== undefined) this.#giveBack(link)
    }
  }

  async #bodiless(asked: SessionRequest): Promise<Response | PlainResponse> {
    const opened = this.#opening.then(() =>
      asked.request.method === 'GET' ? this.#open(asked) : this.#handle(asked),
    )
    this.#opening = opened.catch(() => undefined)
    return await opened
  }

  async #open(asked: SessionRequest): Promise<Response | PlainResponse> {
    const lastEventId = asked.request.headers.get('last-event-id') ?? ''
    const streamId = lastEventId === '' ? STANDALONE_STREAM : this.#events.streamOf(lastEventId)
    const refused = lastEventId === '' ? undefined : asked.judge(this.#events.scopesAfter(lastEventId))
    if (refused !== undefined) return refused
    const previous = this.#reader
    if (streamId === STANDALONE_STREAM) this.#reader = asked
    const response = await this.#handle(asked)
    if (response.body === null || !isEventStream(response)) {
      this.#reader = previous
      return response
    }
    const outlet = new EventOutlet({
      endsWhenFull: true,
      onEnd: () => {
        if (streamId === STANDALONE_STREAM && this.#reader === asked) this.#reader = undefined
        if (streamId !== undefined && this.#resumed.get(streamId) === outlet) this.#resumed.delete(streamId)
      },
    })
    if (streamId !== undefined) this.#resumed.set(streamId, outlet)
    return new Response(outlet.relay(response.body), response)
  }

  #handle({ request, body, auth }: SessionRequest): Promise<Response> {
    return this.#transport.handleRequest(request, {
      ...(body !== undefined && { parsedBody: body }),
      ...(auth !== undefined && { authInfo: auth }),
    })
  }

  #refusal(messages: readonly unknown[], ids: readonly RequestId[]): PlainResponse | undefined {
    if (ids.some((id) => this.#inFlight.has(id)))
      return jsonRpcError(400, -32_600, 'Invalid Request: a request with this id is still in flight')
    if (this.#inFlight.size + ids.length > MAX_IN_FLIGHT)
      return retryLater(429, 'Too many requests of this session are in flight')
    if (messages.some((message) => isInitializeRequest(message) && isTooLong(message)))
      return jsonRpcError(
        400,
        -32_602,
        `Invalid params: initialize must have at most ${MAX_INITIALIZE_LENGTH} characters`,
      )
    return undefined
  }

  /** From now on the ids are in use. */
  #reserve(ids: readonly RequestId[], { scopes, onAnswer }: SessionRequest): Posted {
    const posted: Posted = {
      flights: new Map(),
      pending: ids.length,
      scopes,
      onAnswer,
      outlet: new EventOutlet(),
    }
    for (const id of ids) {
      const flight: Flight = { posted, isDone: false }
      posted.flights.set(id, flight)
      this.#inFlight.set(id, flight)
    }
    return posted
  }

  /** What was reserved is not under way, or no longer. */
  #forget(posted: Posted): void {
    for (const [id, flight] of posted.flights) {
      if (this.#inFlight.get(id) === flight) this.#inFlight.delete(id)
      if (!flight.isDone && flight.link !== undefined) this.#giveBack(flight.link)
      flight.isDone = true
    }
  }

  /** The first chunk of a stream says which one it is in the event store. */
  #learnStream(posted: Posted, chunk: Uint8Array): void {
    const [, eventId] =
      /^(?:event: message\n)?id: (\S+)\n/.exec(Buffer.from(chunk).toString('latin1', 0, 128)) ?? []
    if (eventId === undefined) return
    posted.streamId = this.#events.streamOf(eventId)
    if (posted.scopes.length > 0) this.#events.restrict(eventId, posted.scopes)
  }

  /** The link to a server that was made for this token's authority; in use until it is given back. */
  async #lease(asked: SessionRequest): Promise<SessionLink> {
    const authority = this.#props.host.authorityOf(asked.auth)
    if (this.#making === undefined && this.#current?.authority === authority) {
      this.#current.uses++
      return this.#current
    }
    const turn = (this.#making ?? Promise.resolve()).then(async () => {
      const current = this.#current
      const link = current?.authority === authority ? current : await this.#replace(authority, asked)
      link.uses++
      return link
    })
    const settled = turn.then(
      () => undefined,
      () => undefined,
    )
    this.#making = settled
    try {
      return await turn
    } finally {
      if (this.#making === settled) this.#making = undefined
    }
  }

  async #replace(authority: string, { request, auth }: SessionRequest): Promise<SessionLink> {
    const server = await this.#props.host.makeServer(request)
    this.#mustGoOn()
    const previous = this.#current
    this.#current = undefined
    // An application may return the same server again: it takes one connection at a time.
    if (previous !== undefined) this.#closeUnused(previous)
    const link = new SessionLink(this, server, authority)
    this.#links.add(link)
    try {
      await server.connect(link)
      await this.#continueAt(link, { request, ...(auth !== undefined && { authInfo: auth }) })
      this.#mustGoOn()
    } catch (error) {
      void link.close()
      throw error
    }
    this.#current = link
    return link
  }

  /** Brings a server to where the one before was. */
  async #continueAt(link: SessionLink, extra: MessageExtraInfo): Promise<void> {
    if (this.#initialize === undefined) return
    await link.ask('initialize', JSON.parse(this.#initialize), extra)
    if (this.#isInitialized) link.onmessage?.({ jsonrpc: '2.0', method: 'notifications/initialized' }, extra)
    // A server without logging refuses; it did so before.
    if (this.#logLevel !== undefined)
      await link.ask('logging/setLevel', { level: this.#logLevel }, extra).catch(() => undefined)
  }

  #mustGoOn(): void {
    if (this.#hasEnded) throw new SessionEnded()
  }

  #giveBack(link: SessionLink): void {
    link.uses--
    if (link !== this.#current) this.#closeUnused(link)
  }

  #closeUnused(link: SessionLink): void {
    if (link.uses === 0) void link.close()
  }

  closedBy(link: SessionLink): void {
    this.#links.delete(link)
    for (const [id, asked] of this.#asked) if (asked.link === link) this.#asked.delete(id)
    // An application that closes the server of a session ends the session.
    if (link === this.#current) this.end()
  }

  setSupportedProtocolVersions(versions: string[]): void {
    this.#transport.setSupportedProtocolVersions(versions)
  }

  /** A message of the client. */
  #receive(message: JSONRPCMessage, extra: MessageExtraInfo | undefined): void {
    const link = (extra?.request && this.#linkOf.get(extra.request)) ?? this.#current
    if (!('method' in message)) this.#receiveAnswer(message, extra)
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
        this.#receiveProgress(message, extra)
        break
      default:
        if (message.method === 'notifications/initialized') this.#isInitialized = true
        link?.onmessage?.(message, extra)
    }
  }

  #receiveRequest(
    message: JSONRPCRequest,
    extra: MessageExtraInfo | undefined,
    link: SessionLink | undefined,
  ): void {
    const flight = this.#inFlight.get(message.id)
    if (flight === undefined || link === undefined) return
    flight.link = link
    link.uses++
    if (isInitializeRequest(message)) this.#initialize = JSON.stringify(message.params)
    const level = message.method === 'logging/setLevel' ? message.params?.level : undefined
    if (typeof level === 'string' && level.length <= 16) this.#logLevel = level
    link.onmessage?.(message, extra)
    const { cancellation } = flight
    if (cancellation !== undefined) this.#receiveCancellation(cancellation.message, cancellation.extra)
  }

  #receiveAnswer(message: JSONRPCMessage & { id?: unknown }, extra: MessageExtraInfo | undefined): void {
    // The SDK, too, takes the id as a number.
    const id = Number(message.id)
    const asked = this.#asked.get(id)
    if (asked === undefined) return
    this.#asked.delete(id)
    asked.link.onmessage?.({ ...message, id: asked.id } as JSONRPCMessage, extra)
  }

  #receiveCancellation(message: JSONRPCNotification, extra: MessageExtraInfo | undefined): void {
    const id = message.params?.requestId as RequestId
    const flight = this.#inFlight.get(id)
    if (flight === undefined || flight.isDone) return
    if (flight.link === undefined) {
      flight.cancellation = { message, extra }
      return
    }
    const { link } = flight
    link.onmessage?.(message, extra)
    // The server answers no more. The stream of the call would stay open, and the SDK would never forget the id.
    setImmediate(() => {
      if (flight.isDone) return
      this.#transport.send({ jsonrpc: '2.0', id, error: CANCELLED }).catch(() => undefined)
      this.#done(flight)
    })
  }

  #receiveProgress(message: JSONRPCNotification, extra: MessageExtraInfo | undefined): void {
    const asked = this.#asked.get(Number(message.params?.progressToken))
    if (asked === undefined) return
    const params = { ...message.params, progressToken: asked.id }
    asked.link.onmessage?.({ ...message, params } as JSONRPCNotification, extra)
  }

  async sendFrom(link: SessionLink, message: JSONRPCMessage, options?: TransportSendOptions): Promise<void> {
    if (!('method' in message)) return await this.#sendAnswer(link, message)
    const related = options?.relatedRequestId
    const flight = related === undefined ? undefined : this.#inFlight.get(related)
    const isForRequest = related !== undefined
    const isUnderWay = flight?.link === link && !flight.isDone
    if ('id' in message) {
      if (isForRequest && !isUnderWay) throw new Error('the request that this one is for has ended')
      return await this.#ask(link, message, options)
    }
    const translated = this.#translated(link, message)
    if (!isForRequest) return await this.#sendAlone(translated)
    if (!isUnderWay) return
    const { posted } = flight as Flight
    await this.#outletOf(posted).notify(translated, (one) => this.#sendFor(posted, one, options))
  }

  async #sendAnswer(link: SessionLink, message: Exclude<JSONRPCMessage, { method: string }>): Promise<void> {
    const flight = this.#inFlight.get(message.id as RequestId)
    if (flight === undefined || flight.link !== link || flight.isDone) return
    const { posted } = flight
    const settled = this.#outletOf(posted).settle()
    if (settled !== undefined) await settled
    if (flight.isDone) return
    posted.onAnswer?.(message)
    await this.#sendFor(posted, message)
    this.#done(flight)
  }

  async #sendFor(posted: Posted, message: JSONRPCMessage, options?: TransportSendOptions): Promise<void> {
    if (posted.scopes.length > 0) this.#scopes.set(message, posted.scopes)
    await this.#transport.send(message, relatedTo(options))
  }

  async #sendAlone(message: JSONRPCNotification): Promise<void> {
    // What nobody reads is stored, and judged by the token that asks for it.
    if (this.#reader !== undefined && !this.#mayBeRead(message)) return
    await this.#transport.send(message)
  }

  /** Whether the token of the stream that belongs to no request may be given this. */
  #mayBeRead(message: JSONRPCMessage): boolean {
    if (!('method' in message) || message.method !== RESOURCE_UPDATED) return true
    const uri = message.params?.uri
    return typeof uri !== 'string' || this.#reader?.permitsResource(uri) !== false
  }

  /** A request of the server to the client, under an id that no other server of this session uses. */
  async #ask(link: SessionLink, message: JSONRPCRequest, options?: TransportSendOptions): Promise<void> {
    const id = this.#nextAsked++
    this.#asked.set(id, { link, id: message.id })
    const meta = message.params?._meta
    const tracked = meta?.progressToken === message.id && meta !== undefined
    const params = tracked ? { ...message.params, _meta: { ...meta, progressToken: id } } : message.params
    try {
      await this.#transport.send(
        { ...message, id, ...(params !== undefined && { params }) } as JSONRPCRequest,
        relatedTo(options),
      )
    } catch (error) {
      this.#asked.delete(id)
      throw error
    }
  }

  /** The server cancels a request of its own by the id that it gave it. */
  #translated(link: SessionLink, message: JSONRPCNotification): JSONRPCNotification {
    if (message.method !== 'notifications/cancelled') return message
    for (const [id, asked] of this.#asked) {
      if (asked.link !== link || asked.id !== message.params?.requestId) continue
      this.#asked.delete(id)
      return { ...message, params: { ...message.params, requestId: id } }
    }
    return message
  }

  #outletOf(posted: Posted): EventOutlet {
    const { streamId } = posted
    return (streamId === undefined ? undefined : this.#resumed.get(streamId)) ?? posted.outlet
  }

  #done(flight: Flight): void {
    if (flight.isDone) return
    flight.isDone = true
    const { posted, link } = flight
    if (--posted.pending === 0) this.#forget(posted)
    if (link !== undefined) this.#giveBack(link)
  }
}

export function sessionNotFound(): PlainResponse {
  return jsonRpcError(404, -32_001, 'Session not found')
}

/** A refusal that a later attempt may not get. */
export function retryLater(status: 429 | 503, message: string): PlainResponse {
  const answer = jsonRpcError(status, -32_000, message)
  return { ...answer, headers: { ...answer.headers, 'Retry-After': '5' } }
}

function isEventStream(response: Response): boolean {
  return response.headers.get('content-type')?.startsWith('text/event-stream') === true
}

type Posting = Partial<Record<'id' | 'method', unknown>> | null

function messagesOf(body: unknown): readonly Posting[] {
  return (body === undefined ? [] : [body].flat()) as Posting[]
}

function requestIds(messages: readonly Posting[]): RequestId[] {
  return messages.flatMap((message) => {
    const id = message?.method === undefined ? undefined : message.id
    return typeof id === 'string' || typeof id === 'number' ? [id] : []
  })
}

/** Answers, and what concerns one call, go to the server that they are about. */
function needsServer(message: Posting): boolean {
  return (
    message?.method !== undefined &&
    message.method !== 'notifications/cancelled' &&
    message.method !== 'notifications/progress'
  )
}

function relatedTo({ relatedRequestId }: TransportSendOptions = {}): { relatedRequestId?: RequestId } {
  return relatedRequestId === undefined ? {} : { relatedRequestId }
}

function isTooLong(message: unknown): boolean {
  return JSON.stringify(message).length > MAX_INITIALIZE_LENGTH
}
