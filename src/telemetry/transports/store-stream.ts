import type { TelemetryEnvelope } from '../envelope.ts'
import { KitTelemetryError } from '../errors.ts'
import { checkString, copyOptions, invalidKind, invalidOption } from '../options.ts'
import type { TelemetryTransport } from '../transport.ts'
import { type StreamStore, streamClient } from './store-stream-client.ts'
import { StreamQueue } from './store-stream-queue.ts'

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

const METHOD = 'StoreStreamTransportAdapter.create'

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
  readonly #queue: StreamQueue
  #closed = false

  private constructor(queue: StreamQueue) {
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
      stream: checkString,
      maxLen: (value, option) => {
        if (!Number.isSafeInteger(value) || (value as number) < 1)
          throw invalidOption(option, 'a whole number from 1', value)
      },
    })
    const client = streamClient(store, stream, maxLen)
    if (client === undefined)
      throw invalidKind(
        `${METHOD}({ store })`,
        'a Redis client: an object with the method xadd or xAdd',
        store,
      )
    return new StoreStreamTransportAdapter(new StreamQueue(client))
  }

  /**
   * Takes one event.
   * @returns resolves when the stream has it, rejects with `TELEMETRY_TRANSPORT_FAILED` when it never will
   */
  async handle(envelope: TelemetryEnvelope): Promise<void> {
    if (this.#closed) {
      throw new KitTelemetryError('TELEMETRY_TRANSPORT_FAILED', 'store-stream: the transport is shut down')
    }
    const { name, time, level } = envelope
    await this.#queue.add({ name, time, level, event: JSON.stringify(envelope) })
  }

  /**
   * Sends what waits; resolves when all of it is in the stream or has failed, however long Redis is away. If the
   * application has closed the client, what waits fails at once.
   */
  async flush(): Promise<void> {
    await this.#queue.flush()
  }

  /** As `flush`, but events that Redis has not taken 30 s later have failed. The client stays open. */
  async shutdown(): Promise<void> {
    this.#closed = true
    await this.#queue.close()
  }
}
