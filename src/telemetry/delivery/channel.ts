import { AsyncResource } from 'node:async_hooks'
import { types } from 'node:util'
import type { TelemetryEnvelope } from '../envelope/envelope.ts'
import { KitTelemetryError } from '../errors.ts'
import { LEVEL_PRIORITY } from '../levels.ts'
import { type Deadline, settlingOf } from './deadline.ts'
import { type Generation, PendingWork } from './pending-work.ts'
import type { Reporter } from './reporter.ts'
import {
  setStatsSource,
  type TelemetryStats,
  type TelemetryStatsReader,
  type TelemetryTransport,
  type TelemetryTransportEntry,
  type TelemetryTransportMeta,
  type TelemetryTransportStats,
} from './transport.ts'

/** From this part of the bound on, events below `warn` are shed. */
const SHED_FROM = 0.8

/** At most one warning of dropped events in this time. */
const DROP_WARNING_MS = 10_000

/** How many calls of a transport's `flush` may be under way. Further ones share the next call. */
const MAX_FLUSHES = 8

/** An event that waits for `init`, and the async context it was emitted in, so that its active span is not lost. */
interface Waiting {
  readonly envelope: TelemetryEnvelope
  readonly counted: Counted
  readonly context: AsyncResource
  readonly emittedAtMs: number
}

/** One call of a transport's `flush`. */
class FlushCall {
  readonly #work = new PendingWork()
  readonly #call = this.#work.add()

  settle(): void {
    this.#work.settle(this.#call)
  }

  /** @returns cancels the call of `done` */
  whenSettled(done: () => void): () => void {
    return this.#work.whenSettled(done)
  }
}

/** Where an event that has not settled is counted. */
interface Counted {
  readonly generation: Generation
  /** The pending events of its session. */
  readonly session: PendingWork | undefined
  readonly sessionGeneration: Generation | undefined
}

/** The way to one transport: its state, its bound and its ledger. */
export class TransportChannel {
  readonly #type: string
  readonly #transport: TelemetryTransport
  readonly #maxPending: number
  readonly #shedFrom: number
  readonly #reporter: Reporter
  readonly #inOrder: (hand: () => void) => void

  #state: 'starting' | 'ready' | 'disabled' | 'closed' = 'ready'
  #waiting: Waiting[] = []

  #accepted = 0
  #delivered = 0
  #failed = 0
  #dropped = 0
  #lastError: KitTelemetryError | undefined
  #lastDropWarning = Number.NEGATIVE_INFINITY

  /** Events under way. */
  readonly #work = new PendingWork()
  /** Calls of the transport's `flush` under way, each counted by itself. */
  #flushes = 0
  /** The call that begins when one of them ends, or when `init` has finished. */
  #nextFlush: FlushCall | undefined
  #isCallingTransport = false

  constructor(entry: TelemetryTransportEntry, reporter: Reporter, inOrder: (hand: () => void) => void) {
    this.#type = entry.type
    this.#transport = entry.transport
    this.#maxPending = entry.maxPending
    this.#shedFrom = entry.maxPending * SHED_FROM
    this.#reporter = reporter
    this.#inOrder = inOrder
  }

