import type { Agent, ClientRequest, IncomingMessage } from 'node:http'
import type { LogRecordExporter, LogRecordProcessor } from '@opentelemetry/sdk-logs'
import { describeNetworkFailure } from '../http/network-failure.ts'
import type { Failure, Outcome } from '../queue/batch-queue-options.ts'
import type { OtlpConnection } from './otlp-connection.ts'
import { OtlpAnswer } from './otlp-response.ts'

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

/** A status of 500 and above that is not one of these is what collectors answer to what they will never take. */
const RETRYABLE = [408, 429, 502, 503, 504]

/** How often a batch is tried that is answered with such a status. */
const MAX_ERROR_ATTEMPTS = 2

/**
 * Sends one batch at a time, with an exporter of its own.
 *
 * The exporter repeats a request by itself, on timers that keep the process alive. Here it never gets that far: what it
 * would repeat is shown to it as final (see `OtlpAnswer` and `#fail`), and a second request is refused its headers. An
 * attempt is one request, and the `BatchQueue` alone decides about the next.
 */
export class OtlpExportSlot {
  readonly #exporter: LogRecordExporter
  readonly #options: OtlpLaneOptions
  #requests = 0
  #request: ClientRequest | undefined
  #answer: OtlpAnswer | undefined
  #error: unknown
  #timer: NodeJS.Timeout | undefined
  #released = false

  constructor(options: OtlpLaneOptions, connection: OtlpConnection) {
    this.#options = options
    this.#exporter = options.makeExporter({
      headers: () => this.#headers(),
      makeAgent: (protocol) => connection.watched(protocol, (request) => this.#watch(request)),
    })
  }

  /** Never rejects, and settles soon after `timeoutMs` at the latest. */
  export(records: SdkLogRecord[]): Promise<Outcome> {
    const { timeoutMs, untraced } = this.#options
    this.#requests = 0
    this.#request = undefined
    this.#answer = undefined
    this.#error = undefined
    return new Promise((resolve) => {
      const settle = (outcome: Outcome) => {
        clearTimeout(timer)
        this.#timer = undefined
        resolve(outcome)
      }
      // The exporter's own timeout is one of silence: a trickling answer never ends it.
      const timer = setTimeout(() => {
        settle(this.#read(records, notReady(`gave no complete answer in ${timeoutMs} ms`)))
        this.#request?.destroy()
      }, timeoutMs)
      timer.unref()
      this.#timer = timer
      try {
        untraced(() =>
          this.#exporter.export(records, ({ code, error }) =>
            settle(code === 0 ? this.#accepted(records) : this.#readError(records, error)),
          ),
        )
      } catch (cause) {
        settle({ result: 'split', failure: { reason: 'the exporter threw', cause } })
      }
    })
  }

  /** From now on no request keeps the process alive. */
  release(): void {
    this.#released = true
    this.#request?.socket?.unref()
  }

  /** Ends the exporter. */
  close(): void {
    this.#exporter.shutdown().catch(() => {})
    this.#request?.destroy()
  }

  /** The timeout counts from here, so that the exporter's own does not end before it. */
  async #headers(): Promise<Record<string, string>> {
    if (this.#requests++ > 0) throw new Error('An attempt is one request')
    this.#timer?.refresh()
    return { ...this.#options.headers }
  }

  #watch(request: ClientRequest): void {
    this.#request = request
    request.prependOnceListener('response', (response: IncomingMessage) => {
      this.#answer = new OtlpAnswer(response)
    })
    request.prependListener('error', (error) => this.#fail(error))
    request.once('socket', (socket) => {
      if (this.#released) socket.unref()
    })
  }

  /** Keeps an error of the connection. The exporter, which is told next, repeats nothing that has no code. */
  #fail(error: Error & { code?: unknown }): void {
    this.#error ??= error
    const { code } = error
    error.code = undefined
    queueMicrotask(() => {
      error.code = code
    })
  }

  #accepted(records: readonly unknown[]): Outcome {
    const rejected = Math.min(this.#answer?.rejectedRecords() ?? 0, records.length)
    if (rejected === 0) return { result: 'delivered' }
    const events = records.length
    const failure: Failure = {
      reason: `the collector rejected ${rejected} of ${events} events of a batch (partial success) and does not say which`,
      details: { events, rejected },
    }
    const first = events - rejected
    // The last ones stand for those that it rejected.
    return {
      result: 'delivered',
      rejected: new Map(Array.from({ length: rejected }, (_, index) => [first + index, failure])),
    }
  }

  #readError(records: readonly unknown[], error: unknown): Outcome {
    const { code } = (error ?? {}) as { readonly code?: unknown }
    if (this.#answer === undefined && typeof code === 'number') return refused(code, undefined)
    const cause = this.#error ?? error
    return this.#read(records, notReady(`could not be reached${describeNetworkFailure(cause)}`, cause))
  }

  /**
   * The outcome by the answer's status, if there is one, however the rest of the answer failed to come.
   * The exporter's error is not kept then: it holds the body of the answer, which may repeat a header.
   */
  #read(records: readonly unknown[], unanswered: Outcome): Outcome {
    const answer = this.#answer
    if (answer === undefined) return unanswered
    return answer.accepted ? this.#accepted(records) : refused(answer.status, answer.waitMs)
  }
}

function notReady(what: string, cause?: unknown): Outcome {
  const failure = { reason: `the collector ${what}`, ...(cause === undefined ? {} : { cause }) }
  return { result: 'retry', failure, targetDown: true }
}

/** Redirects are not followed, so they are final. */
function refused(status: number, waitMs: number | undefined): Outcome {
  const failure = {
    reason: `the collector answered ${status}${adviceFor(status)}`,
    details: { status },
  }
  if (RETRYABLE.includes(status)) return { result: 'retry', failure, waitMs, targetDown: true }
  if (status >= 500)
    return { result: 'retry', failure, waitMs, targetDown: 'perhaps', maxAttempts: MAX_ERROR_ATTEMPTS }
  return { result: status === 413 ? 'too-large' : 'failed', failure }
}

function adviceFor(status: number): string {
  if (status === 401 || status === 403) return ' (check the credentials in headers)'
  if (status === 404 || status === 405) return ' (check the path of url; collectors listen on /v1/logs)'
  if (status === 413) return ' (the event was larger than it takes, or than a proxy in front of it does)'
  if (status === 415) return ' (it does not take this encoding or compression)'
  if (status >= 300 && status < 400) return ' (redirects are not followed; give the final url)'
  return ''
}
