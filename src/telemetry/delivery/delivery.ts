import { AsyncResource } from 'node:async_hooks'
import { quotedName } from '../../options/describe-value.ts'
import type { TelemetryEnvelope } from '../envelope/envelope.ts'
import { errorWithHelp } from '../options.ts'
import { TransportChannel } from './channel.ts'
import { settledWithin, workWithin } from './deadline.ts'
import type { PendingWork } from './pending-work.ts'
import type { Reporter } from './reporter.ts'
import type {
  TelemetryStats,
  TelemetryTransportEntry,
  TelemetryTransportMeta,
  TelemetryTransportStats,
} from './transport.ts'

/** The maximum depth of events that a transport emits while it handles an event. */
const MAX_NESTING = 8

interface Nested {
  readonly envelope: TelemetryEnvelope
  readonly pending: PendingWork | undefined
  readonly nesting: number
  readonly context: AsyncResource
  readonly emittedAtMs: number | undefined
}

/** Passes every envelope to every transport, in the order of the `emit` calls. A transport cannot delay or break another. */
export class Delivery {
  readonly #channels: readonly TransportChannel[]
  readonly #reporter: Reporter
  readonly #nested: Nested[] = []
  #delivering = false
  #nesting = 0

  /** @param stats returns the manager's statistics. It can be called once the manager is built. */
  constructor(
    entries: readonly TelemetryTransportEntry[],
    meta: TelemetryTransportMeta,
    stats: () => TelemetryStats,
    reporter: Reporter,
  ) {
    this.#reporter = reporter
    this.#channels = entries.map(
      (entry) => new TransportChannel(entry, reporter, (deliver) => this.#inOrder(deliver)),
    )
    for (const channel of this.#channels) channel.start(meta, stats)
  }

  /**
   * Passes an envelope of an event that was emitted earlier to every transport, in the async context of its `emit` call.
   * @param emittedAtMs when the event was emitted.
   */
  sendHeld(
    {
      envelope,
      context,
      emittedAtMs,
    }: Pick<Nested, 'envelope' | 'context'> & { readonly emittedAtMs: number },
    pending: PendingWork,
  ): void {
    context.runInAsyncScope(() => this.send(envelope, pending, emittedAtMs))
  }

  /**
   * Passes an envelope to every transport.
   * @param pending counts the event once for each transport until it is delivered or has failed.
   * @param emittedAtMs when the event was emitted, if that is not now.
   */
  send(envelope: TelemetryEnvelope, pending: PendingWork | undefined, emittedAtMs?: number): void {
    if (this.#delivering) {
      this.#sendLater(envelope, pending, emittedAtMs)
      return
    }
    this.#delivering = true
    try {
      for (const channel of this.#channels) channel.offer(envelope, pending, emittedAtMs)
    } finally {
      this.#delivering = false
    }
    if (this.#nested.length > 0) this.#sendNested()
  }

  /** Resolves when all accepted events are delivered or have failed, but after `timeoutMs` at the latest. */
  flush(timeoutMs: number): Promise<void> {
    return settledWithin(timeoutMs, (done) => {
      let left = this.#channels.length
      if (left === 0) done()
      const cancels = this.#channels.map((channel) =>
        channel.flush(() => {
          left--
          if (left === 0) done()
        }),
      )
      return () => {
        for (const cancel of cancels) cancel()
      }
    })
  }

  /**
   * Flushes and closes every transport within one timeout. Events that have not settled by then stay pending.
   * @param closed is called when all transports are closed, or after the timeout.
   */
  close(timeoutMs: number, closed: () => void): Promise<void> {
    return workWithin(timeoutMs, (deadline) =>
      Promise.all(this.#channels.map((channel) => channel.close(deadline))).finally(closed),
    )
  }

  /** `true` while a `flush` or `shutdown` of a transport is called. */
  get isCallingTransport(): boolean {
    return this.#channels.some((channel) => channel.isCallingTransport)
  }

  stats(): TelemetryTransportStats[] {
    return this.#channels.map((channel) => channel.stats())
  }

  /** Runs `deliver`, which passes events to a transport, and then sends the events that the transport emitted. */
  #inOrder(deliver: () => void): void {
    this.#delivering = true
    try {
      deliver()
    } finally {
      this.#delivering = false
    }
    this.#sendNested()
  }

  /** Queues an event that a transport emits while it handles another, until every transport has received the other. */
  #sendLater(
    envelope: TelemetryEnvelope,
    pending: PendingWork | undefined,
    emittedAtMs: number | undefined,
  ): void {
    const nesting = this.#nesting + 1
    if (nesting > MAX_NESTING) {
      this.#reporter.error(
        errorWithHelp(
          'TELEMETRY_EMIT_FAILED',
          `event ${quotedName(envelope.name)} was dropped because a transport emits an event for every event that it receives`,
        ),
      )
      return
    }
    const context = new AsyncResource('KitTelemetryEvent')
    this.#nested.push({ envelope, pending, nesting, context, emittedAtMs })
  }

  #sendNested(): void {
    for (let next = this.#nested.shift(); next !== undefined; next = this.#nested.shift()) {
      const { envelope, pending, nesting, context, emittedAtMs } = next
      this.#delivering = true
      this.#nesting = nesting
      try {
        context.runInAsyncScope(() => {
          for (const channel of this.#channels) channel.offer(envelope, pending, emittedAtMs)
        })
      } finally {
        this.#delivering = false
        this.#nesting = 0
      }
    }
  }
}
