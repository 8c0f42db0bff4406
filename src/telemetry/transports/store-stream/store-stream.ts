import type { TelemetryTransport } from '../../delivery/transport.ts'
import type { TelemetryEnvelope } from '../../envelope/envelope.ts'
import { telemetryOptions } from '../../options.ts'
import { BatchQueue } from '../queue/batch-queue.ts'
import { type StreamFields, type StreamStore, streamClient } from './store-stream-client.ts'
import { StreamWriter } from './store-stream-writer.ts'

export type { StreamStore } from './store-stream-client.ts'

/** What `StoreStreamTransportAdapter.create()` takes. */
export interface StoreStreamTransportOptions {
  /** The application's Redis client. It is used while it is connected, and never closed. */
  readonly store: StreamStore
  /** Key of the stream. Default `telemetry:events`. */
  readonly stream?: string | undefined
  /**
   * How many entries the stream keeps, a whole number from 1. Redis trims by whole nodes (about a hundred entries), so
   * that there may be a few more. Default 10 000.
   */
  readonly maxLen?: number | undefined
}

const { checkText, checkWholeNumber, copyOptions, invalidKind } = telemetryOptions

const METHOD = 'StoreStreamTransportAdapter.create'

/** The length of a transaction, in UTF-16 units of JSON. */
const MAX_BATCH_LENGTH = 1_000_000

const BACK_OFF = { firstMs: 50, maxMs: 1_000, minShare: 0.5 }

/** How long a store that is away may still come back after the transport was shut down. */
const CLOSING = { timeoutMs: 30_000, reason: 'Redis stayed away after the transport was shut down' }

/**
 * Adds every event to a Redis stream: `XADD stream MAXLEN ~ maxLen * name … time … level … event <JSON envelope>`.
 *
 * Events are written in their order, many in one transaction. While Redis is away (restarting, loading, full, read-only)
 * they wait in the transport's own queue, whose bound is the manager's `maxPending`; the client's own queues are not
 * relied on. What Redis refuses for good (`WRONGTYPE`, `NOPERM`, …) fails with `TELEMETRY_TRANSPORT_FAILED`.
 *
 * No event comes twice where the client can read the stream: after a broken connection its end is looked at first. Where
 * it cannot, an event may. ioredis sends what was under way again by itself; a copy that comes of it is taken out with
 * XDEL, and does not even come up with its option `autoResendUnfulfilledCommands: false`.
 *
 * @example
 * StoreStreamTransportAdapter.create({ store: new Redis(), stream: 'telemetry:billing' })
 */
export class StoreStreamTransportAdapter implements TelemetryTransport {
  readonly type: string = 'store-stream'
  readonly #queue: BatchQueue<StreamFields>

  private constructor(queue: BatchQueue<StreamFields>) {
    this.#queue = queue
  }

  /**
   * Makes the transport.
   * @throws {KitTelemetryError} `TELEMETRY_CONFIGURATION_INVALID` for an option that cannot be, naming it
   */
  static create(options: StoreStreamTransportOptions): StoreStreamTransportAdapter {
    const {
      store,
      stream = 'telemetry:events',
      maxLen = 10_000,
    } = copyOptions<StoreStreamTransportOptions>(METHOD, options, {
      store: () => {},
      stream: checkText,
      maxLen: (option, value) => checkWholeNumber(option, value, 1, Number.MAX_SAFE_INTEGER),
    })
    const client = streamClient(store, stream, maxLen)
    if (client === undefined)
      throw invalidKind(
        `${METHOD}({ store })`,
        'must be a Redis client, which is an object with the method xadd or xAdd',
        store,
      )
    const writer = new StreamWriter(client)
    const queue = new BatchQueue<StreamFields>({
      type: 'store-stream',
      ordered: true,
      maxItems: () => writer.maxItems,
      maxWeight: MAX_BATCH_LENGTH,
      backOff: BACK_OFF,
      closing: CLOSING,
      sendsAfterDeadline: true,
      send: (batch, attempt) => writer.write(batch, attempt),
    })
    return new StoreStreamTransportAdapter(queue)
  }

  /**
   * Takes one event.
   * @returns resolves when the stream has it, rejects with `TELEMETRY_TRANSPORT_FAILED` when it never will
   */
  handle(envelope: TelemetryEnvelope): Promise<void> {
    const { name, time, level } = envelope
    const event = JSON.stringify(envelope)
    return this.#queue.add({ name, time, level, event }, event.length)
  }

  /**
   * Sends what waits; resolves when all of it is in the stream or has failed, however long Redis is away. If the
   * application has closed the client, what waits fails.
   */
  flush(): Promise<void> {
    return this.#queue.flush()
  }

  /**
   * As `flush`, but events that Redis has not taken 30 s later have failed. The client stays open.
   * @param deadline when it aborts, nothing more is sent
   */
  shutdown(deadline?: AbortSignal): Promise<void> {
    return this.#queue.close(deadline)
  }
}
