import { KitTelemetryError } from '../errors.ts'
import { type OtlpFailure, OtlpLane, type OtlpLaneOptions, type SdkLogRecord } from './otlp-lane.ts'

/** A record on its way, and whom to tell what became of it. */
export interface OutgoingRecord {
  readonly record: SdkLogRecord
  readonly delivered: () => void
  readonly failed: (error: KitTelemetryError) => void
  /** Roughly its size in bytes. */
  readonly weight: number
}

export interface OtlpDeliveryOptions extends OtlpLaneOptions {
  readonly retryBudgetMs: number
}

const MAX_BATCH = 512
/**
 * In bytes, roughly: a request stays below the 1 MiB that a proxy takes by default (nginx), and, where JSON makes six
 * bytes of a character, far below the 20 MiB that a collector does.
 */
const MAX_BATCH_WEIGHT = 2 ** 19
const BATCH_DELAY_MS = 1_000
const LANES = 4
const FIRST_BACKOFF_MS = 500
const MAX_BACKOFF_MS = 30_000
/** Longest backoff while somebody waits in `flush` or `close`. */
const MAX_HURRIED_BACKOFF_MS = 1_000

/** A wait that a `flush` cuts short. */
interface Pause {
  hurry(): void
}

class Batch {
  readonly records: OutgoingRecord[] = []
  weight = 0
  readonly settled: Promise<void>
  settle: () => void = () => {}

  constructor() {
    this.settled = new Promise((resolve) => {
      this.settle = resolve
    })
  }
}

/**
 * Collects records into batches and sends each until it is delivered, refused for good, or its
 * retry budget is spent. A batch leaves when it has 512 records or about half a MiB, when its first record
 * is a second old, or on `flush`; four are on their way at a time. Its timers keep no process alive.
 */
export class OtlpDelivery {
  readonly #options: OtlpDeliveryOptions
  readonly #idle: OtlpLane[]
  readonly #lanes: readonly OtlpLane[]
  readonly #ready: Batch[] = []
  readonly #unsettled: Set<Batch> = new Set()
  readonly #pauses: Set<Pause> = new Set()
  #open: Batch | undefined
  #openTimer: NodeJS.Timeout | undefined
  #startScheduled = false
  #waiting = 0
  /** While the collector is not ready, every lane waits for the same moment. */
  #outage: Promise<void> | undefined
  #failuresInARow = 0

  constructor(options: OtlpDeliveryOptions) {
    this.#options = options
    this.#lanes = Array.from({ length: LANES }, () => new OtlpLane(options))
    this.#idle = [...this.#lanes]
  }

