import type { LogRecordExporter, LogRecordProcessor } from '@opentelemetry/sdk-logs'
import { KitTelemetryError } from '../errors.ts'

/** A record of the OpenTelemetry logs SDK. */
export type SdkLogRecord = Parameters<LogRecordProcessor['onEmit']>[0]

/** A record on its way, and whom to tell what became of it. */
export interface OutgoingRecord {
  readonly record: SdkLogRecord
  readonly delivered: () => void
  readonly failed: (error: KitTelemetryError) => void
}

/** Makes an exporter that asks `headers` before each request, and ends its export when that rejects. */
export type MakeExporter = (headers: () => Promise<Record<string, string>>) => LogRecordExporter

export interface OtlpDeliveryOptions {
  readonly makeExporter: MakeExporter
  readonly headers: Readonly<Record<string, string>>
  /** Runs the export outside the application's spans, so that the request is not traced. */
  readonly untraced: (run: () => void) => void
  readonly timeoutMs: number
  readonly retryBudgetMs: number
}

const MAX_BATCH = 512
const BATCH_DELAY_MS = 1_000
const LANES = 4
const FIRST_BACKOFF_MS = 500
const MAX_BACKOFF_MS = 30_000
/** Longest backoff while somebody waits in `flush` or `close`. */
const MAX_HURRIED_BACKOFF_MS = 1_000

class Batch {
  readonly records: OutgoingRecord[] = []
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
 * retry budget is spent. A batch leaves when it has 512 records, when its first record is a second
 * old, or on `flush`; four are on their way at a time. Its timers keep no process alive.
 */
export class OtlpDelivery {
  readonly #options: OtlpDeliveryOptions
  readonly #idle: Lane[]
  readonly #lanes: readonly Lane[]
  readonly #ready: Batch[] = []
  readonly #unsettled: Set<Batch> = new Set()
  readonly #pauses: Set<() => void> = new Set()
  #open: Batch | undefined
  #openTimer: NodeJS.Timeout | undefined
  #startScheduled = false
  #waiting = 0
  /** While the collector is not ready, every lane waits for the same moment. */
  #outage: Promise<void> | undefined
  #failuresInARow = 0

  constructor(options: OtlpDeliveryOptions) {
    this.#options = options
    this.#lanes = Array.from({ length: LANES }, () => new Lane(options))
    this.#idle = [...this.#lanes]
  }

