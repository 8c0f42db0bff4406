import { randomUUID } from 'node:crypto'
import { performance } from 'node:perf_hooks'
import {
  isInitializeRequest,
  type ServerEvent,
  type ServerEventBus,
  SUPPORTED_PROTOCOL_VERSIONS,
} from '@modelcontextprotocol/server'
import type { PlainResponse } from '../../../http/plain-response.ts'
import { ownerOf } from '../../../oauth/owner.ts'
import { elapsedMs } from '../../../timers.ts'
import { SubscribedUris, type Subscriptions } from '../../operations/subscriptions.ts'
import { jsonRpcError, retryLater } from '../../wire/json-rpc.ts'
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
  /** `true` if a gate serves the request without a token. */
  readonly isAnonymous: boolean
  /** The owner, or undefined if it is not known. */
  readonly countedFor: string | undefined
  /** Takes a slot for an event stream. @returns a function that frees the slot, or the refusal if none is free */
  takeStream(): (() => void) | PlainResponse
}

/** Makes the servers of sessions. */
export interface SessionsHost extends Pick<SessionHost, 'authorityOf'> {
  makeServer(subscriptions: Subscriptions, request: Request): ReturnType<SessionHost['makeServer']>
  /** Called when a session ends. @param revision the revision that its client has asked for, if the SDK supports it */
  onSessionEnd(durationMs: number, revision: string | undefined): void
}

/** The maximum interval at which idle sessions are ended, in milliseconds. */
const SWEEP_MS = 60_000

/** The place of a session among those of the adapter and of its owner. */
interface Place {
  use(): void
  leave(): void
}

