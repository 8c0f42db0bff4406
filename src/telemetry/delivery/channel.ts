import { types } from '../../built-in-kinds.ts'
import { counted } from '../../options/counted.ts'
import { isPromiseLike } from '../../options/value-kinds.ts'
import { AsyncContext } from '../../runtime.ts'
import type { TelemetryEnvelope } from '../envelope/envelope.ts'
import type { KitTelemetryError } from '../errors.ts'
import { LEVEL_PRIORITY } from '../levels.ts'
import type { Deadline } from './deadline.ts'
import { FlushCalls } from './flush-calls.ts'
import { type Generation, PendingWork } from './pending-work.ts'
import type { Reporter } from './reporter.ts'
import {
  type EventOutcome,
  type EventTaker,
  eventTaker,
  setStatsSource,
  type TakeEvent,
  type TelemetryStats,
  type TelemetryStatsReader,
  type TelemetryTransport,
  type TelemetryTransportEntry,
  type TelemetryTransportMeta,
  type TelemetryTransportStats,
} from './transport.ts'
import { transportError } from './transport-error.ts'

/** The part of each limit from which on events below `warn` are dropped. */
const SHED_FROM = 0.8

/** The minimum time between two warnings about dropped events, in milliseconds. */
const DROP_WARNING_MS = 10_000

/** An event that waits for `init`, and the async context in which it was emitted, which contains the active span. */
interface Waiting {
  readonly envelope: TelemetryEnvelope
  readonly counted: Counted
  readonly context: AsyncContext
  readonly emittedAtMs: number
}

/** An event that has not settled. */
class Counted implements EventOutcome {
  readonly #channel: TransportChannel
  readonly #work: PendingWork
  readonly #generation: Generation
  /** The pending events of its session. */
  readonly #session: PendingWork | undefined
  readonly #sessionGeneration: Generation | undefined
  /** Its size in memory. */
  readonly bytes: number

  constructor(channel: TransportChannel, work: PendingWork, session: PendingWork | undefined, bytes: number) {
    this.bytes = bytes
    this.#channel = channel
    this.#work = work
    this.#generation = work.add()
    this.#session = session
    this.#sessionGeneration = session?.add()
  }

