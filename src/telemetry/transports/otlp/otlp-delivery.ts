import { BatchQueue } from '../queue/batch-queue.ts'
import { OtlpConnection, type OtlpConnectionOptions } from './otlp-connection.ts'
import { OtlpExportSlot, type OtlpLaneOptions, type SdkLogRecord } from './otlp-export-slot.ts'

export interface OtlpDeliveryOptions extends OtlpLaneOptions, OtlpConnectionOptions {
  readonly retryBudgetMs: number
  /** The most bytes of a request that proxies take, less what each request has beside its records. */
  readonly maxWeight: number
}

const MAX_BATCH = 512
const BATCH_DELAY_MS = 1_000
const LANES = 4
const BACK_OFF = { firstMs: 500, maxMs: 30_000, minShare: 0.5 }

/**
 * Collects records into batches and sends each until it is delivered, refused for good, or its retry budget is spent. A
 * batch leaves when it has 512 records or as many bytes as proxies take, when its first record is a second old, or on
 * `flush`. Four are on their way at a time. Its timers keep no process alive.
 */
export class OtlpDelivery {
  readonly #queue: BatchQueue<SdkLogRecord>
  readonly #connection: OtlpConnection
  readonly #lanes: readonly OtlpExportSlot[]

  constructor(options: OtlpDeliveryOptions) {
    const { maxWeight, retryBudgetMs, timeoutMs } = options
    this.#connection = new OtlpConnection(options)
    this.#lanes = Array.from({ length: LANES }, () => new OtlpExportSlot(options, this.#connection))
    const idle = [...this.#lanes]
    this.#queue = new BatchQueue({
      type: 'otlp',
      lanes: LANES,
      maxItems: MAX_BATCH,
      maxWeight,
      delayMs: BATCH_DELAY_MS,
      backOff: BACK_OFF,
      retryBudgetMs,
      maxFlushingWaitMs: timeoutMs,
      sendsAfterDeadline: true,
      send: async (records) => {
        // The queue uses no more lanes than there are.
        const lane = idle.pop() as OtlpExportSlot
        try {
          return await lane.export([...records])
        } finally {
          idle.push(lane)
        }
      },
    })
  }

  /**
   * Adds a record.
   * @param weight its bytes in a request
   * @returns settles when it is delivered or lost
   */
  add(record: SdkLogRecord, weight: number): Promise<void> {
    return this.#queue.add(record, weight)
  }

  /** Sends what was added; resolves when all of it is delivered or has failed. */
  flush(): Promise<void> {
    return this.#queue.flush()
  }

  /**
   * As `flush`, then lets go of the exporters and closes their sockets. Nothing may be added afterwards.
   * @param deadline when it aborts, what has not settled goes on, but keeps the process alive no longer
   */
  async close(deadline?: AbortSignal): Promise<void> {
    const release = () => {
      for (const lane of this.#lanes) lane.release()
      this.#connection.release()
    }
    if (deadline?.aborted === true) release()
    else deadline?.addEventListener('abort', release, { once: true })
    await this.#queue.close(deadline)
    void this.#queue.flush().then(() => {
      for (const lane of this.#lanes) lane.close()
      this.#connection.close()
    })
  }
}
