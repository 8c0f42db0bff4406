import { AsyncResource } from 'node:async_hooks'
import { types } from 'node:util'
import type { TelemetryTransportEntry, TelemetryTransportStats } from './delivery.ts'
import type { TelemetryEnvelope } from './envelope.ts'
import { KitTelemetryError } from './errors.ts'
import { LEVEL_PRIORITY } from './levels.ts'
import type { TelemetryStats } from './manager.ts'
import type { Reporter } from './reporter.ts'
import { type Deadline, Tally } from './tally.ts'
import type { TelemetryTransport, TelemetryTransportMeta } from './transport.ts'

/** From this part of the bound on, events below `warn` are shed. */
const SHED_FROM = 0.8

/** At most one warning of dropped events in this time. */
const DROP_WARNING_MS = 10_000

/** An event that waits for `init`, and the async context it was emitted in, so that its active span is not lost. */
interface Waiting {
  readonly envelope: TelemetryEnvelope
  readonly tally: Tally | undefined
  readonly epoch: Tally
  readonly context: AsyncResource
  readonly emittedAtMs: number
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
  #started: Promise<void> | undefined
  #waiting: Waiting[] = []

  #accepted = 0
  #delivered = 0
  #failed = 0
  #dropped = 0
  #lastError: KitTelemetryError | undefined
  #lastDropWarning = Number.NEGATIVE_INFINITY

  /** Events under way since the last flush; those before it are in `#earlier` until they have settled. */
  #epoch = new Tally()
  readonly #earlier = new Set<Tally>()

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
      this.#transport.statsFrom?.(stats)
      const initialised: unknown = this.#transport.init?.(meta)
      if (!isThenable(initialised)) return
      this.#state = 'starting'
      this.#started = asPromise(initialised).then(
        () => this.#ready(),
        (cause) => this.#disable(cause),
      )
    } catch (cause) {
      this.#disable(cause)
    }
  }

  /** Takes an envelope on, unless too much is outstanding. */
  offer(envelope: TelemetryEnvelope, tally: Tally | undefined): void {
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
      this.#hand(envelope, tally)
    } else {
      const epoch = this.#epoch
      epoch.add()
      tally?.add()
      const context = new AsyncResource('KitTelemetryEvent')
      this.#waiting.push({ envelope, tally, epoch, context, emittedAtMs: Date.now() })
    }
  }

  /** Resolves when everything accepted so far has settled and the transport's own `flush` has. Never rejects. */
  async flush(): Promise<void> {
    const epochs = this.#closeEpoch()
    const flushed =
      this.#state === 'starting' ? this.#started?.then(() => this.#call('flush')) : this.#call('flush')
    await Promise.all([flushed, ...Array.from(epochs, (epoch) => epoch.idle())])
  }

  /** Flushes and shuts the transport down, waiting no longer than `deadline`. Never rejects. */
  async close(deadline: Deadline): Promise<void> {
    await deadline.wait(this.flush())
    if (this.#state === 'ready') await deadline.wait(this.#call('shutdown'))
    else if (this.#state === 'starting') this.#state = 'closed'
    if (this.#dropped > 0) this.#warnOfDrops()
    const pending = this.#pending
    if (pending > 0) {
      this.#reporter.warning(
        `transport ${this.#label} was shut down with ${counted(pending)} pending: their delivery was not known at the deadline`,
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

  #hand(envelope: TelemetryEnvelope, tally: Tally | undefined): void {
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
    const epoch = this.#epoch
    epoch.add()
    tally?.add()
    this.#await(handled, epoch, tally)
  }

  #await(handled: PromiseLike<unknown>, epoch: Tally, tally: Tally | undefined): void {
    asPromise(handled).then(
      () => {
        this.#delivered++
        this.#settled(epoch, tally)
      },
      (cause) => {
        this.#fail(cause)
        this.#settled(epoch, tally)
      },
    )
  }

  #settled(epoch: Tally, tally: Tally | undefined): void {
    epoch.done()
    if (epoch.count === 0) this.#earlier.delete(epoch)
    tally?.done()
  }

  #closeEpoch(): Iterable<Tally> {
    if (this.#epoch.count > 0) {
      this.#earlier.add(this.#epoch)
      this.#epoch = new Tally()
    }
    return this.#earlier
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
      for (const { envelope, tally, epoch, context, emittedAtMs } of waiting) {
        try {
          const handled: unknown = context.runInAsyncScope(() =>
            this.#transport.handle(envelope, emittedAtMs),
          )
          if (isThenable(handled)) {
            this.#await(handled, epoch, tally)
            continue
          }
          this.#delivered++
        } catch (cause) {
          this.#fail(cause)
        }
        this.#settled(epoch, tally)
      }
    })
  }

  #disable(cause: unknown): void {
    this.#lastError = this.#wrap('TELEMETRY_TRANSPORT_INIT_FAILED', 'could not start, and is disabled', cause)
    this.#state = 'disabled'
    const waiting = this.#waiting
    this.#waiting = []
    this.#failed += waiting.length
    this.#reporter.error(this.#lastError)
    for (const { epoch, tally } of waiting) this.#settled(epoch, tally)
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
    )
  }

  /** Calls `flush` or `shutdown`, if there is one and the transport is up. Never rejects. */
  async #call(method: 'flush' | 'shutdown'): Promise<void> {
    if (this.#state === 'disabled') return
    try {
      await this.#transport[method]?.()
    } catch (cause) {
      this.#lastError = this.#wrap('TELEMETRY_TRANSPORT_FAILED', `failed in ${method}()`, cause)
      this.#reporter.repeatedError(this, this.#lastError)
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