  /** Ends its counting as pending. */
  release(): void {
    this.#work.settle(this.#generation)
    if (this.#sessionGeneration !== undefined) this.#session?.settle(this.#sessionGeneration)
  }

  delivered(): void {
    this.#channel.settle(this)
  }

  /** The failure is reported later, because loggers may emit events, and a transport may be in the middle of its work. */
  failed(cause: unknown): void {
    queueMicrotask(() => this.#channel.settle(this, { cause }))
  }
}

/** Passes events to one transport, limits the number and the bytes of pending events, and keeps the delivery statistics. */
export class TransportChannel {
  readonly #type: string
  readonly #transport: TelemetryTransport
  /** The function that is called instead of `handle`, and the `handle` that it replaces. */
  readonly #take: TakeEvent | undefined
  readonly #handle: TelemetryTransport['handle']
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
  #failed = 0
  #dropped = 0
  #lastError: KitTelemetryError | undefined
  #lastDropWarning = Number.NEGATIVE_INFINITY

  /** The pending events. */
  readonly #work = new PendingWork()
  #pendingBytes = 0
  readonly #flushes = new FlushCalls((deadline) => this.#call('flush', deadline))
  #isCallingTransport = false

  constructor(entry: TelemetryTransportEntry, reporter: Reporter, inOrder: (deliver: () => void) => void) {
    this.#type = entry.type
    this.#transport = entry.transport
    this.#handle = entry.transport.handle
    const transport: TelemetryTransport & Partial<EventTaker> = entry.transport
    this.#take = transport[eventTaker]?.(this.#handle)
    this.#maxPending = entry.maxPending
    this.#maxPendingBytes = entry.maxPendingBytes
    this.#shedFrom = entry.maxPending * SHED_FROM
    this.#shedFromBytes = entry.maxPendingBytes * SHED_FROM
    this.#reporter = reporter
    this.#inOrder = inOrder
  }

  /** Runs `init`. Events wait until its promise has settled. */
  start(meta: TelemetryTransportMeta, stats: () => TelemetryStats): void {
    try {
      const reader: TelemetryTransport & Partial<TelemetryStatsReader> = this.#transport
      reader[setStatsSource]?.(stats)
      const initialized: unknown = this.#transport.init?.(meta)
      if (!isPromiseLike(initialized)) return
      this.#state = 'starting'
      void asPromise(initialized)
        .then(
          () => this.#ready(),
          (cause) => this.#disable(cause),
        )
        .then(() => (this.#state === 'closed' ? this.#flushes.skipNext() : this.#flushes.startNext()))
    } catch (cause) {
      this.#disable(cause)
    }
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
   * Calls `done` when all accepted events have settled, and when a call of the transport's `flush` that starts now or later
   * has settled. Calls it at once within such a call, because that cannot wait for itself.
   * @returns a function that cancels the call of `done`.
   */
  flush(done: () => void): () => void {
    if (this.#isCallingTransport) {
      done()
      return () => {}
    }
    return this.#flushAll(done)
  }

  #flushAll(done: () => void): () => void {
    let left = 2
    const one = () => {
      left--
      if (left === 0) done()
    }
    const cancelFlush = this.#flushTransport(one)
    const cancelWork = this.#work.whenSettled(one)
    return () => {
      cancelFlush()
      cancelWork()
    }
  }

  /** Flushes and shuts down the transport, and waits until `deadline` at most. Never rejects. */
  async close(deadline: Deadline): Promise<void> {
    await deadline.wait((done) => this.#flushAll(done))
    if (this.#state === 'ready') {
      const shutdown = this.#call('shutdown', deadline.signal())
      await deadline.wait((done) => {
        void shutdown.then(done)
        return () => {}
      })
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

  /** Counts an event that has settled. @param failure why it failed, if it did. */
  settle(event: Counted, failure?: { readonly cause: unknown }): void {
    if (failure === undefined) this.#delivered++
    else this.#fail(failure.cause)
    this.#release(event)
  }

  #deliver(
    envelope: TelemetryEnvelope,
    bytes: number,
    session: PendingWork | undefined,
    emittedAtMs: number | undefined,
  ): void {
    if (this.#take !== undefined && this.#transport.handle === this.#handle) {
      this.#handOver(this.#take, envelope, emittedAtMs, this.#count(session, bytes))
      return
    }
    let handled: unknown
    try {
      handled =
        emittedAtMs === undefined
          ? this.#transport.handle(envelope)
          : this.#transport.handle(envelope, emittedAtMs)
      if (!isPromiseLike(handled)) {
        this.#delivered++
        return
      }
    } catch (cause) {
      this.#fail(cause)
      return
    }
    this.#await(handled, this.#count(session, bytes))
  }

  /** Delivers an event that is already counted. */
  #deliverCounted(envelope: TelemetryEnvelope, emittedAtMs: number, counted: Counted): void {
    if (this.#take !== undefined && this.#transport.handle === this.#handle) {
      this.#handOver(this.#take, envelope, emittedAtMs, counted)
      return
    }
    try {
      const handled: unknown = this.#transport.handle(envelope, emittedAtMs)
      if (isPromiseLike(handled)) this.#await(handled, counted)
      else this.settle(counted)
    } catch (cause) {
      this.settle(counted, { cause })
    }
  }

  #handOver(
    take: TakeEvent,
    envelope: TelemetryEnvelope,
    emittedAtMs: number | undefined,
    counted: Counted,
  ): void {
    try {
      take(envelope, emittedAtMs, counted, counted.bytes)
    } catch (cause) {
      this.settle(counted, { cause })
    }
  }

  #count(session: PendingWork | undefined, bytes: number): Counted {
    this.#pendingBytes += bytes
    return new Counted(this, this.#work, session, bytes)
  }

  #release(event: Counted): void {
    this.#pendingBytes -= event.bytes
    event.release()
  }

  #await(handled: PromiseLike<unknown>, counted: Counted): void {
    asPromise(handled).then(
      () => this.settle(counted),
      (cause) => this.settle(counted, { cause }),
    )
  }

  /**
   * Calls `done` when a call of the transport's `flush` that starts now or later has settled.
   * @returns a function that cancels the call of `done`.
   */
  #flushTransport(done: () => void): () => void {
    if (this.#state === 'disabled' || this.#transport.flush === undefined) {
      done()
      return () => {}
    }
    return this.#flushes.add(done, this.#state !== 'starting' && !this.#isCallingTransport)
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
        context.runInAsyncScope(() => this.#deliverCounted(envelope, emittedAtMs, counted))
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
    const now = performance.now()
    if (now - this.#lastDropWarning < DROP_WARNING_MS) return
    this.#lastDropWarning = now
    this.#warnOfDrops()
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
    try {
      await this.#callNow(method, deadline)
    } catch (cause) {
      this.#lastError = transportError(
        this.#type,
        'TELEMETRY_TRANSPORT_FAILED',
        `failed in ${method}()`,
        cause,
      )
      this.#reporter.repeatedError(this, this.#lastError)
    }
  }

  #callNow(method: 'flush' | 'shutdown', deadline: AbortSignal | undefined): Promise<void> | void {
    this.#isCallingTransport = true
    try {
      return method === 'flush' ? this.#transport.flush?.(deadline) : this.#transport.shutdown?.(deadline)
    } finally {
      this.#isCallingTransport = false
    }
  }
}

/** Converts a thenable to a promise, which handles a `then` that throws or calls back twice. */
function asPromise(value: PromiseLike<unknown>): Promise<unknown> {
  return types.isPromise(value) && value.then === Promise.prototype.then
    ? value
    : new Promise((resolve) => resolve(value))
}
