import type { TelemetryEnvelope } from '../envelope/envelope.ts'
import type { KitTelemetryError } from '../errors.ts'

/** The metadata that a transport receives in `init`, before its first event. */
export interface TelemetryTransportMeta {
  /** The name passed to `withService`. */
  readonly service: string
  /** The name passed to `withEnvironment`. */
  readonly environment: string
  /** The version passed to `withVersion`. */
  readonly version?: string
}

/**
 * A destination of events.
 *
 * `handle` is called in the order of the `emit` calls, synchronously within `emit`. Events that `withSampling({ keep })` has
 * held are passed when their session ends. A promise that it returns settles only
 * when the event is delivered or has failed. If it does not return a promise, the event is delivered.
 *
 * @example
 * ```ts
 * import { KitTelemetry, type TelemetryTransport } from 'mcp-gatekit/telemetry'
 *
 * const stdout: TelemetryTransport = {
 *   type: 'stdout',
 *   handle: (envelope) => void process.stdout.write(`${JSON.stringify(envelope)}\n`),
 * }
 * KitTelemetry.create().addTransport(stdout)
 * ```
 * @see docs/reference/transports.md
 */
export interface TelemetryTransport {
  /** The name of the transport in `stats()` and in reports, such as `http`. */
  readonly type: string
  /** The maximum number of pending events. Further events are dropped. Defaults to 10 000. */
  readonly maxPending?: number
  /** The maximum size of the pending events in memory, in bytes. Further events are dropped. Defaults to 64 MiB. */
  readonly maxPendingBytes?: number
  /** Runs in `build()`. Events wait until it has finished. If it fails, this transport is disabled. */
  init?(meta: TelemetryTransportMeta): Promise<void> | void
  /**
   * Delivers one deeply frozen envelope.
   * @param envelope the event.
   * @param emittedAtMs when the event was emitted, in milliseconds since 1970, if it had to wait for `init` or for the end of
   * its session.
   */
  handle(envelope: TelemetryEnvelope, emittedAtMs?: number): Promise<void> | void
  /**
   * Sends buffered events. Resolves when they are delivered or have failed.
   * @param deadline aborts when no caller waits any longer. From then on, the transport need not hurry.
   */
  flush?(deadline?: AbortSignal): Promise<void> | void
  /**
   * Flushes, and releases all resources.
   * @param deadline aborts at the timeout of the manager's `shutdown`. From then on, the transport must not keep the process
   * alive. It has already aborted if the previous flush took too long.
   */
  shutdown?(deadline?: AbortSignal): Promise<void> | void
}

/** Returns an envelope with redacted ids. A removed session id is `undefined`. */
export type RedactIds = (envelope: TelemetryEnvelope) => TelemetryEnvelope

/** A member of the metadata, for transports that write ids under keys of their own. @internal */
export const redactIds: unique symbol = Symbol.for('mcp-gatekit.redactIds')

/** A member of the configuration and of the metadata: the members of `TelemetryTransportMeta` that the application has set. @internal */
export const namedOrigin: unique symbol = Symbol.for('mcp-gatekit.namedOrigin')

/** The arguments of `withService`, `withEnvironment`, and `withVersion`, if they were called. */
export type NamedOrigin = { readonly [Member in keyof TelemetryTransportMeta]?: string | undefined }

/** The metadata of a manager, which redacts ids if its policy names their keys. @internal */
export interface InternalMeta extends TelemetryTransportMeta {
  readonly [redactIds]?: RedactIds | undefined
  readonly [namedOrigin]?: NamedOrigin
}

/**
 * A method of a transport that returns a function that is called instead of `handle`, and that reports the outcome without a
 * promise. A promise for each event, with its functions, would take a large part of the time and the memory of an event that
 * waits in a queue.
 */
export const eventTaker: unique symbol = Symbol.for('mcp-gatekit.eventTaker')

/**
 * A member of a transport: events whose level has a lower priority are left out, and not passed to `handle`. They count as
 * delivered and as skipped.
 * @internal
 */
export const minPriority: unique symbol = Symbol.for('mcp-gatekit.minPriority')

/** Receives the outcome of one event, once. Neither method throws. */
export interface EventOutcome {
  delivered(): void
  failed(cause: unknown): void
}

/** Delivers an event of some bytes in memory, like `handle`. If it throws, it has not called `outcome`. */
export type TakeEvent = (
  envelope: TelemetryEnvelope,
  emittedAtMs: number | undefined,
  outcome: EventOutcome,
  bytes: number,
) => void

/** A transport that can report outcomes without promises. */
export interface EventTaker {
  /**
   * Returns the function, or `undefined` if only `handle` may be called.
   * @param handle the current `handle` of the transport, which an application may have replaced.
   */
  [eventTaker](handle: TelemetryTransport['handle']): TakeEvent | undefined
}

/**
 * A member of a transport that does not write whole events, which `withAudit` rejects. Its value is a sentence with the fix, or
 * `undefined` if the transport writes whole events.
 * @internal
 */
export const auditObstacle: unique symbol = Symbol.for('mcp-gatekit.auditObstacle')

/** The attribute with the MAC of a line of an audit log, which covers all members of the line. */
export const AUDIT_MAC = 'kit.audit.mac'

/** The default `maxPendingBytes` of a transport, and the maximum size of all held events of a manager. */
export const DEFAULT_MAX_PENDING_BYTES: number = 64 * 2 ** 20

/**
 * The delivery statistics of one transport. At all times, `accepted = delivered + failed + dropped + pending`. Those of the audit
 * transport include its opening and closing line.
 */
export interface TelemetryTransportStats {
  /** The `type` of the transport. */
  readonly type: string
  /** All events for the transport. */
  readonly accepted: number
  /** Events delivered, and those that the transport left out. */
  readonly delivered: number
  /** The delivered events that the transport left out because of its `minLevel`. It is missing if there are none. */
  readonly skipped?: number
  /** Events that failed after all retries, or because they could not be read. */
  readonly failed: number
  /** Events that were not sent because too many were pending. */
  readonly dropped: number
  /** Events still in progress. */
  readonly pending: number
  /** The latest error of the transport. */
  readonly lastError?: KitTelemetryError
}

/** The delivery statistics of a manager. */
export interface TelemetryStats {
  /** Valid events before `shutdown()`, including those that were sampled out. */
  readonly emitted: number
  /** Emitted events that sampling did not keep. */
  readonly sampledOut: number
  /** Emitted events that wait for the end of their session, because the sampling policy has `keep`. */
  readonly held: number
  /** Events emitted after `shutdown()`. */
  readonly droppedAfterShutdown: number
  /** The statistics of each transport, in the order in which they were added. */
  readonly transports: readonly TelemetryTransportStats[]
  /** The statistics of the transport of `withAudit`. It is missing if there is none. */
  readonly audit?: TelemetryTransportStats
}
