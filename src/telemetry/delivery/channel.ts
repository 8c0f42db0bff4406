import { counted } from '../../base/options/counted.ts'
import { isPromiseLike } from '../../base/options/value-kinds.ts'
import { AsyncContext } from '../../base/runtime.ts'
import type { TelemetryConfig } from '../config.ts'
import type { TelemetryEnvelope } from '../envelope/envelope.ts'
import type { KitTelemetryError } from '../errors.ts'
import { LEVEL_PRIORITY } from '../levels.ts'
import { CountedEvent, PendingWork, TransportCall } from './pending-work.ts'
import { LOSS_REPEAT_MS, type Reporter, transportError } from './reporter.ts'
import {
  type EventTaker,
  eventTaker,
  minPriority,
  type TakeEvent,
  type TelemetryTransport,
  type TelemetryTransportMeta,
  type TelemetryTransportStats,
} from './transport.ts'

/** A transport, and how many of its events may be pending. */
export type TransportEntry = TelemetryConfig['transports'][number]

/** The part of each limit from which on events below `warn` are dropped. */
const SHED_FROM = 0.8

/** The maximum number of concurrent calls of the transport's `flush`. Further callers share the next call. */
const MAX_FLUSHES = 8

/** An event that waits for `init`, and the async context in which it was emitted, which contains the active span. */
interface Waiting {
  readonly envelope: TelemetryEnvelope
  readonly counted: CountedEvent
  readonly context: AsyncContext
  readonly emittedAtMs: number
}

/** Passes events to one transport, limits the number and the bytes of pending events, and keeps the delivery statistics. */
export class TransportChannel {
  readonly #type: string
  readonly #transport: TelemetryTransport
  /** The function that is called instead of `handle`, and the `handle` that it replaces. */
  readonly #take: TakeEvent | undefined
  readonly #handle: TelemetryTransport['handle']
  /** The lowest priority of the events that the transport receives. */
  readonly #minPriority: number
  readonly #maxPending: number
  readonly #maxPendingBytes: number
  readonly #shedFrom: number
  readonly #shedFromBytes: number
  readonly #reporter: Reporter
  readonly #inOrder: (deliver: () => void) => void

  #state: 'starting' | 'ready' | 'disabled' | 'closed' = 'ready'
  #waiting: Waiting[] = []

  #accepted = 0
  #delivered = 0
  #skipped = 0
  #failed = 0
  #dropped = 0
  #lastError: KitTelemetryError | undefined

  /** The pending events. */
  readonly #work = new PendingWork()
  #pendingBytes = 0
  /** The number of calls of the transport's `flush` that have not settled. */
  #flushing = 0
  /** The call that starts when one of them ends, or after `init`. */
  #nextFlush: TransportCall | undefined
  #isCallingTransport = false

  constructor(entry: TransportEntry, reporter: Reporter, inOrder: (deliver: () => void) => void) {
    this.#type = entry.type
    this.#transport = entry.transport
    this.#handle = entry.transport.handle
    const transport: TelemetryTransport & Partial<EventTaker> & { readonly [minPriority]?: number } =
      entry.transport
    this.#minPriority = Math.max(LEVEL_PRIORITY[entry.minLevel ?? 'debug'], transport[minPriority] ?? 0)
    this.#take = transport[eventTaker]?.(this.#handle)
    this.#maxPending = entry.maxPending
    this.#maxPendingBytes = entry.maxPendingBytes
    this.#shedFrom = entry.maxPending * SHED_FROM
    this.#shedFromBytes = entry.maxPendingBytes * SHED_FROM
    this.#reporter = reporter
    this.#inOrder = inOrder
  }

  /** Runs `init`. Events wait until its promise has settled. */
  start(meta: TelemetryTransportMeta): void {
    try {
      const initialized: unknown = this.#transport.init?.(meta)
      if (!isPromiseLike(initialized)) return
      this.#state = 'starting'
      void this.#initialize(initialized)
    } catch (cause) {
      this.#disable(cause)
    }
  }

