import { quotedName } from '../../base/options/describe-value.ts'
import { AsyncContext } from '../../base/runtime.ts'
import type { TelemetryEnvelope } from '../envelope/envelope.ts'
import type { KitTelemetryError } from '../errors.ts'
import { errorWithHelp } from '../options.ts'
import { TransportChannel, type TransportEntry } from './channel.ts'
import { type PendingWork, withDeadline } from './pending-work.ts'
import type { Reporter } from './reporter.ts'
import type { TelemetryTransportMeta, TelemetryTransportStats } from './transport.ts'

/** The maximum depth of events that a transport emits while it handles an event. */
const MAX_NESTING = 8

/** The transports that receive an event: those of `addTransport`, that of `withAudit`, or all of them. */
export type Route = 'transports' | 'audit' | 'all'

/** The transport of `withAudit`. */
export interface AuditChannel
  extends Pick<TransportChannel, 'flush' | 'close' | 'isCallingTransport' | 'stats'> {
  start(meta: TelemetryTransportMeta, inOrder: (deliver: () => void) => void): void
  offer(envelope: TelemetryEnvelope, bytes: number, session: PendingWork | undefined): void
  /** Counts an event that is not offered although it is audited. */
  lose(): void
}

/** An event that a transport emits while it handles another. */
interface Nested {
  readonly nesting: number
  readonly offer: () => void
}

/** The deliveries that are not closed. They are not kept in memory. */
const open = new Set<WeakRef<Delivery>>()
const forgotten = new FinalizationRegistry<WeakRef<Delivery>>((delivery) => open.delete(delivery))

function reportAllPending(): void {
  for (const delivery of open) delivery.deref()?.reportPending()
}

/** Passes envelopes to transports, in the order of the `emit` calls. A transport cannot delay or break another. */
export class Delivery {
  readonly #channels: readonly TransportChannel[]
  readonly #audit: AuditChannel | undefined
  /** The channels, and that of the audit transport. */
  readonly #all: readonly Pick<AuditChannel, 'flush' | 'close' | 'isCallingTransport' | 'stats'>[]
  readonly #reporter: Reporter
  readonly #nested: Nested[] = []
  readonly #reference = new WeakRef(this)
  #delivering = false
  #nesting = 0

  constructor(
    entries: readonly TransportEntry[],
    meta: TelemetryTransportMeta,
    reporter: Reporter,
    audit?: AuditChannel,
  ) {
    this.#reporter = reporter
    this.#audit = audit
    const inOrder = (deliver: () => void): void => this.#inOrder(deliver)
    this.#channels = entries.map((entry) => new TransportChannel(entry, reporter, inOrder))
    this.#all = audit === undefined ? this.#channels : [...this.#channels, audit]
    for (const channel of this.#channels) channel.start(meta)
    audit?.start(meta, inOrder)
    open.add(this.#reference)
    forgotten.register(this, this.#reference)
    const { process } = globalThis as { process?: Partial<NodeJS.Process> }
    process?.off?.('exit', reportAllPending)
    process?.once?.('exit', reportAllPending)
  }

  /**
   * Passes an envelope to every transport of its route.
   * @param bytes its size in memory.
   * @param pending counts the event once for each transport until it is delivered or has failed.
   * @param emittedAtMs when the event was emitted, if that is not now.
   */
  send(
    envelope: TelemetryEnvelope,
    bytes: number,
    pending: PendingWork | undefined,
    emittedAtMs?: number,
    route: Route = 'transports',
  ): void {
    const offer = (): void => {
      if (route !== 'audit')
        for (const channel of this.#channels) channel.offer(envelope, bytes, pending, emittedAtMs)
      if (route !== 'transports') this.#audit?.offer(envelope, bytes, pending)
    }
    if (this.#delivering) this.#sendLater(envelope.name, route, offer)
    else this.#inOrder(offer)
  }

  /** Counts an event as failed for every transport, because it could not be passed to them. */
  fail(error: KitTelemetryError): void {
    for (const channel of this.#channels) channel.failUnsent(error)
  }

  /** Resolves when all accepted events are delivered or have failed, but after `timeoutMs` at the latest. */
  flush(timeoutMs: number): Promise<void> {
    return withDeadline(timeoutMs, (deadline) =>
      Promise.all(this.#all.map((channel) => channel.flush(deadline))),
    )
  }

  /**
   * Flushes and closes every transport within one timeout. Events that have not settled by then stay pending.
   * @param closed is called when all transports are closed, or after the timeout.
   */
  close(timeoutMs: number, closed: () => void): Promise<void> {
    return withDeadline(timeoutMs, (deadline) =>
      Promise.all(this.#all.map((channel) => channel.close(deadline))).finally(() => {
        open.delete(this.#reference)
        closed()
      }),
    )
  }

  /** `true` while a `flush` or `shutdown` of a transport is called. */
  get isCallingTransport(): boolean {
    return this.#all.some((channel) => channel.isCallingTransport)
  }

  stats(): TelemetryTransportStats[] {
    return this.#channels.map((channel) => channel.stats())
  }

  /** Reports the pending events at the end of the process. */
  reportPending(): void {
    const pending = this.#all.map((channel) => channel.stats()).filter(({ pending }) => pending > 0)
    if (pending.length === 0) return
    const which = pending.map(({ type, pending }) => `${pending} of transport ${JSON.stringify(type)}`)
    this.#reporter.warning(
      `the process ended with pending events, which were not delivered: ${which.join(', ')}. Await shutdown() of the manager before the end`,
      undefined,
      'exit',
    )
  }

  /** Runs `offer`, which passes events to a transport, and then sends the events that the transport emitted. */
  #inOrder(offer: () => void): void {
    let next: Nested | undefined = { nesting: 0, offer }
    while (next !== undefined) {
      this.#delivering = true
      this.#nesting = next.nesting
      try {
        next.offer()
      } finally {
        this.#delivering = false
      }
      next = this.#nested.shift()
    }
  }

  /** Queues an event that a transport emits while it handles another, until every transport has received the other. */
  #sendLater(name: string, route: Route, offer: () => void): void {
    const nesting = this.#nesting + 1
    if (nesting > MAX_NESTING) {
      const error = errorWithHelp(
        'TELEMETRY_EMIT_FAILED',
        `event ${quotedName(name)} was dropped because a transport emits an event for every event that it receives`,
      )
      if (route !== 'transports') this.#audit?.lose()
      if (route !== 'audit') this.fail(error)
      this.#reporter.error(error)
      return
    }
    const context = new AsyncContext('KitTelemetryEvent')
    this.#nested.push({ nesting, offer: () => context.runInAsyncScope(offer) })
  }
}