  add(outgoing: OutgoingRecord): void {
    if (this.#open === undefined) {
      this.#open = new Batch()
      this.#openTimer = setTimeout(() => {
        this.#seal()
        this.#start()
      }, BATCH_DELAY_MS).unref()
    }
    this.#open.records.push(outgoing)
    if (this.#open.records.length < MAX_BATCH) return
    this.#seal()
    // Not at once: encoding a batch takes milliseconds that are not the application's to spend.
    if (this.#startScheduled) return
    this.#startScheduled = true
    setImmediate(() => {
      this.#startScheduled = false
      this.#start()
    })
  }

  /** Sends what was added, cutting pauses short; resolves when all of it is delivered or has failed. */
  async flush(): Promise<void> {
    this.#seal()
    this.#start()
    for (const wake of this.#pauses) wake()
    this.#waiting++
    await Promise.all(Array.from(this.#unsettled, (batch) => batch.settled))
    this.#waiting--
  }

  /** As `flush`, then lets go of the exporters. Nothing may be added afterwards. */
  async close(): Promise<void> {
    await this.flush()
    for (const lane of this.#lanes) lane.close()
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
  async #send(records: readonly OutgoingRecord[], lane: Lane): Promise<void> {
    const sdkRecords = records.map(({ record }) => record)
    let deadline = Number.POSITIVE_INFINITY
    for (let attempt = 1; ; attempt++) {
      if (this.#outage !== undefined) await this.#outage
      if (attempt === 1) deadline = performance.now() + this.#options.retryBudgetMs
      const failure = await lane.export(sdkRecords)
      if (!failure?.collectorNotReady) this.#failuresInARow = 0
      if (failure === undefined) {
        for (const { delivered } of records) delivered()
        return
      }
      if (failure.perhapsOneRecord && records.length > 1) {
        const middle = records.length >> 1
        await this.#send(records.slice(0, middle), lane)
        await this.#send(records.slice(middle), lane)
        return
      }
      const remainingMs = deadline - performance.now()
      if (failure.final || remainingMs <= 0) {
        const error = describe(failure, { events: records.length, attempts: attempt })
        for (const { failed } of records) failed(error)
        return
      }
      if (failure.collectorNotReady) this.#waitForCollector(failure, remainingMs)
      else await this.#pause(Math.min(this.#backoffMs(attempt), remainingMs))
    }
  }

  #waitForCollector({ waitAtLeastMs = 0 }: Failure, atMostMs: number): void {
    if (this.#outage !== undefined) return
    const backoffMs = this.#backoffMs(++this.#failuresInARow)
    this.#outage = this.#pause(Math.min(Math.max(backoffMs, waitAtLeastMs), atMostMs)).then(() => {
      this.#outage = undefined
    })
  }

  /** Doubles with each failure; the jitter keeps several processes from knocking in step. */
  #backoffMs(failures: number): number {
    const most = this.#waiting > 0 ? MAX_HURRIED_BACKOFF_MS : MAX_BACKOFF_MS
    return Math.min(FIRST_BACKOFF_MS * 2 ** (failures - 1), most) * (0.5 + Math.random() / 2)
  }

  #pause(delayMs: number): Promise<void> {
    return new Promise((resolve) => {
      const wake = () => {
        clearTimeout(timer)
        this.#pauses.delete(wake)
        resolve()
      }
      const timer = setTimeout(wake, delayMs).unref()
      this.#pauses.add(wake)
    })
  }
}

/**
 * Sends one batch at a time, with an exporter of its own.
 *
 * The exporter repeats a request by itself, on timers that keep the process alive. It is stopped
 * there: after its wait (about a second, or what `Retry-After` says) it asks for headers again and
 * is told no, so that an attempt is one request and `OtlpDelivery` alone decides about the next.
 */
class Lane {
  readonly #exporter: LogRecordExporter
  readonly #options: OtlpDeliveryOptions
  #requests = 0

  constructor(options: OtlpDeliveryOptions) {
    this.#options = options
    this.#exporter = options.makeExporter(async () => {
      if (this.#requests++ > 0) throw new Error('An attempt is one request')
      return { ...options.headers }
    })
  }

  /** @returns `undefined` when the batch is delivered. Never rejects. */
  export(records: SdkLogRecord[]): Promise<Failure | undefined> {
    const { timeoutMs, untraced } = this.#options
    this.#requests = 0
    return new Promise((resolve) => {
      const settle = (failure: Failure | undefined) => {
        clearTimeout(timer)
        resolve(failure)
      }
      // The exporter's own timeout is one of silence: a trickling answer never ends it.
      const timer = setTimeout(
        () => settle(notReady(`gave no complete answer in ${timeoutMs} ms`)),
        timeoutMs,
      )
      timer.unref()
      try {
        untraced(() =>
          this.#exporter.export(records, ({ code, error }) =>
            settle(code === 0 ? undefined : this.#readError(error)),
          ),
        )
      } catch (cause) {
        settle({ reason: 'the exporter threw', cause, final: true, perhapsOneRecord: true })
      }
    })
  }

  close(): void {
    // Not awaited: it waits for requests that were given up, a trickling one for ever.
    this.#exporter.shutdown().catch(() => {})
  }

  #readError(error: unknown): Failure {
    const { code, name } = (error ?? {}) as { readonly code?: unknown; readonly name?: unknown }
    if (typeof code === 'number') return refused(code)
    if (this.#requests > 1) return notReady('could not be reached, or answered 429, 502, 503 or 504')
    // Only a Retry-After that goes beyond the timeout makes the exporter give up without a code.
    if (code === undefined && name === 'OTLPExporterError') {
      return { ...notReady('asked to be left alone'), waitAtLeastMs: this.#options.timeoutMs }
    }
    return { ...notReady('could not be reached'), cause: error }
  }
}

/** Why a batch was not delivered. */
interface Failure {
  readonly reason: string
  readonly cause?: unknown
  readonly status?: number
  /** Trying again cannot help. */
  readonly final?: boolean
  /** A smaller batch may pass. */
  readonly perhapsOneRecord?: boolean
  /** No batch would have passed. */
  readonly collectorNotReady?: boolean
  readonly waitAtLeastMs?: number
}

function notReady(what: string): Failure {
  return { reason: `the collector ${what}`, collectorNotReady: true }
}

/**
 * Final is every status but 408, 429 and 5xx; redirects are, as they are not followed.
 * The exporter's error is not kept: it holds the body of the answer, which may repeat a header.
 */
function refused(status: number): Failure {
  return {
    reason: `the collector answered ${status}${adviceFor(status)}`,
    status,
    final: status !== 408 && status !== 429 && status < 500,
    perhapsOneRecord: status === 413,
  }
}

function adviceFor(status: number): string {
  if (status === 401 || status === 403) return ' (check the credentials in headers)'
  if (status === 404 || status === 405) return ' (check the path of url; collectors listen on /v1/logs)'
  if (status === 415) return ' (it does not take this encoding or compression)'
  if (status >= 300 && status < 400) return ' (redirects are not followed; give the final url)'
  return ''
}

function describe(
  { reason, status, cause, final }: Failure,
  counts: { readonly events: number; readonly attempts: number },
): KitTelemetryError {
  const spent = final ? '' : `, ${counts.attempts} times until retryBudgetMs was spent`
  const lost = counts.events === 1 ? '1 event is lost' : `${counts.events} events are lost`
  return new KitTelemetryError('TELEMETRY_TRANSPORT_FAILED', `otlp: ${reason}${spent}; ${lost}`, {
    ...(cause === undefined ? {} : { cause }),
    details: { ...counts, ...(status === undefined ? {} : { status }) },
  })
}