/**
 * The sessions of one adapter. A session belongs to the user who opened it. Requests of other users with its id get the
 * same response as requests with an unknown id. A session that was opened without a token belongs to the first user whose
 * token is accepted in it.
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
  readonly #places = new WeakMap<Session, Place>()
  /** The sessions without an owner, by last use, with the number of requests with a token that are in progress in each. */
  readonly #unowned = new Map<Session, number>()
  #sweeper: NodeJS.Timeout | undefined

  constructor(options: ResolvedSessionOptions, bus: ServerEventBus, host: SessionsHost) {
    this.#options = options
    this.#bus = bus
    this.#host = host
    this.#slots = new OwnerSlots(options)
  }

  /** Serves a request of a 2025 revision. */
  async serve(received: OwnedRequest): Promise<Response | PlainResponse> {
    const id = received.header('mcp-session-id') ?? ''
    if (id === '') {
      return isInitializeRequest(received.body)
        ? await this.#begin(received)
        : jsonRpcError(400, -32_000, 'Bad Request: Mcp-Session-Id header is required')
    }
    const session = this.#sessions.get(id)
    if (session === undefined) return sessionNotFound()
    const owner = ownerOf(received.auth)
    if (!received.isAnonymous && this.#unowned.has(session))
      return await this.#claim(session, owner, received)
    return session.owner === owner ? await serveIn(session, received) : sessionNotFound()
  }

  /**
   * Serves a request with a token in a session without an owner. The session belongs to this owner from now on, unless the
   * request turns out to lack a scope. Others do not find the session in the meantime.
   */
  async #claim(session: Session, owner: string, received: OwnedRequest): Promise<Response | PlainResponse> {
    if (session.owner !== '' && session.owner !== owner) return sessionNotFound()
    session.owner = owner
    this.#unowned.set(session, (this.#unowned.get(session) ?? 0) + 1)
    let isAccepted = false
    try {
      const response = await serveIn(session, received)
      isAccepted = response.status !== 403
      return response
    } finally {
      const claims = this.#unowned.get(session)
      // Otherwise another request of this owner was accepted meanwhile, or the session has ended.
      if (claims !== undefined) {
        if (isAccepted) this.#adopt(session, received.countedFor)
        else this.#unowned.set(session, claims - 1)
        if (!isAccepted && claims === 1) session.owner = ''
      }
    }
  }

  /** Counts a session for its new owner. */
  #adopt(session: Session, countedFor: string | undefined): void {
    this.#unowned.delete(session)
    this.#places.get(session)?.leave()
    this.#enter(session, countedFor)
  }

  async #begin(received: OwnedRequest): Promise<Response | PlainResponse> {
    const { countedFor, isAnonymous } = received
    if (isAnonymous && !this.#hasRoomForUnowned(countedFor))
      return retryLater(503, 'Too many sessions are open')
    const subscriptions = new SessionSubscriptions()
    const startedAt = performance.now()
    const revision = revisionIn(received.body)
    let hasBegun = false
    const session: Session = new Session({
      id: randomUUID(),
      owner: ownerOf(received.auth),
      maxBufferedBytes: this.#options.maxBufferedBytes,
      host: {
        makeServer: (request) => this.#host.makeServer(subscriptions, request),
        authorityOf: (auth) => this.#host.authorityOf(auth),
      },
      onUse: () => this.#places.get(session)?.use(),
      onEnd: () => {
        stopListening()
        this.#unowned.delete(session)
        this.#places.get(session)?.leave()
        if (hasBegun) this.#host.onSessionEnd(elapsedMs(startedAt), revision)
      },
    })
    const stopListening = this.#bus.subscribe((event) => {
      const notification = subscriptions.wants(event) ? notificationOf(event) : undefined
      if (notification !== undefined) session.notify(notification)
    })
    try {
      const response = await session.serve(received)
      const isOk = response instanceof Response && response.ok
      if (!isOk || (isAnonymous && !this.#hasRoomForUnowned(countedFor))) session.end()
      else if (!session.hasEnded) {
        this.#enter(session, countedFor)
        if (isAnonymous) this.#unowned.set(session, 0)
        hasBegun = true
      }
      return response
    } catch (error) {
      session.end()
      throw error
    }
  }

  /** Returns `false` if a session without an owner would take the place of a session with an owner. */
  #hasRoomForUnowned(countedFor: string | undefined): boolean {
    return this.#slots.exhausted(countedFor) !== 'all' || this.#unowned.size > 0
  }

  #enter(session: Session, owner: string | undefined): void {
    for (let full = this.#slots.exhausted(owner); full !== undefined; full = this.#slots.exhausted(owner)) {
      // Sessions without an owner are the first to end, so that no stranger can end the session of a user.
      const all = this.#unowned.size > 0 ? this.#unowned.keys() : this.#sessions.values()
      const candidates = full === 'owner' ? this.#byOwner.get(owner as string) : all
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
    this.#places.set(session, {
      use: () => {
        if (this.#sessions.delete(session.id)) this.#sessions.set(session.id, session)
        if (own?.delete(session)) own.add(session)
        const claims = this.#unowned.get(session)
        if (claims === undefined) return
        this.#unowned.delete(session)
        this.#unowned.set(session, claims)
      },
      leave: () => {
        giveBack()
        this.#sessions.delete(session.id)
        own?.delete(session)
        // A new set may have replaced one that was empty.
        if (owner !== undefined && own?.size === 0 && this.#byOwner.get(owner) === own)
          this.#byOwner.delete(owner)
      },
    })
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

async function serveIn(session: Session, received: OwnedRequest): Promise<Response | PlainResponse> {
  if (received.method !== 'GET') return await session.serve(received)
  const release = received.takeStream()
  return typeof release === 'function' ? await session.serve(received, release) : release
}

/** Returns the revision that an `initialize` asks for. Returns undefined for a revision that the SDK does not support. */
function revisionIn(body: unknown): string | undefined {
  const given = (body as { params?: { protocolVersion?: unknown } } | undefined)?.params?.protocolVersion
  return SUPPORTED_PROTOCOL_VERSIONS.find((supported) => supported === given)
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
