import { optional, type RulesFor, unchecked } from '../../../base/options/option-rules.ts'
import { checkRedisClient } from '../../../base/options/redis-client.ts'
import { eventTaker, type TakeEvent, type TelemetryTransport } from '../../delivery/transport.ts'
import type { TelemetryEnvelope } from '../../envelope/envelope.ts'
import { telemetryOptions } from '../../options.ts'
import { BatchQueue } from '../queue/batch-queue.ts'
import { countFrom, readTransportOptions } from '../transport-options.ts'
import { type StreamStore, streamClient } from './store-stream-client.ts'
import { StreamWriter } from './store-stream-writer.ts'

export type { StreamStore } from './store-stream-client.ts'

/** The options of `StoreStreamTransportAdapter.create()`. */
export interface StoreStreamTransportOptions {
  /** The Redis client of the application. The transport never closes it. */
  readonly store: StreamStore
  /** The key of the stream. Defaults to `telemetry:events`. */
  readonly stream?: string | undefined
  /**
   * The approximate maximum number of entries in the stream, at least 1. Redis trims about a hundred entries at a time, so
   * there may be a few more. Defaults to 10 000.
   */
  readonly maxLen?: number | undefined
}

const METHOD = 'StoreStreamTransportAdapter.create'

const RULES = {
  store: unchecked<StreamStore>(),
  stream: optional(telemetryOptions.text, 'telemetry:events'),
  maxLen: optional(countFrom(1), 10_000),
} satisfies RulesFor<StoreStreamTransportOptions>

/** The maximum size of a transaction with more than one event, in bytes. */
const MAX_BATCH_BYTES = 1_000_000

const BACK_OFF = { firstMs: 50, maxMs: 1_000, minShare: 0.5 }

/**
 * Adds every event to a Redis stream: `XADD stream MAXLEN ~ maxLen * name … time … level … event <JSON envelope>`.
 *
 * Events are written in order, many in one transaction. While Redis is unavailable (restarting, loading, full, read-only),
 * they wait in the queue of the transport, whose limits are those of `addTransport`. Errors that a retry cannot fix
 * (`WRONGTYPE`, `NOPERM`, …) fail with `TELEMETRY_TRANSPORT_FAILED`.
 *
 * Every event is in the stream at least once. After a connection loss, events whose transaction was not acknowledged are written
 * again, so they may be in the stream twice. A command that is never answered counts as lost after 10 s.
 *
 * @example
 * ```ts
 * import { KitTelemetry, StoreStreamTransportAdapter, type StreamStore } from 'mcp-gatekit/telemetry'
 *
 * declare const redis: StreamStore // new Redis() of ioredis, or createClient() of redis
 *
 * KitTelemetry.create().addTransport(
 *   StoreStreamTransportAdapter.create({ store: redis, stream: 'telemetry:billing' }),
 * )
 * ```
 * @see docs/reference/transports.md
 */
export class StoreStreamTransportAdapter implements TelemetryTransport {
  readonly type: string = 'store-stream'
  readonly #writer: StreamWriter
  readonly #queue: BatchQueue<TelemetryEnvelope>

  private constructor(writer: StreamWriter) {
    this.#writer = writer
    this.#queue = new BatchQueue<TelemetryEnvelope>({
      type: this.type,
      ordered: true,
      maxItems: () => writer.maxItems,
      maxWeight: MAX_BATCH_BYTES,
      backOff: BACK_OFF,
      sendsAfterDeadline: true,
      send: (batch, attempt) => writer.write(batch, attempt),
    })
  }

  /**
   * Creates the transport.
   * @param options the client and the stream.
   * @throws {KitTelemetryError} `TELEMETRY_CONFIGURATION_INVALID` if an option is invalid.
   */
  static create(options: StoreStreamTransportOptions): StoreStreamTransportAdapter {
    const { store, stream, maxLen } = readTransportOptions(METHOD, options, RULES)
    checkRedisClient(telemetryOptions, `${METHOD}({ store })`, store, ['xAdd'])
    return new StoreStreamTransportAdapter(new StreamWriter(streamClient(store, stream, maxLen)))
  }

  /**
   * Writes an event.
   * @param envelope the event.
   * @returns a promise that resolves when the stream contains the event, and rejects with `TELEMETRY_TRANSPORT_FAILED` if the
   * event has failed.
   */
  handle(envelope: TelemetryEnvelope): Promise<void> {
    return this.#queue.add(envelope, JSON.stringify(envelope).length)
  }

  /** Returns a function that writes an event as `handle` does, unless `handle` was replaced. @internal */
  [eventTaker](handle: TelemetryTransport['handle']): TakeEvent | undefined {
    // A Proxy of the transport does not have its private members.
    if (handle !== StoreStreamTransportAdapter.prototype.handle || !(#queue in this)) return undefined
    return (envelope, _emittedAtMs, outcome, bytes) => this.#queue.addFor(outcome, envelope, bytes)
  }

  /**
   * Sends waiting events. Resolves when all of them are in the stream or have failed, even if Redis is unavailable for a long
   * time. If the application has closed the client, waiting events fail.
   * @param deadline when it aborts, the promise resolves.
   */
  flush(deadline?: AbortSignal): Promise<void> {
    return this.#queue.flush(deadline)
  }

  /**
   * Flushes. Events that are not in the stream after 30 s fail. The client stays open.
   * @param deadline when it aborts, nothing more is sent.
   */
  shutdown(deadline?: AbortSignal): Promise<void> {
    this.#writer.close()
    return this.#queue.close(deadline)
  }
}