  /** Runs `init`. Until a promise of it has settled, events wait. */
  start(meta: TelemetryTransportMeta, stats: () => TelemetryStats): void {
    try {
      const reader: TelemetryTransport & Partial<TelemetryStatsReader> = this.#transport
      reader[setStatsSource]?.(stats)
      const initialised: unknown = this.#transport.init?.(meta)
      if (!isThenable(initialised)) return
      this.#state = 'starting'
      void asPromise(initialised)
        .then(
          () => this.#ready(),
          (cause) => this.#disable(cause),
        )
        .then(() => this.#beginNextFlush())
    } catch (cause) {
      this.#disable(cause)
    }
  }

  /** Takes an envelope on, unless too much is outstanding. */
  offer(envelope: TelemetryEnvelope, session: PendingWork | undefined): void {
    const pending = this.#pending
    this.#accepted++
    if (this.#state === 'disabled') {
      this.#failed++
    } else if (
      pending >= this.#shedFrom &&
      (pending >= this.#maxPending || LEVEL_PRIORITY[envelope.level] < LEVEL_PRIORITY.warn)
    ) {
      this.#drop()
    } else if (this.#state === 'ready') {
      this.#hand(envelope, session)
    } else {
      const context = new AsyncResource('KitTelemetryEvent')
      this.#waiting.push({ envelope, counted: this.#count(session), context, emittedAtMs: Date.now() })
    }
  }

  /** Whether the transport's `flush` or `shutdown` is being called at this moment. */
  get isCallingTransport(): boolean {
    return this.#isCallingTransport
  }

  /**
   * Calls `done` when everything accepted so far has settled, and a call of the transport's own `flush` that begins now or
   * later has too. From within such a call it is done at once, since that cannot wait for itself.
   * @returns cancels the call of `done`
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

  /** Flushes and shuts the transport down, waiting no longer than `deadline`. Never rejects. */
  async close(deadline: Deadline): Promise<void> {
    await deadline.wait((done) => this.#flushAll(done))
    if (this.#state === 'ready') {
      const signal = deadline.signal()
      await deadline.wait(settlingOf(this.#call('shutdown', signal)))
    } else if (this.#state === 'starting') {
      this.#state = 'closed'
    }
    if (this.#dropped > 0) this.#warnOfDrops()
    const pending = this.#pending
    if (pending > 0) {
      this.#reporter.warning(
        `transport ${this.#label} was shut down with ${counted(pending)} pending: their delivery was not known at the deadline`,
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
      pending: this.#pending,
      ...(this.#lastError === undefined ? {} : { lastError: this.#lastError }),
    }
  }

  get #pending(): number {
    return this.#accepted - this.#delivered - this.#failed - this.#dropped
  }

  get #label(): string {
    return JSON.stringify(this.#type)
  }

  #hand(envelope: TelemetryEnvelope, session: PendingWork | undefined): void {
    let handled: unknown
    try {
      handled = this.#transport.handle(envelope)
      if (!isThenable(handled)) {
        this.#delivered++
        return
      }
    } catch (cause) {
      this.#fail(cause)
      return
    }
    this.#await(handled, this.#count(session))
  }

  #count(session: PendingWork | undefined): Counted {
    return { generation: this.#work.add(), session, sessionGeneration: session?.add() }
  }

  #await(handled: PromiseLike<unknown>, counted: Counted): void {
    asPromise(handled).then(
      () => {
        this.#delivered++
        this.#settled(counted)
      },
      (cause) => {
        this.#fail(cause)
        this.#settled(counted)
      },
    )
  }

  #settled({ generation, session, sessionGeneration }: Counted): void {
    this.#work.settle(generation)
    if (sessionGeneration !== undefined) session?.settle(sessionGeneration)
  }

  /** Calls `done` when a call of the transport's `flush` that begins now or later has settled. @returns cancels that */
  #flushTransport(done: () => void): () => void {
    if (this.#state === 'disabled' || this.#transport.flush === undefined) {
      done()
      return () => {}
    }
    const mayBegin = this.#state !== 'starting' && this.#flushes < MAX_FLUSHES && !this.#isCallingTransport
    if (!mayBegin) {
      this.#nextFlush ??= new FlushCall()
      return this.#nextFlush.whenSettled(done)
    }
    const flush = new FlushCall()
    this.#beginFlush(flush)
    return flush.whenSettled(done)
  }

  #beginFlush(flush: FlushCall): void {
    this.#flushes++
    void this.#call('flush').then(() => {
      this.#flushes--
      flush.settle()
      this.#beginNextFlush()
    })
  }

  #beginNextFlush(): void {
    const next = this.#nextFlush
    this.#nextFlush = undefined
    if (next === undefined) return
    if (this.#state === 'closed') next.settle()
    else this.#beginFlush(next)
  }

  /** `init` has finished: what waited for it goes out, in order, before anything new. */
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
        try {
          const handled: unknown = context.runInAsyncScope(() =>
            this.#transport.handle(envelope, emittedAtMs),
          )
          if (isThenable(handled)) {
            this.#await(handled, counted)
            continue
          }
          this.#delivered++
        } catch (cause) {
          this.#fail(cause)
        }
        this.#settled(counted)
      }
    })
  }

  #disable(cause: unknown): void {
    this.#lastError = this.#wrap('TELEMETRY_TRANSPORT_INIT_FAILED', 'could not start, and is disabled', cause)
    this.#state = 'disabled'
    const waiting = this.#waiting
    this.#waiting = []
    this.#failed += waiting.length
    this.#reporter.error(this.#lastError, this)
    for (const { counted } of waiting) this.#settled(counted)
  }

  #fail(cause: unknown): void {
    this.#failed++
    this.#lastError = this.#wrap('TELEMETRY_TRANSPORT_FAILED', 'could not deliver an event', cause)
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
      `transport ${this.#label} has dropped ${counted(this.#dropped)}: too many of its events are outstanding (maxPending ${this.#maxPending})`,
      undefined,
      `dropped ${this.#type}`,
    )
  }

  /** Calls `flush` or `shutdown`, if there is one and the transport is up. Never rejects. */
  async #call(method: 'flush' | 'shutdown', deadline?: AbortSignal): Promise<void> {
    if (this.#state === 'disabled') return
    try {
      await this.#callNow(method, deadline)
    } catch (cause) {
      this.#lastError = this.#wrap('TELEMETRY_TRANSPORT_FAILED', `failed in ${method}()`, cause)
      this.#reporter.repeatedError(this, this.#lastError)
    }
  }

  #callNow(method: 'flush' | 'shutdown', deadline: AbortSignal | undefined): Promise<void> | void {
    this.#isCallingTransport = true
    try {
      return method === 'flush' ? this.#transport.flush?.() : this.#transport.shutdown?.(deadline)
    } finally {
      this.#isCallingTransport = false
    }
  }

  /** The transport's own error of that code, or one that names the kind of `cause` but not its text, which may quote an event. */
  #wrap(
    code: 'TELEMETRY_TRANSPORT_FAILED' | 'TELEMETRY_TRANSPORT_INIT_FAILED',
    what: string,
    cause: unknown,
  ): KitTelemetryError {
    if (KitTelemetryError.is(cause) && cause.code === code) {
      const named = `transport ${this.#label}`
      return cause.message.includes(named)
        ? cause
        : new KitTelemetryError(code, `${named}: ${cause.message}`, {
            cause,
            ...(cause.details !== undefined && { details: cause.details }),
          })
    }
    return new KitTelemetryError(code, `transport ${this.#label} ${what}${kindOf(cause)}`, { cause })
  }
}

function counted(events: number): string {
  return events === 1 ? '1 event' : `${events} events`
}

function isThenable(value: unknown): value is PromiseLike<unknown> {
  if (value === null || (typeof value !== 'object' && typeof value !== 'function')) return false
  return value instanceof Promise || typeof (value as { then?: unknown }).then === 'function'
}

/** Adopts a thenable. What its `then` throws, or does twice, stays within the promise. */
function asPromise(value: PromiseLike<unknown>): Promise<unknown> {
  return types.isPromise(value) && value.then === Promise.prototype.then
    ? value
    : new Promise((resolve) => resolve(value))
}

/** ` (TypeError)`, ` (Error ECONNREFUSED)`: what is safe to tell of a foreign error. */
function kindOf(cause: unknown): string {
  try {
    const { name, code } = cause as { name?: unknown; code?: unknown }
    const words = [name, code].filter((word) => typeof word === 'string' && /^[\w.-]{1,64}$/.test(word))
    return words.length === 0 ? '' : ` (${words.join(' ')})`
  } catch {
    return ''
  }
}
