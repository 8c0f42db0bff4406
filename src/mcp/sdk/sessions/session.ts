import { performance } from 'node:perf_hooks'
import { type ServerEvent, SUPPORTED_PROTOCOL_VERSIONS } from '@modelcontextprotocol/server'
import type { HttpResponse } from '../../../http/plain-response.ts'
import { PushedBody } from '../../../http/pushed-body.ts'
import { elapsedMs } from '../../../timers.ts'
import { SubscribedUris, type Subscriptions } from '../../operations/subscriptions.ts'
import type { ObservedClient } from '../../wire/request-telemetry.ts'
import type { StreamClock } from '../streams/stream-clock.ts'
import { ActiveSession } from './active-session.ts'
import type { SessionCall } from './session-call.ts'
import { SessionEvents } from './session-events.ts'
import type { SessionHost } from './session-servers.ts'
import type { ClientState } from './session-transport.ts'
import { type Notification, StandaloneStream } from './standalone-stream.ts'

/** The adapter of a session. */
export interface SessionOwner extends SessionHost {
  readonly maxBufferedBytes: number
  readonly clock: StreamClock
  /** Called for every request. */
  onUse(session: Session): void
  /** Called when the session keeps events of `bytes` bytes in addition, or has dropped them. */
  onKept(session: Session, bytes: number): void
  /** Called once, when the session has ended. */
  onEnd(session: Session): void
}

/**
 * One session of a client of a 2025 revision. It keeps what the client has sent and may ask for again. The servers and the
 * transport belong to an `ActiveSession`, which a session has only while it is in use.
 */
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
  readonly client: ClientState = {
    initialize: undefined,
    isInitialized: false,
    logLevel: undefined,
    nextRequestId: 0,
  }
  readonly #adapter: SessionOwner
  readonly #startedAt = performance.now()
  #active: ActiveSession | undefined = undefined
  #events: SessionEvents | undefined = undefined
  #standalone: StandaloneStream | undefined = undefined
  #subscribed: SubscribedUris | undefined = undefined
  #hasEnded = false

  constructor(id: string, owner: string, adapter: SessionOwner) {
    this.id = id
    this.owner = owner
    this.#adapter = adapter
  }

  /** `true` if no HTTP request is in progress and no stream is open. */
  get isIdle(): boolean {
    return this.#active?.isIdle !== false && this.#standalone?.isOpen !== true
  }

  get hasEnded(): boolean {
    return this.#hasEnded
  }

  get clock(): StreamClock {
    return this.#adapter.clock
  }

  /** The time since the session began, in milliseconds. */
  get durationMs(): number {
    return elapsedMs(this.#startedAt)
  }

  /** The events that the client may ask for again. */
  get events(): SessionEvents {
    this.#events ??= new SessionEvents(this.#adapter.maxBufferedBytes, (bytes) =>
      this.#adapter.onKept(this, bytes),
    )
    return this.#events
  }

  /** The stream that the client opens with GET. */
  get standalone(): StandaloneStream {
    this.#standalone ??= new StandaloneStream(this)
    return this.#standalone
  }

  /** The revisions that the client may name in a request. */
  get protocolVersions(): readonly string[] {
    return this.#active?.protocolVersions ?? SUPPORTED_PROTOCOL_VERSIONS
  }

  /** Receives the error of a request that the session itself refuses. */
  onError(error: Error): void {
    this.#active?.onError(error)
  }

  /** The memory that the kept events take, in bytes. */
  get keptBytes(): number {
    return this.#events?.bytes ?? 0
  }

  /** Drops the oldest of the kept events. Returns `false` if there is none. */
  dropOldestEvent(): boolean {
    return this.#events?.dropOldest() === true
  }

  /** Serves an HTTP request. @param release is called when the request and its stream have ended */
  async serve(received: SessionCall, release: () => void = () => undefined): Promise<HttpResponse> {
    this.#adapter.onUse(this)
    if (received.method === 'GET' && this.standalone.serves(received))
      return this.#openStandalone(received, release)
    this.#active ??= new ActiveSession(this, this.#adapter)
    return await this.#active.serve(received, release)
  }

  #openStandalone(received: SessionCall, release: () => void): HttpResponse {
    const response = this.standalone.open(received)
    const end = (): void => {
      this.idleSince = Date.now()
      release()
    }
    if (response.body instanceof PushedBody) response.body.onEnd(end)
    else end()
    return response
  }

  /** Sends a notification to a client that wants it. Without an open stream, the notification is kept. */
  notify(event: ServerEvent, notification: Notification): void {
    if (event.kind === 'resource_updated' && this.#subscribed?.has(event.uri) !== true) return
    this.standalone.notify(notification)
  }

  subscribe(_owner: string, uri: string): void {
    this.#subscribed ??= new SubscribedUris()
    this.#subscribed.add(uri)
  }

  unsubscribe(_owner: string, uri: string): void {
    this.#subscribed?.delete(uri)
  }

  /** Frees the memory of the servers and the transport if the session does not use them. The next request makes them again. */
  rest(): void {
    if (this.#active?.canRest !== true) return
    const active = this.#active
    this.#active = undefined
    active.close()
  }

  end(): void {
    if (this.#hasEnded) return
    this.#hasEnded = true
    this.#adapter.onEnd(this)
    this.#active?.close()
    this.#standalone?.close()
  }
}
