import { randomUUID } from 'node:crypto'
import { isInitializeRequest, type ServerEvent, type ServerEventBus } from '@modelcontextprotocol/server'
import type { PlainResponse } from '../../../http/plain-response.ts'
import { ownerOf } from '../../../oauth/owner.ts'
import { SubscribedUris, type Subscriptions } from '../../operations/subscriptions.ts'
import { jsonRpcError } from '../../wire/json-rpc.ts'
import { notificationOf } from '../streams/event-stream.ts'
import { OwnerSlots } from '../streams/owner-slots.ts'
import { Session, type SessionRequest, sessionNotFound } from './session.ts'
import type { SessionHost } from './session-servers.ts'

/** Sessions of clients of the 2025 revisions. */
export interface McpSessionOptions {
  /**
   * The time after which a session without requests and open streams is ended, in milliseconds. Defaults to 1 800 000 ms
   * (30 minutes).
   */
  readonly idleTimeoutMs?: number | undefined
  /** The maximum number of sessions. For a further one, the session that is idle longest is ended. Defaults to 1000. */
  readonly max?: number | undefined
  /**
   * The maximum number of sessions of one user. For a further one, the session of this user that is idle longest is ended.
   * If OAuth is disabled, sessions are counted by client address. Defaults to a tenth of `max`, but at least 10.
   */
  readonly maxPerOwner?: number | undefined
  /**
   * The maximum size of the messages that one session keeps for clients that resume a stream with `Last-Event-ID`, in UTF-8
   * bytes of JSON. A larger message is delivered, but not kept. Defaults to 1 048 576 (1 MiB).
   */
  readonly maxBufferedBytes?: number | undefined
}

/** `McpSessionOptions` with defaults. */
export interface ResolvedSessionOptions {
  readonly idleTimeoutMs: number
  readonly max: number
  readonly maxPerOwner: number
  readonly maxBufferedBytes: number
}

/** A request to a session, and the owner that its session and stream count for. */
export interface OwnedRequest extends SessionRequest {
  /** The owner, or undefined if it is not known. */
  readonly countedFor: string | undefined
  /** Takes a slot for an event stream. @returns a function that frees the slot, or the refusal if none is free */
  takeStream(): (() => void) | PlainResponse
}

/** Makes the servers of sessions. */
export interface SessionsHost extends Pick<SessionHost, 'authorityOf'> {
  makeServer(subscriptions: Subscriptions, request: Request): ReturnType<SessionHost['makeServer']>
}

/** The maximum interval at which idle sessions are ended, in milliseconds. */
const SWEEP_MS = 60_000

/**
 * The sessions of one adapter. A session belongs to the user who opened it. Requests of other users with its id get the
 * same response as requests with an unknown id.
 */
export class McpSessions {
  readonly #options: ResolvedSessionOptions
  readonly #host: SessionsHost
  readonly #bus: ServerEventBus
  /** By id, in the order of their last use. */
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

  /** Serves a request of a 2025 revision. */
  async serve(received: OwnedRequest): Promise<Response | PlainResponse> {
    const id = received.request.headers.get('mcp-session-id') ?? ''
    if (id === '') {
      return isInitializeRequest(received.body)
        ? await this.#begin(received)
        : jsonRpcError(400, -32_000, 'Bad Request: Mcp-Session-Id header is required')
    }
    const session = this.#sessions.get(id)
    if (session === undefined || session.owner !== ownerOf(received.auth)) return sessionNotFound()
    if (received.request.method !== 'GET') return await session.serve(received)
    const release = received.takeStream()
    return typeof release === 'function' ? await session.serve(received, release) : release
  }

  async #begin(received: OwnedRequest): Promise<Response | PlainResponse> {
    const { countedFor } = received
    const subscriptions = new SessionSubscriptions()
    let [use, leave]: [use: () => void, leave: () => void] = [() => undefined, () => undefined]
    const session: Session = new Session({
      id: randomUUID(),
      owner: ownerOf(received.auth),
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
      if (notification !== undefined) session.notify(notification)
    })
    try {
      const response = await session.serve(received)
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
        // A new set may have replaced one that was empty.
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

/** Returns the session that is idle longest or, if none is idle, the least recently used one. @param sessions by last use */
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
