import { randomUUID } from 'node:crypto'
import {
  isInitializeRequest,
  type JSONRPCMessage,
  type McpServer,
  type Server,
  type ServerEvent,
  type ServerEventBus,
  WebStandardStreamableHTTPServerTransport,
} from '@modelcontextprotocol/server'
import type { Answer } from '../../oauth/answer.ts'
import type { AuthInfo } from '../../oauth/auth-info.ts'
import { endingAt, withBodyEnd } from '../body-end.ts'
import { ownerOf } from '../operations/request-state.ts'
import { jsonRpcError } from '../rpc.ts'
import { notificationOf, type Subscriptions } from './event-stream.ts'
import { SessionEvents } from './session-events.ts'

/** Sessions of clients of the 2025 revisions. */
export interface McpSessionOptions {
  /** Milliseconds without a request and without an open stream after which a session is ended. Default 1 800 000 (30 minutes). */
  readonly idleTimeoutMs?: number | undefined
  /** How many sessions there may be; beyond it the one that is idle longest is ended. Default 1000. */
  readonly max?: number | undefined
}

/** `McpSessionOptions` with their defaults. */
export interface ResolvedSessionOptions {
  readonly idleTimeoutMs: number
  readonly max: number
}

/** One request to a session. */
export interface SessionRequest {
  readonly request: Request
  /** The parsed body of a POST. */
  readonly body: unknown
  readonly auth: AuthInfo | undefined
  /** Calls `listener` when the client hangs up: a host that has lost it may do nothing with a stream. */
  onDisconnect(listener: () => void): void
  /** Hears of the answers to the requests in `body`. */
  readonly onAnswer?: ((answer: JSONRPCMessage) => void) | undefined
}

/** What makes the server of a session that begins. */
export interface SessionHost {
  makeServer(subscriptions: Subscriptions, request: Request): SessionServer | Promise<SessionServer>
}

type SessionServer = Server | McpServer

interface Session {
  readonly id: string
  readonly owner: string
  readonly transport: WebStandardStreamableHTTPServerTransport
  readonly server: SessionServer
  readonly stopListening: () => void
  /** Who hears of the answer to a request, by its id. */
  readonly awaited: Map<unknown, (answer: JSONRPCMessage) => void>
  /** Requests and streams under way. */
  inUse: number
  idleSince: number
}

/** After how long a client whose stream has ended comes back. */
const RETRY_MS = 1_000

/** How often idle sessions are looked for, at the least. */
const SWEEP_MS = 60_000

/**
 * The sessions of one adapter, each with a server and a transport of the SDK. A session belongs to the user who opened
 * it: for everybody else there is none of that id. Its events can be asked for again (`Last-Event-ID`).
 */
export class McpSessions {
  readonly #options: ResolvedSessionOptions
  readonly #host: SessionHost
  readonly #bus: ServerEventBus
  /** In the order of their last use. */
  readonly #sessions = new Map<string, Session>()
  #sweeper: NodeJS.Timeout | undefined

  constructor(options: ResolvedSessionOptions, bus: ServerEventBus, host: SessionHost) {
    this.#options = options
    this.#bus = bus
    this.#host = host
  }

  /** Answers a request of a 2025 revision. */
  async serve(asked: SessionRequest): Promise<Response | Answer> {
    const id = asked.request.headers.get('mcp-session-id') ?? ''
    if (id === '') {
      return isInitializeRequest(asked.body)
        ? await this.#begin(asked)
        : jsonRpcError(400, -32_000, 'Bad Request: Mcp-Session-Id header is required')
    }
    const session = this.#sessions.get(id)
    if (session === undefined || session.owner !== ownerOf(asked.auth)) {
      return jsonRpcError(404, -32_001, 'Session not found')
    }
    const response = await this.#use(session, asked)
    if (asked.request.method === 'DELETE' && response.ok) this.#end(session)
    return response
  }

