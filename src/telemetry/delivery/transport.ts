import type { TelemetryEnvelope } from '../envelope/envelope.ts'
import type { KitTelemetryError } from '../errors.ts'

/** What a transport is told once, before its first event. */
export interface TelemetryTransportMeta {
  /** As given to `withService`. */
  readonly service: string
  /** As given to `withEnvironment`. */
  readonly environment: string
  /** As given to `withVersion`. */
  readonly version?: string
}

/**
 * The contract of a transport: where envelopes go.
 *
 * `handle` is called in the order of the emits, synchronously within `emit`. A promise it
 * returns settles only when the event is delivered or has failed for good; a `handle` that
 * returns nothing has delivered.
 */
export interface TelemetryTransport {
  /** Names the transport in `stats()` and in reports, e.g. `http`. */
  readonly type: string
  /** How many events may be outstanding before new ones are dropped. Default 10 000. */
  readonly maxPending?: number
  /** Runs at `build()`. Until it has finished, events wait; when it fails, this transport is disabled. */
  init?(meta: TelemetryTransportMeta): Promise<void> | void
  /**
   * Takes one deeply frozen envelope.
   * @param emittedAtMs when it was emitted, in milliseconds since 1970, where it had to wait for `init`; else that is now.
   */
  handle(envelope: TelemetryEnvelope, emittedAtMs?: number): Promise<void> | void
  /** Sends what is buffered; resolves when it is delivered or has failed for good. */
  flush?(): Promise<void> | void
  /**
   * Flushes and releases what the transport holds.
   * @param deadline aborts when the deadline of the manager's `shutdown` has passed: from then on, nothing of the
   * transport may keep the process alive. It has aborted already if the flush before took too long.
   */
  shutdown?(deadline?: AbortSignal): Promise<void> | void
}

/**
 * A method of a transport that receives a function that returns the manager's `stats()`. It is called before `init`. The
 * function can be called once `build()` has returned.
 * @internal
 */
export const setStatsSource: unique symbol = Symbol.for('mcp-gatekit.setStatsSource')

/** A transport that reads the manager's `stats()`. @internal */
export interface TelemetryStatsReader {
  [setStatsSource](stats: () => TelemetryStats): void
}

/** A transport, and how many of its events may be pending. */
export interface TelemetryTransportEntry {
  /** The transport's own `type`. */
  readonly type: string
  /** Where the events go. */
  readonly transport: TelemetryTransport
  /** Whole number, at least 1. */
  readonly maxPending: number
}

/** What became of the events given to one transport: `accepted = delivered + failed + dropped + pending`, always. */
export interface TelemetryTransportStats {
  /** The transport's own `type`. */
  readonly type: string
  /** Everything offered to the transport. */
  readonly accepted: number
  /** Taken, as far as the transport can tell. */
  readonly delivered: number
  /** Refused or given up, after any retries. */
  readonly failed: number
  /** Not handed over, because too much was outstanding. */
  readonly dropped: number
  /** Still without an outcome. */
  readonly pending: number
  /** The latest failure. */
  readonly lastError?: KitTelemetryError
}

/** What became of the events of a manager. */
export interface TelemetryStats {
  /** Events with a good name, level, actor, scope and attributes, before shutdown, sampled-out ones included. */
  readonly emitted: number
  /** Of those, not kept by the sampling. */
  readonly sampledOut: number
  /** Events that came after `shutdown()` had been called. */
  readonly droppedAfterShutdown: number
  /** In the order the transports were added. */
  readonly transports: readonly TelemetryTransportStats[]
}