  add(outgoing: OutgoingRecord): void {
    if (this.#open !== undefined && this.#open.weight + outgoing.weight > MAX_BATCH_WEIGHT) this.#sendSoon()
    const open = this.#open ?? this.#begin()
    open.records.push(outgoing)
    open.weight += outgoing.weight
    if (open.records.length === MAX_BATCH) this.#sendSoon()
  }

  /** Sends what was added, cutting pauses short; resolves when all of it is delivered or has failed. */
  async flush(): Promise<void> {
    this.#seal()
    this.#start()
    for (const pause of this.#pauses) pause.hurry()
    this.#waiting++
    await Promise.all(Array.from(this.#unsettled, (batch) => batch.settled))
    this.#waiting--
  }

  /**
   * As `flush`, then lets go of the exporters and closes their sockets. Nothing may be added afterwards.
   * Called while a flush is under way, as by a manager whose deadline has passed, it goes on sending, but
   * what is under way keeps the process alive no longer.
   */
  async close(): Promise<void> {
    if (this.#waiting > 0) for (const lane of this.#lanes) lane.release()
    await this.flush()
    for (const lane of this.#lanes) lane.close()
  }

  #begin(): Batch {
    this.#open = new Batch()
    this.#openTimer = setTimeout(() => {
      this.#seal()
      this.#start()
    }, BATCH_DELAY_MS).unref()
    return this.#open
  }

  /** Not at once: encoding a batch takes milliseconds that are not the application's to spend. */
  #sendSoon(): void {
    this.#seal()
    if (this.#startScheduled) return
    this.#startScheduled = true
    setImmediate(() => {
      this.#startScheduled = false
      this.#start()
    })
  }

  #seal(): void {
    if (this.#open === undefined) return
    clearTimeout(this.#openTimer)
    this.#ready.push(this.#open)
    this.#unsettled.add(this.#open)
    this.#open = undefined
  }

  #start(): void {
    while (this.#ready.length > 0) {
      const lane = this.#idle.pop()
      if (lane === undefined) return
      const batch = this.#ready.shift() as Batch
      void this.#send(batch.records, lane).then(() => {
        batch.settle()
        this.#unsettled.delete(batch)
        this.#idle.push(lane)
        this.#start()
      })
    }
  }

  /** Never rejects. */
  async #send(records: readonly OutgoingRecord[], lane: OtlpLane): Promise<void> {
    const sdkRecords = records.map(({ record }) => record)
    let deadline = Number.POSITIVE_INFINITY
    for (let attempt = 1; ; attempt++) {
      if (this.#outage !== undefined) await this.#outage
      if (attempt === 1) deadline = performance.now() + this.#options.retryBudgetMs
      const outcome = await lane.export(sdkRecords)
      if ('rejected' in outcome) {
        this.#failuresInARow = 0
        settleAccepted(records, outcome.rejected)
        return
      }
      if (!outcome.collectorNotReady) this.#failuresInARow = 0
      if (outcome.perhapsOneRecord && records.length > 1) {
        const middle = records.length >> 1
        await this.#send(records.slice(0, middle), lane)
        await this.#send(records.slice(middle), lane)
        return
      }
      const remainingMs = deadline - performance.now()
      if (outcome.final || remainingMs <= 0) {
        const error = describe(outcome, { events: records.length, attempts: attempt })
        for (const { failed } of records) failed(error)
        return
      }
      if (outcome.collectorNotReady) this.#waitForCollector(outcome, remainingMs)
      else await this.#pause(this.#backoffMs(attempt), outcome.waitMs, remainingMs)
    }
  }

  #waitForCollector({ waitMs }: OtlpFailure, atMostMs: number): void {
    if (this.#outage !== undefined) return
    this.#outage = this.#pause(this.#backoffMs(++this.#failuresInARow), waitMs, atMostMs).then(() => {
      this.#outage = undefined
    })
  }

  /** Doubles with each failure; the jitter keeps several processes from knocking in step. */
  #backoffMs(failures: number): number {
    const most = this.#waiting > 0 ? MAX_HURRIED_BACKOFF_MS : MAX_BACKOFF_MS
    return Math.min(FIRST_BACKOFF_MS * 2 ** (failures - 1), most) * (0.5 + Math.random() / 2)
  }

  /**
   * Waits for `backoffMs`, or for `askedMs` where the collector asked for more. A flush does not wait for a
   * backoff, and for what the collector asked no longer than an attempt may take.
   */
  #pause(backoffMs: number, askedMs = 0, atMostMs = Number.POSITIVE_INFINITY): Promise<void> {
    const started = performance.now()
    const hurriedMs = Math.min(askedMs, this.#options.timeoutMs, atMostMs)
    const longestMs = this.#waiting > 0 ? Math.max(backoffMs, hurriedMs) : Math.max(backoffMs, askedMs)
    return new Promise((resolve) => {
      const end = () => {
        this.#pauses.delete(pause)
        resolve()
      }
      const pause = {
        hurry: () => {
          clearTimeout(timer)
          const leftMs = hurriedMs - (performance.now() - started)
          if (leftMs <= 0) end()
          else timer = setTimeout(end, leftMs).unref()
        },
      }
      let timer = setTimeout(end, Math.min(longestMs, atMostMs)).unref()
      this.#pauses.add(pause)
    })
  }
}

/** The collector does not say which records it rejected, only how many; the last ones stand for them. */
function settleAccepted(records: readonly OutgoingRecord[], rejected: number): void {
  const accepted = Math.max(records.length - rejected, 0)
  for (const { delivered } of records.slice(0, accepted)) delivered()
  if (accepted === records.length) return
  const error = new KitTelemetryError(
    'TELEMETRY_TRANSPORT_FAILED',
    `transport "otlp": the collector rejected ${records.length - accepted} of ${records.length} events of a batch (partial success); it does not say which`,
    { details: { events: records.length, rejected: records.length - accepted } },
  )
  for (const { failed } of records.slice(accepted)) failed(error)
}

function describe(
  { reason, status, cause, final }: OtlpFailure,
  counts: { readonly events: number; readonly attempts: number },
): KitTelemetryError {
  const spent = final ? '' : `, ${counts.attempts} times until retryBudgetMs was spent`
  const lost = counts.events === 1 ? '1 event is lost' : `${counts.events} events are lost`
  return new KitTelemetryError('TELEMETRY_TRANSPORT_FAILED', `transport "otlp": ${reason}${spent}; ${lost}`, {
    ...(cause === undefined ? {} : { cause }),
    details: { ...counts, ...(status === undefined ? {} : { status }) },
  })
}