  async #begin(asked: SessionRequest): Promise<Response> {
    const id = randomUUID()
    const transport = new WebStandardStreamableHTTPServerTransport({
      sessionIdGenerator: () => id,
      eventStore: new SessionEvents(),
      retryInterval: RETRY_MS,
    })
    const subscriptions = new SessionSubscriptions()
    const server = await this.#host.makeServer(subscriptions, asked.request)
    await server.connect(transport)
    const awaited: Session['awaited'] = new Map()
    const send = transport.send.bind(transport)
    transport.send = (message, options) => {
      if ('id' in message && !('method' in message)) {
        awaited.get(message.id)?.(message)
        awaited.delete(message.id)
      }
      return send(message, options)
    }
    const stopListening = this.#bus.subscribe((event) => {
      const notification = subscriptions.wants(event) ? notificationOf(event) : undefined
      if (notification !== undefined)
        transport.send({ jsonrpc: '2.0', ...notification }).catch(() => undefined)
    })
    const owner = ownerOf(asked.auth)
    const session: Session = { id, owner, transport, server, stopListening, awaited, inUse: 0, idleSince: 0 }
    const response = await this.#use(session, asked)
    if (!response.ok) {
      this.#end(session)
      return response
    }
    this.#makeRoom()
    this.#sessions.set(id, session)
    this.#sweeper ??= setInterval(
      () => this.#sweep(),
      Math.min(this.#options.idleTimeoutMs, SWEEP_MS),
    ).unref()
    return response
  }

  /** Hands a request to the session, which is in use until the answer has ended. */
  async #use(session: Session, asked: SessionRequest): Promise<Response> {
    const { request, body, auth, onAnswer } = asked
    session.inUse++
    const ids = onAnswer === undefined ? [] : requestIds(body)
    if (onAnswer !== undefined) for (const id of ids) session.awaited.set(id, onAnswer)
    if (this.#sessions.delete(session.id)) this.#sessions.set(session.id, session)
    let released = false
    const release = (): void => {
      if (released) return
      released = true
      session.inUse--
      session.idleSince = Date.now()
      // A call that was cancelled has no answer.
      for (const id of ids) if (session.awaited.get(id) === onAnswer) session.awaited.delete(id)
    }
    asked.onDisconnect(release)
    try {
      const response = await session.transport.handleRequest(request, {
        ...(body !== undefined && { parsedBody: body }),
        ...(auth !== undefined && { authInfo: auth }),
      })
      const isStream = response.headers.get('content-type')?.startsWith('text/event-stream') === true
      if (response.body === null || !isStream) {
        release()
        return response
      }
      const ended = withBodyEnd(response.body, release)
      const listens = request.method === 'GET' && auth?.expiresAt !== undefined
      return new Response(listens ? endingAt(ended, auth.expiresAt as number) : ended, response)
    } catch (error) {
      release()
      throw error
    }
  }

  /** Ends the session that is idle longest, or, where none is idle, the one not used for longest. */
  #makeRoom(): void {
    if (this.#sessions.size < this.#options.max) return
    const sessions = [...this.#sessions.values()]
    const victim = sessions.find(({ inUse }) => inUse === 0) ?? sessions[0]
    if (victim !== undefined) this.#end(victim)
  }

  #sweep(): void {
    const idleBefore = Date.now() - this.#options.idleTimeoutMs
    for (const session of this.#sessions.values()) {
      if (session.inUse === 0 && session.idleSince <= idleBefore) this.#end(session)
    }
    if (this.#sessions.size > 0) return
    clearInterval(this.#sweeper)
    this.#sweeper = undefined
  }

  #end(session: Session): void {
    this.#sessions.delete(session.id)
    session.stopListening()
    session.transport.close().catch(() => undefined)
    session.server.close().catch(() => undefined)
  }
}

function requestIds(body: unknown): unknown[] {
  const messages = (body === undefined ? [] : [body].flat()) as ({ id?: unknown; method?: unknown } | null)[]
  return messages.flatMap((message) =>
    message?.id === undefined || message.method === undefined ? [] : [message.id],
  )
}

/** How many resources one session may subscribe to. */
const MAX_SUBSCRIPTIONS = 1024

/** The resources that the client of one session has subscribed to. */
class SessionSubscriptions implements Subscriptions {
  readonly #uris = new Set<string>()

  subscribe(_owner: string, uri: string): void {
    if (this.#uris.size < MAX_SUBSCRIPTIONS) this.#uris.add(uri)
  }

  unsubscribe(_owner: string, uri: string): void {
    this.#uris.delete(uri)
  }

  wants(event: ServerEvent): boolean {
    return event.kind !== 'resource_updated' || this.#uris.has(event.uri)
  }
}
