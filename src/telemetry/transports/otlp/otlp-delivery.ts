import type { EventOutcome } from '../../delivery/transport.ts'
import type { TelemetryEnvelope } from '../../envelope/envelope.ts'
import { BatchQueue } from '../queue/batch-queue.ts'
import { type OtlpAgent, OtlpConnection } from './otlp-connection.ts'
import { OtlpExportSlot, type OtlpExportSlotOptions } from './otlp-export-slot.ts'
import type { OtlpEvent, OtlpRecords } from './otlp-records.ts'
import { otlpWeight } from './otlp-weight.ts'

export interface OtlpDeliveryOptions extends OtlpExportSlotOptions {
  readonly agent: OtlpAgent | undefined
  readonly records: OtlpRecords
  readonly retryBudgetMs: number
  /** The maximum number of bytes of the records in a request. */
  readonly maxWeight: number
}

const MAX_BATCH = 512
const BATCH_DELAY_MS = 1_000
const LANES = 4
const BACK_OFF = { firstMs: 500, maxMs: 30_000, minShare: 0.5 }

/**
 * Collects events into batches, creates their records, and sends each batch until it is delivered, rejected, or its retry
 * budget is spent. A batch is sent when it has 512 events or the maximum size, when its first event is one second old, or on
 * `flush`. Up to four batches are under way at the same time. The timers do not keep the process alive.
 */
export class OtlpDelivery {
  readonly #queue: BatchQueue<OtlpEvent>
  readonly #connection: OtlpConnection
  readonly #lanes: readonly OtlpExportSlot[]
  readonly #records: OtlpRecords

  constructor(options: OtlpDeliveryOptions) {
    const { records, maxWeight, retryBudgetMs, timeoutMs } = options
    this.#records = records
    this.#connection = new OtlpConnection(options.agent)
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
      send: async (events) => {
        // The queue uses no more lanes than there are.
        const lane = idle.pop() as OtlpExportSlot
        try {
          return await lane.export(events.map((event) => records.create(event)))
        } catch (cause) {
          return { result: 'split', failure: { reason: 'the OpenTelemetry SDK threw', cause } }
        } finally {
          idle.push(lane)
        }
      },
    })
  }

  /**
   * Adds an event.
   * @param outcome is called when the event is delivered or lost.
   */
  add(outcome: EventOutcome, envelope: TelemetryEnvelope, emittedAtMs = Date.now()): void {
    const event = { envelope, emittedAtMs, span: this.#records.activeSpan() }
    this.#queue.addFor(outcome, event, otlpWeight(envelope))
  }

  /** Sends all events. Resolves when they are delivered or have failed, or at the deadline. */
  flush(deadline?: AbortSignal): Promise<void> {
    return this.#queue.flush(deadline)
  }

  /**
   * Flushes, then closes the exporters and their sockets. No event may be added afterwards.
   * @param deadline when it aborts, pending requests go on, but no longer keep the process alive.
   */
  async close(deadline?: AbortSignal): Promise<void> {
    const release = () => {
      for (const lane of this.#lanes) lane.release()
    }
    if (deadline?.aborted === true) release()
    else deadline?.addEventListener('abort', release, { once: true })
    await this.#queue.close(deadline)
    void this.#queue.settled().then(() => {
      for (const lane of this.#lanes) lane.close()
      this.#connection.close()
    })
  }
}