  async #initialize(initialized: PromiseLike<unknown>): Promise<void> {
    const failure = await failureOf(initialized)
    if (failure === undefined) this.#ready()
    else this.#disable(failure.cause)
    this.#startFlush()
  }

  /**
   * Passes an envelope to the transport, unless too many events or bytes are pending.
   * @param bytes its size in memory.
   * @param emittedAtMs when the event was emitted, if that is not now.
   */
  offer(
    envelope: TelemetryEnvelope,
    bytes: number,
    session: PendingWork | undefined,
    emittedAtMs?: number,
  ): void {
    const pending = this.pending
    const pendingBytes = this.#pendingBytes
    this.#accepted++
    if (this.#state === 'disabled') {
      this.#failed++
    } else if (LEVEL_PRIORITY[envelope.level] < this.#minPriority) {
      this.#delivered++
      this.#skipped++
    } else if (
      (pending >= this.#shedFrom || pendingBytes + bytes > this.#shedFromBytes) &&
      (pending >= this.#maxPending ||
        pendingBytes + bytes > this.#maxPendingBytes ||
        LEVEL_PRIORITY[envelope.level] < LEVEL_PRIORITY.warn)
    ) {
      this.#drop()
    } else if (this.#state === 'ready') {
      this.#deliver(envelope, bytes, session, emittedAtMs)
    } else {
      const context = new AsyncContext('KitTelemetryEvent')
      const counted = this.#count(session, bytes)
      this.#waiting.push({ envelope, counted, context, emittedAtMs: emittedAtMs ?? Date.now() })
    }
  }

  /** Counts an event as failed that could not be passed to the transport. */
  failUnsent(error: KitTelemetryError): void {
    this.#accepted++
    this.#failed++
    if (this.#state !== 'disabled') this.#lastError = error
  }

  /** `true` while the transport's `flush` or `shutdown` is called. */
  get isCallingTransport(): boolean {
    return this.#isCallingTransport
  }

  /**
   * Resolves when all accepted events have settled, and when a call of the transport's `flush` that starts now or later has
   * settled, or at the deadline. Resolves at once within such a call, because that cannot wait for itself.
   */
  async flush(deadline: AbortSignal): Promise<void> {
    if (!this.#isCallingTransport) await this.#flushAll(deadline)
  }

  async #flushAll(deadline: AbortSignal): Promise<void> {
    await Promise.all([this.#flushTransport(deadline), this.#work.settled(deadline)])
  }

  /** Flushes and shuts down the transport, and waits until the deadline at most. Never rejects. */
  async close(deadline: AbortSignal): Promise<void> {
    await this.#flushAll(deadline)
    if (this.#state === 'ready') {
      const call = new TransportCall()
      void this.#call('shutdown', deadline).then(() => call.end())
      await call.ended(deadline)
    } else if (this.#state === 'starting') {
      this.#state = 'closed'
    }
    if (this.#dropped > 0) this.#warnOfDrops()
    const pending = this.pending
    if (pending > 0) {
      this.#reporter.warning(
        `transport ${this.#label} was shut down with ${counted(pending, 'event')} pending, whose outcome was not known at the deadline`,
        undefined,
        `pending ${this.#type}`,
      )
    }
  }

  stats(): TelemetryTransportStats {
    return {
      type: this.#type,
      accepted: this.#accepted,
      delivered: this.#delivered,
      ...(this.#skipped > 0 && { skipped: this.#skipped }),
      failed: this.#failed,
      dropped: this.#dropped,
      pending: this.pending,
      ...(this.#lastError === undefined ? {} : { lastError: this.#lastError }),
    }
  }

  /** The number of events that have not settled. */
  get pending(): number {
    return this.#accepted - this.#delivered - this.#failed - this.#dropped
  }

  /** The bytes of the events that have not settled. */
  get pendingBytes(): number {
    return this.#pendingBytes
  }

  get #label(): string {
    return JSON.stringify(this.#type)
  }

  /**
   * Counts an event that has settled.
   * @param event the event, if it was pending.
   * @param failure why it failed, if it did.
   */
  settle(event: CountedEvent | undefined, failure?: { readonly cause: unknown }): void {
    if (failure === undefined) this.#delivered++
    else this.#fail(failure.cause)
    if (event !== undefined) this.#release(event)
  }

  /**
   * Passes an event to the transport. It is counted as pending unless its outcome is known at once.
   * @param waited the event if it is already counted.
   */
  #deliver(
    envelope: TelemetryEnvelope,
    bytes: number,
    session: PendingWork | undefined,
    emittedAtMs: number | undefined,
    waited?: CountedEvent,
  ): void {
    let counted = waited
    try {
      if (this.#take !== undefined && this.#transport.handle === this.#handle) {
        counted ??= this.#count(session, bytes)
        this.#take(envelope, emittedAtMs, counted, bytes)
        return
      }
      const handled: unknown =
        emittedAtMs === undefined
          ? this.#transport.handle(envelope)
          : this.#transport.handle(envelope, emittedAtMs)
      if (isPromiseLike(handled)) {
        counted ??= this.#count(session, bytes)
        void this.#await(handled, counted)
        return
      }
    } catch (cause) {
      this.settle(counted, { cause })
      return
    }
    this.settle(counted)
  }

  #count(session: PendingWork | undefined, bytes: number): CountedEvent {
    this.#pendingBytes += bytes
    return new CountedEvent(this, this.#work, session, bytes)
  }

  #release(event: CountedEvent): void {
    this.#pendingBytes -= event.bytes
    event.release()
  }

  async #await(handled: PromiseLike<unknown>, counted: CountedEvent): Promise<void> {
    this.settle(counted, await failureOf(handled))
  }

  /** Resolves when a call of the transport's `flush` that starts now or later has settled, or at the deadline. */
  async #flushTransport(deadline: AbortSignal): Promise<void> {
    if (this.#state === 'disabled' || this.#transport.flush === undefined) return
    this.#nextFlush ??= new TransportCall()
    const ended = this.#nextFlush.ended(deadline)
    if (this.#state !== 'starting' && !this.#isCallingTransport && this.#flushing < MAX_FLUSHES)
      this.#startFlush()
    await ended
  }

  /** Starts the next call if there are callers for one. */
  #startFlush(): void {
    const call = this.#nextFlush
    if (call === undefined) return
    this.#nextFlush = undefined
    this.#flushing++
    const called = this.#state === 'closed' ? Promise.resolve() : this.#call('flush', call.deadline)
    void called.then(() => {
      this.#flushing--
      call.end()
      this.#startFlush()
    })
  }

  /** Delivers the events that waited for `init`, in order, before any new one. */
  #ready(): void {
    if (this.#state === 'closed') {
      this.#waiting = []
      void this.#call('shutdown')
      return
    }
    this.#inOrder(() => {
      const waiting = this.#waiting
      this.#waiting = []
      this.#state = 'ready'
      for (const { envelope, counted, context, emittedAtMs } of waiting) {
        context.runInAsyncScope(() => this.#deliver(envelope, counted.bytes, undefined, emittedAtMs, counted))
      }
    })
  }

  #disable(cause: unknown): void {
    this.#lastError = transportError(
      this.#type,
      'TELEMETRY_TRANSPORT_INIT_FAILED',
      'failed to initialize and has been disabled',
      cause,
    )
    this.#state = 'disabled'
    const waiting = this.#waiting
    this.#waiting = []
    this.#failed += waiting.length
    this.#reporter.error(this.#lastError, this)
    for (const { counted } of waiting) this.#release(counted)
  }

  #fail(cause: unknown): void {
    this.#failed++
    this.#lastError = transportError(
      this.#type,
      'TELEMETRY_TRANSPORT_FAILED',
      'failed to deliver an event',
      cause,
    )
    this.#reporter.repeatedError(this, this.#lastError)
  }

  #drop(): void {
    this.#dropped++
    if (this.#reporter.isDue(this.#transport, LOSS_REPEAT_MS)) this.#warnOfDrops()
  }

  #warnOfDrops(): void {
    this.#reporter.warning(
      `transport ${this.#label} has dropped ${counted(this.#dropped, 'event')} because too many events are pending (maxPending ${this.#maxPending}, maxPendingBytes ${this.#maxPendingBytes})`,
      undefined,
      `dropped ${this.#type}`,
    )
  }

  /** Calls `flush` or `shutdown`, unless the transport is disabled or does not have the method. Never rejects. */
  async #call(method: 'flush' | 'shutdown', deadline?: AbortSignal): Promise<void> {
    if (this.#state === 'disabled') return
    const call = async () => await this.#transport[method]?.(deadline)
    this.#isCallingTransport = true
    const called = call()
    this.#isCallingTransport = false
    const failure = await failureOf(called)
    if (failure === undefined) return
    this.#lastError = transportError(
      this.#type,
      'TELEMETRY_TRANSPORT_FAILED',
      `failed in ${method}()`,
      failure.cause,
    )
    this.#reporter.repeatedError(this, this.#lastError)
  }
}

/** Waits for a promise, or for a thenable whose `then` may throw or call back twice. Never rejects. */
async function failureOf(promise: PromiseLike<unknown>): Promise<{ readonly cause: unknown } | undefined> {
  try {
    await promise
    return undefined
  } catch (cause) {
    return { cause }
  }
}
