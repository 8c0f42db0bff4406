import { AsyncResource } from 'node:async_hooks'
import type { TelemetryEnvelope } from '../envelope/envelope.ts'
import { KitTelemetryError } from '../errors.ts'
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

/** How often a transport may emit an event while it is handed one, while it is handed one, … */
const MAX_NESTING = 8

interface Nested {
  readonly envelope: TelemetryEnvelope
  readonly pending: PendingWork | undefined
  readonly nesting: number
  readonly context: AsyncResource
}

/** Hands every envelope to every transport, in the order of the emits. One transport cannot delay or break another. */
export class Delivery {
  readonly #channels: readonly TransportChannel[]
  readonly #reporter: Reporter
  readonly #nested: Nested[] = []
  #handing = false
  #nesting = 0

  /** @param stats the manager's, which transports may ask once it is built */
  constructor(
    entries: readonly TelemetryTransportEntry[],
    meta: TelemetryTransportMeta,
    stats: () => TelemetryStats,
    reporter: Reporter,
  ) {
    this.#reporter = reporter
    this.#channels = entries.map(
      (entry) => new TransportChannel(entry, reporter, (hand) => this.#inOrder(hand)),
    )
    for (const channel of this.#channels) channel.start(meta, stats)
  }

  /**
   * Offers an envelope to every transport.
   * @param pending counts it, once for each transport, until it is delivered or has failed
   */
  send(envelope: TelemetryEnvelope, pending: PendingWork | undefined): void {
    if (this.#handing) {
      this.#sendLater(envelope, pending)
      return
    }
    this.#handing = true
    try {
      for (const channel of this.#channels) channel.offer(envelope, pending)
    } finally {
      this.#handing = false
    }
    if (this.#nested.length > 0) this.#sendNested()
  }

  /** Resolves when everything accepted so far is delivered or has failed, at the latest after `timeoutMs`. */
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
   * Flushes and closes every transport within one deadline. What is outstanding then stays pending.
   * @param closed called when it is over
   */
  close(timeoutMs: number, closed: () => void): Promise<void> {
    return workWithin(timeoutMs, (deadline) =>
      Promise.all(this.#channels.map((channel) => channel.close(deadline))).finally(closed),
    )
  }

  /** Whether a `flush` or `shutdown` of a transport is being called at this moment. */
  get isCallingTransport(): boolean {
    return this.#channels.some((channel) => channel.isCallingTransport)
  }

  stats(): TelemetryTransportStats[] {
    return this.#channels.map((channel) => channel.stats())
  }

  /** Runs `hand`, which gives a transport events, with what that emits put behind it. */
  #inOrder(hand: () => void): void {
    this.#handing = true
    try {
      hand()
    } finally {
      this.#handing = false
    }
    this.#sendNested()
  }

  /** An event that a transport emits while it is handed one waits until every transport has got the first. */
  #sendLater(envelope: TelemetryEnvelope, pending: PendingWork | undefined): void {
    const nesting = this.#nesting + 1
    if (nesting > MAX_NESTING) {
      this.#reporter.error(
        new KitTelemetryError(
          'TELEMETRY_EMIT_FAILED',
          `event "${envelope.name}" was dropped: a transport emits an event for every event it is given`,
        ),
      )
      return
    }
    this.#nested.push({ envelope, pending, nesting, context: new AsyncResource('KitTelemetryEvent') })
  }

  #sendNested(): void {
    for (let next = this.#nested.shift(); next !== undefined; next = this.#nested.shift()) {
      const { envelope, pending, nesting, context } = next
      this.#handing = true
      this.#nesting = nesting
      try {
        context.runInAsyncScope(() => {
          for (const channel of this.#channels) channel.offer(envelope, pending)
        })
      } finally {
        this.#handing = false
        this.#nesting = 0
      }
    }
  }
}
