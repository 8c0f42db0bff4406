import { randomUUID } from 'node:crypto'
import { isInitializeRequest, type ServerEvent, type ServerEventBus } from '@modelcontextprotocol/server'
import type { PlainResponse } from '../../../http/plain-response.ts'
import { ownerOf } from '../../operations/request-state.ts'
import { SubscribedUris, type Subscriptions } from '../../operations/subscriptions.ts'
import { jsonRpcError } from '../../wire/json-rpc.ts'
import { notificationOf } from '../streams/event-stream.ts'
import { OwnerSlots } from '../streams/owner-slots.ts'
import { Session, type SessionHost, type SessionRequest, sessionNotFound } from './session.ts'

/** Sessions of clients of the 2025 revisions. */
export interface McpSessionOptions {
  /** Milliseconds without a request and without an open stream after which a session is ended. Default 1 800 000 (30 minutes). */
  readonly idleTimeoutMs?: number | undefined
  /** How many sessions there may be; beyond it the one that is idle longest is ended. Default 1000. */
  readonly max?: number | undefined
  /**
   * The number of sessions that one user may have. Beyond it, the user's own session that is idle longest is ended. If
   * OAuth is disabled, sessions are counted by client address. Defaults to a tenth of `max`, at least 10.
   */
  readonly maxPerOwner?: number | undefined
  /**
   * The number of bytes that are kept of one session for clients that come back with `Last-Event-ID`: UTF-8 bytes of the
   * messages as JSON. A larger message is delivered, but not kept. Defaults to 1 048 576 (1 MiB).
   */
  readonly maxBufferedBytes?: number | undefined
}

/** `McpSessionOptions` with their defaults. */
export interface ResolvedSessionOptions {
  readonly idleTimeoutMs: number
  readonly max: number
  readonly maxPerOwner: number
  readonly maxBufferedBytes: number
}

/** One request, and who is counted for it. */
export interface OwnedRequest extends SessionRequest {
  /** Who is counted for a session or a stream; undefined if that is not known. */
  readonly countedFor: string | undefined
  /** Takes a slot for an event stream, or refuses it. */
  takeStream(): (() => void) | PlainResponse
}

/** What makes the servers of sessions. */
export interface SessionsHost extends Pick<SessionHost, 'authorityOf'> {
  makeServer(subscriptions: Subscriptions, request: Request): ReturnType<SessionHost['makeServer']>
}

/** How often idle sessions are looked for, at the least. */
const SWEEP_MS = 60_000

/**
 * The sessions of one adapter, each with a server and a transport of the SDK. A session belongs to the user who opened
 * it: for everybody else there is none of that id. Its events can be asked for again (`Last-Event-ID`).
 */
export class McpSessions {
  readonly #options: ResolvedSessionOptions
  readonly #host: SessionsHost
  readonly #bus: ServerEventBus
  /** In the order of their last use. */
  readonly #sessions = new Map<string, Session>()
  /** The sessions of each owner, in the order of their last use. */
  readonly #byOwner = new Map<string, Set<Session>>()
  readonly #slots: OwnerSlots
  #sweeper: NodeJS.Timeout | undefined

  constructor(options: ResolvedSessionOptions, bus: ServerEventBus, host: SessionsHost) {
    this.#options = options
    this.#bus = bus
    this.#host = host
    this.#slots = new OwnerSlots(options)
  }

  /** Answers a request of a 2025 revision. */
  async serve(asked: OwnedRequest): Promise<Response | PlainResponse> {
    const id = asked.request.headers.get('mcp-session-id') ?? ''
    if (id === '') {
      return isInitializeRequest(asked.body)
        ? await this.#begin(asked)
        : jsonRpcError(400, -32_000, 'Bad Request: Mcp-Session-Id header is required')
    }
    const session = this.#sessions.get(id)
    if (session === undefined || session.owner !== ownerOf(asked.auth)) return sessionNotFound()
    if (asked.request.method !== 'GET') return await session.serve(asked)
    const release = asked.takeStream()
    return typeof release === 'function' ? await session.serve(asked, release) : release
  }

  async #begin(asked: OwnedRequest): Promise<Response | PlainResponse> {
    const { countedFor } = asked
    const subscriptions = new SessionSubscriptions()
    let [use, leave]: [use: () => void, leave: () => void] = [() => undefined, () => undefined]
    const session: Session = new Session({
      id: randomUUID(),
      owner: ownerOf(asked.auth),
      maxBufferedBytes: this.#options.maxBufferedBytes,
      host: {
        makeServer: (request) => this.#host.makeServer(subscriptions, request),
        authorityOf: (auth) => this.#host.authorityOf(auth),
      },
      onUse: () => use(),
      onEnd: () => {
        stopListening()
        leave()
      },
    })
    const stopListening = this.#bus.subscribe((event) => {
      const notification = subscriptions.wants(event) ? notificationOf(event) : undefined
      if (notification !== undefined) session.tell(notification)
    })
    try {
      const response = await session.serve(asked)
      const isOk = response instanceof Response && response.ok
      if (!isOk) session.end()
      else if (!session.hasEnded) ({ use, leave } = this.#enter(session, countedFor))
      return response
    } catch (error) {
      session.end()
      throw error
    }
  }

  #enter(session: Session, owner: string | undefined): { use: () => void; leave: () => void } {
    for (let full = this.#slots.exhausted(owner); full !== undefined; full = this.#slots.exhausted(owner)) {
      const candidates = full === 'owner' ? this.#byOwner.get(owner as string) : this.#sessions.values()
      longestIdle(candidates ?? [])?.end()
    }
    const giveBack = this.#slots.take(owner)
    const own = owner === undefined ? undefined : (this.#byOwner.get(owner) ?? new Set<Session>())
    if (owner !== undefined && own !== undefined) this.#byOwner.set(owner, own.add(session))
    this.#sessions.set(session.id, session)
    this.#sweeper ??= setInterval(
      () => this.#sweep(),
      Math.min(this.#options.idleTimeoutMs, SWEEP_MS),
    ).unref()
    return {
      use: () => {
        if (this.#sessions.delete(session.id)) this.#sessions.set(session.id, session)
        if (own?.delete(session)) own.add(session)
      },
      leave: () => {
        giveBack()
        this.#sessions.delete(session.id)
        own?.delete(session)
        // Another set may have taken the place of one that was empty.
        if (owner !== undefined && own?.size === 0 && this.#byOwner.get(owner) === own)
          this.#byOwner.delete(owner)
      },
    }
  }

  #sweep(): void {
    const idleBefore = Date.now() - this.#options.idleTimeoutMs
    for (const session of this.#sessions.values()) {
      if (session.isIdle && session.idleSince <= idleBefore) session.end()
    }
    if (this.#sessions.size > 0) return
    clearInterval(this.#sweeper)
    this.#sweeper = undefined
  }
}

/** The session that is idle longest, or, if none is idle, the one not used for longest. @param sessions by last use */
function longestIdle(sessions: Iterable<Session>): Session | undefined {
  let first: Session | undefined
  for (const session of sessions) {
    if (session.isIdle) return session
    first ??= session
  }
  return first
}

/** The resources that the client of one session has subscribed to. */
class SessionSubscriptions implements Subscriptions {
  readonly #uris = new SubscribedUris()

  subscribe(_owner: string, uri: string): void {
    this.#uris.add(uri)
  }

  unsubscribe(_owner: string, uri: string): void {
    this.#uris.delete(uri)
  }

  wants(event: ServerEvent): boolean {
    return event.kind !== 'resource_updated' || this.#uris.has(event.uri)
  }
}
