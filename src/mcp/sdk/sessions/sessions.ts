import { randomUUID } from 'node:crypto'
import {
  isInitializeRequest,
  type ServerEvent,
  type ServerEventBus,
  SUPPORTED_PROTOCOL_VERSIONS,
} from '@modelcontextprotocol/server'
import type { HttpResponse } from '../../../base/http/plain-response.ts'
import type { AuthInfo } from '../../../oauth/auth-info.ts'
import { ownerOf } from '../../../oauth/owner.ts'
import { isAnonymous, type ObservedClient } from '../../wire/exchange.ts'
import { jsonRpcError, requestIdOf, retryLater, sessionNotFound } from '../../wire/json-rpc.ts'
import { notificationOf } from '../streams/event-stream.ts'
import { Session, type SessionOwner, type SessionsHost } from './session.ts'
import { revisionIn, type SessionCall } from './session-call.ts'

/** Sessions of clients of the 2025 revisions. */
export interface McpSessionOptions {
  /**
   * The time after which a session without requests and open streams is ended, in milliseconds. Defaults to 1 800 000 ms
   * (30 minutes).
   */
  readonly idleTimeoutMs?: number | undefined
  /**
   * The maximum number of sessions. For a further one, the session that is idle longest is ended, of those of the user with the
   * most sessions. Defaults to 1000.
   */
  readonly max?: number | undefined
  /**
   * The maximum number of sessions of one user. For a further one, the session of this user that is idle longest is ended.
   * If OAuth is disabled, sessions are counted by client address. Defaults to a tenth of `max`, but at least 10.
   */
  readonly maxPerOwner?: number | undefined
  /**
   * The maximum memory for the messages that one session keeps for clients that resume a stream with `Last-Event-ID`, in bytes.
   * A message takes the UTF-8 bytes of its JSON and 600 bytes more. A larger message is delivered, but not kept. All sessions of
   * one user keep at most ten times as much. Defaults to 1 048 576 (1 MiB).
   */
  readonly maxBufferedBytes?: number | undefined
}

/** `McpSessionOptions` with defaults. */
export type ResolvedSessionOptions = Readonly<Record<keyof McpSessionOptions, number>>

/** The maximum interval at which idle sessions are looked for, in milliseconds. */
const SWEEP_MS = 5_000

/** The number of sessions whose kept events may be full, for each owner. */
const FULL_SESSIONS_PER_OWNER = 10

const INVALID_INITIALIZE =
  'Invalid params: initialize must have protocolVersion, capabilities, and clientInfo with a name and a version'

/**
 * The sessions of one adapter. A session belongs to the user who opened it. Requests of other users with its id get the
 * same response as requests with an unknown id. A session that was opened without a token belongs to the first user who
 * uses it with one.
 */
export class McpSessions implements SessionOwner {
  readonly options: ResolvedSessionOptions
  readonly host: SessionsHost
  readonly #bus: ServerEventBus
  /** By id, in the order of their last use. */
  readonly #sessions = new Map<string, Session>()
  /** By owner, in the order of their last use. The sessions whose owner is not known have one owner together (`undefined`). */
  readonly #byOwner = new Map<string | undefined, Set<Session>>()
  /** The sessions without an owner, in the order of their last use. */
  readonly #unowned = new Set<Session>()
  #sweeper: NodeJS.Timeout | undefined
  #stopListening: (() => void) | undefined

  constructor(options: ResolvedSessionOptions, bus: ServerEventBus, host: SessionsHost) {
    this.options = options
    this.#bus = bus
    this.host = host
  }

  /** Returns the client that has begun a session, unless the session belongs to another user. */
  clientOf(id: string | undefined, auth: AuthInfo | undefined): ObservedClient | undefined {
    const session = id === undefined ? undefined : this.#sessions.get(id)
    if (session === undefined) return undefined
    return session.owner === '' || session.owner === ownerOf(auth) ? session.observedClient : undefined
  }

  /** Serves a request of a 2025 revision. */
  async serve(received: SessionCall): Promise<HttpResponse> {
    const { exchange } = received
    const id = received.request.header('mcp-session-id') ?? ''
    if (id === '') {
      if (isInitializeRequest(received.body)) return await this.#begin(received)
      const { method } = Object(received.body)
      return method === 'initialize'
        ? jsonRpcError(400, -32_602, INVALID_INITIALIZE, { id: requestIdOf(received.body) })
        : jsonRpcError(400, -32_000, 'Bad Request: Mcp-Session-Id header is required')
    }
    const session = this.#sessions.get(id)
    if (session?.serves(exchange.auth) !== true) return sessionNotFound()
    const owner = ownerOf(exchange.auth)
    if (!isAnonymous(exchange) && this.#unowned.has(session)) this.#adopt(session, owner, received)
    return session.owner === owner ? await this.#serveIn(session, received) : sessionNotFound()
  }

  async #serveIn(session: Session, received: SessionCall): Promise<HttpResponse> {
    if (received.request.method !== 'GET') return await session.serve(received)
    const release = this.host.takeStream(received)
    return typeof release === 'function' ? await session.serve(received, release) : release
  }

