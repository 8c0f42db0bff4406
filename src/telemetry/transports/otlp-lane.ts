import type { Agent } from 'node:http'
import type { LogRecordExporter, LogRecordProcessor } from '@opentelemetry/sdk-logs'
import { OtlpAnswer } from './otlp-answer.ts'
import { OtlpConnection } from './otlp-connection.ts'

/** A record of the OpenTelemetry logs SDK. */
export type SdkLogRecord = Parameters<LogRecordProcessor['onEmit']>[0]

/** What an exporter must take from us. */
export interface ExporterWishes {
  /** Asked before each request; a rejection ends the export. */
  readonly headers: () => Promise<Record<string, string>>
  readonly makeAgent: (protocol: string) => Promise<Agent>
}

export interface OtlpLaneOptions {
  readonly makeExporter: (wishes: ExporterWishes) => LogRecordExporter
  readonly headers: Readonly<Record<string, string>>
  /** Runs the export outside the application's spans, so that the request is not traced. */
  readonly untraced: (run: () => void) => void
  readonly timeoutMs: number
}

/** The collector took the batch, but for so many records of it. It does not say which. */
export interface OtlpAcceptance {
  readonly rejected: number
}

/** Why a batch was not delivered. */
export interface OtlpFailure {
  readonly reason: string
  readonly cause?: unknown
  readonly status?: number
  /** Trying again cannot help. */
  readonly final?: boolean
  /** A batch without that record may pass. */
  readonly perhapsOneRecord?: boolean
  /** No batch would have passed. */
  readonly collectorNotReady?: boolean
  /** How long the collector asks to be left alone. */
  readonly waitMs?: number
}

/**
 * Sends one batch at a time, with an exporter and sockets of its own.
 *
 * The exporter repeats a request by itself, on timers that keep the process alive. It is stopped there: after
 * an answer it gives up at once (see `OtlpAnswer`), and after a network error, about a second later, it asks for
 * headers again and is told no. An attempt is one request, and `OtlpDelivery` alone decides about the next.
 */
export class OtlpLane {
  readonly #exporter: LogRecordExporter
  readonly #connection: OtlpConnection
  readonly #options: OtlpLaneOptions
  #requests = 0
  #answer: OtlpAnswer | undefined
  #timer: NodeJS.Timeout | undefined

  constructor(options: OtlpLaneOptions) {
    this.#options = options
    this.#connection = new OtlpConnection((response) => {
      this.#answer = new OtlpAnswer(response)
    })
    this.#exporter = options.makeExporter({
      headers: () => this.#headers(),
      makeAgent: this.#connection.makeAgent,
    })
  }

  /** Never rejects, and settles soon after `timeoutMs` at the latest. */
  export(records: SdkLogRecord[]): Promise<OtlpAcceptance | OtlpFailure> {
    const { timeoutMs, untraced } = this.#options
    this.#requests = 0
    this.#answer = undefined
    return new Promise((resolve) => {
      const settle = (outcome: OtlpAcceptance | OtlpFailure) => {
        clearTimeout(timer)
        this.#timer = undefined
        resolve(outcome)
      }
      // The exporter's own timeout is one of silence: a trickling answer never ends it.
      const timer = setTimeout(() => {
        settle(this.#read(notReady(`gave no complete answer in ${timeoutMs} ms`)))
        this.#connection.cut()
      }, timeoutMs)
      timer.unref()
      this.#timer = timer
      try {
        untraced(() =>
          this.#exporter.export(records, ({ code, error }) =>
            settle(code === 0 ? { rejected: this.#answer?.rejectedRecords() ?? 0 } : this.#readError(error)),
          ),
        )
      } catch (cause) {
        settle({ reason: 'the exporter threw', cause, final: true, perhapsOneRecord: true })
      }
    })
  }

  /** From now on a request under way keeps no process alive. */
  release(): void {
    this.#connection.release()
  }

  /** Ends the exporter and closes every socket. */
  close(): void {
    // Nothing is under way that could still be told of: every batch has settled, or is cut here.
    this.#exporter.shutdown().catch(() => {})
    this.#connection.cut()
  }

  /** The timeout counts from here, so that what the exporter does within its own is over before it. */
  async #headers(): Promise<Record<string, string>> {
    if (this.#requests++ > 0) throw new Error('An attempt is one request')
    this.#timer?.refresh()
    return { ...this.#options.headers }
  }

  #readError(error: unknown): OtlpFailure | OtlpAcceptance {
    const { code } = (error ?? {}) as { readonly code?: unknown }
    if (this.#answer === undefined && typeof code === 'number') return refused(code)
    if (this.#requests > 1) return this.#read(notReady('could not be reached'))
    return this.#read({ ...notReady('could not be reached'), cause: error })
  }

  /**
   * The outcome by the answer's status, where there is one, however the rest of the answer failed to come.
   * The exporter's error is not kept then: it holds the body of the answer, which may repeat a header.
   */
  #read(unanswered: OtlpFailure): OtlpFailure | OtlpAcceptance {
    const answer = this.#answer
    if (answer === undefined) return unanswered
    if (answer.accepted) return { rejected: answer.rejectedRecords() }
    return { ...refused(answer.status), ...(answer.waitMs === undefined ? {} : { waitMs: answer.waitMs }) }
  }
}

function notReady(what: string): OtlpFailure {
  return { reason: `the collector ${what}`, collectorNotReady: true }
}

/** Final is every status but 408, 429 and 5xx; redirects are, as they are not followed. */
function refused(status: number): OtlpFailure {
  const final = status !== 408 && status !== 429 && status < 500
  return {
    reason: `the collector answered ${status}${adviceFor(status)}`,
    status,
    final,
    collectorNotReady: status === 429 || (status >= 502 && status <= 504),
  }
}

function adviceFor(status: number): string {
  if (status === 401 || status === 403) return ' (check the credentials in headers)'
  if (status === 404 || status === 405) return ' (check the path of url; collectors listen on /v1/logs)'
  if (status === 413) return ' (the batch was larger than it takes, or than a proxy in front of it does)'
  if (status === 415) return ' (it does not take this encoding or compression)'
  if (status >= 300 && status < 400) return ' (redirects are not followed; give the final url)'
  return ''
}