  /** Gives a session without an owner to the user of the first request with a token. */
  #adopt(session: Session, owner: string, received: SessionCall): void {
    session.owner = owner
    this.#unowned.delete(session)
    this.#leave(session)
    this.#enter(session, this.host.countedFor(received))
  }

  async #begin(received: SessionCall): Promise<HttpResponse> {
    const countedFor = this.host.countedFor(received)
    const { auth, telemetry } = received.exchange
    const isUnowned = isAnonymous(received.exchange)
    if (isUnowned && !this.#hasRoomForUnowned(countedFor))
      return retryLater(503, 'Too many sessions are open')
    const session = new Session(randomUUID(), ownerOf(auth), received, this)
    try {
      const response = await session.serve(received)
      if (response.status !== 200 || (isUnowned && !this.#hasRoomForUnowned(countedFor))) session.end()
      else if (!session.hasEnded) {
        this.#enter(session, countedFor)
        if (isUnowned) this.#unowned.add(session)
        const revision = revisionIn(received.body)
        session.revision = SUPPORTED_PROTOCOL_VERSIONS.find((supported) => supported === revision)
        session.observedClient = telemetry.client
        session.hasBegun = true
      }
      return response
    } catch (error) {
      session.end()
      throw error
    }
  }

  ended(session: Session): void {
    this.#unowned.delete(session)
    this.#leave(session)
    if (session.hasBegun) this.host.onSessionEnd(session)
  }

  /** Returns `false` if a session without an owner would take the place of a session with an owner. */
  #hasRoomForUnowned(countedFor: string | undefined): boolean {
    return this.#exhausted(countedFor) !== 'all' || this.#unowned.size > 0
  }

  /** Returns the limit that is reached for an owner, or undefined if there is room. An unknown owner does not have a limit. */
  #exhausted(owner: string | undefined): 'owner' | 'all' | undefined {
    const held = owner === undefined ? 0 : (this.#byOwner.get(owner)?.size ?? 0)
    if (held >= this.options.maxPerOwner) return 'owner'
    return this.#sessions.size >= this.options.max ? 'all' : undefined
  }

  #enter(session: Session, owner: string | undefined): void {
    for (let full = this.#exhausted(owner); full !== undefined; full = this.#exhausted(owner))
      longestIdle(full === 'owner' ? (this.#byOwner.get(owner) ?? []) : this.#endable(owner))?.end()
    session.countedFor = owner
    this.#sessions.set(session.id, session)
    this.#byOwner.set(owner, (this.#byOwner.get(owner) ?? new Set()).add(session))
    this.limitKept(session)
    this.#sweeper ??= setInterval(() => this.#sweep(), Math.min(this.options.idleTimeoutMs, SWEEP_MS)).unref()
    this.#stopListening ??= this.#bus.subscribe((event) => this.#notify(event))
  }

  /**
   * Returns the sessions of which one ends for a further session of `owner`, in the order of their last use: those of the owner with
   * the most sessions. If several owners have the most, and `owner` is one of them, these are the sessions of `owner`.
   */
  #endable(owner: string | undefined): readonly Session[] {
    // Sessions without an owner are the first to end, so that no stranger can end the session of a user.
    const all = [...(this.#unowned.size > 0 ? this.#unowned : this.#sessions.values())]
    const sizes = all.map(({ countedFor }) => this.#byOwner.get(countedFor)?.size ?? 0)
    const most = sizes.reduce((a, b) => Math.max(a, b), 0)
    const largest = all.filter((_session, index) => sizes[index] === most)
    const own = largest.filter(({ countedFor }) => countedFor === owner)
    return own.length > 0 ? own : largest
  }

  /** Drops kept events of an owner who has too many: first those of the session that was not used for the longest time. */
  limitKept(session: Session): void {
    const own = this.#byOwner.get(session.countedFor)
    if (own?.has(session) !== true) return
    let more = -this.options.maxBufferedBytes * FULL_SESSIONS_PER_OWNER
    for (const { events } of own) more += events.bytes
    for (const { events } of own) {
      while (more > 0 && events.bytes > 0) more -= events.dropOldest()
      if (more <= 0) return
    }
  }

  /** Moves a session behind all others, as the one that was used last. */
  used(session: Session): void {
    if (!this.#sessions.delete(session.id)) return
    this.#sessions.set(session.id, session)
    const own = this.#byOwner.get(session.countedFor)
    if (own?.delete(session)) own.add(session)
    if (this.#unowned.delete(session)) this.#unowned.add(session)
  }

  #leave(session: Session): void {
    if (!this.#sessions.delete(session.id)) return
    const own = this.#byOwner.get(session.countedFor)
    own?.delete(session)
    if (own?.size === 0) this.#byOwner.delete(session.countedFor)
    if (this.#sessions.size > 0) return
    this.#stopListening?.()
    this.#stopListening = undefined
  }

  #notify(event: ServerEvent): void {
    const notification = notificationOf(event)
    if (notification === undefined) return
    for (const session of this.#sessions.values()) session.notify(event, notification)
  }

  #sweep(): void {
    const now = Date.now()
    const { idleTimeoutMs } = this.options
    for (const session of this.#sessions.values()) {
      const idleMs = now - session.idleSince
      if (session.isIdle && idleMs >= idleTimeoutMs) session.end()
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
