import type { Agent, ClientRequest, IncomingMessage } from 'node:http'
import type { LogRecordExporter, LogRecordProcessor } from '@opentelemetry/sdk-logs'
import { describeNetworkFailure } from '../../../base/http/network-failure.ts'
import { responseOf } from '../../../base/http/response-of.ts'
import { counted } from '../../../base/options/counted.ts'
import type { HeaderValues, ReadHeaders } from '../http/target-options.ts'
import type { Failure, Outcome } from '../queue/batch-queue-options.ts'
import { ReasonReader } from '../target-reason.ts'
import type { OtlpConnection } from './otlp-connection.ts'
import { OtlpResponse } from './otlp-response.ts'

/** A record of the OpenTelemetry logs SDK. */
export type SdkLogRecord = Parameters<LogRecordProcessor['onEmit']>[0]

/** The functions that an exporter must use. */
export interface ExporterHooks {
  /** Returns the headers of a request. A rejection ends the export. */
  readonly headers: () => Promise<Record<string, string>>
  readonly makeAgent: (protocol: string) => Promise<Agent>
}

export interface OtlpExportSlotOptions {
  readonly makeExporter: (hooks: ExporterHooks) => LogRecordExporter
  /** Returns the headers of an attempt. */
  readonly headers: ReadHeaders
  /** The URL, whose secrets are removed from the reasons of the collector. */
  readonly url: string
  /** Runs the export outside of the application's spans, so that the request is not traced. */
  readonly untraced: (run: () => void) => void
  readonly timeoutMs: number
  /** Writes a warning to the diagnostics of OpenTelemetry. */
  readonly diagnose: (message: string) => void
}

/** The statuses of a collector that accepts nothing at the moment. All batches wait. */
const OVERLOADED = [429, 503]

/** The statuses after which only the batch is sent again. Collectors use others from 500 on for records that they never accept. */
const RETRYABLE = [408, 502, 504]

/** The maximum number of attempts for a batch with another status from 500 on. */
const MAX_ERROR_ATTEMPTS = 2

/**
 * Sends one batch at a time with its own exporter.
 *
 * The exporter would retry requests itself, on timers that keep the process alive. This class prevents that: it makes
 * retryable responses look final (see `OtlpResponse` and `#fail`), and it does not return headers for a second request. One
 * attempt is one request, and only the `BatchQueue` decides about retries.
 */
export class OtlpExportSlot {
  readonly #exporter: LogRecordExporter
  readonly #options: OtlpExportSlotOptions
  #requests = 0
  #headers: HeaderValues = {}
  #request: ClientRequest | undefined
  #response: OtlpResponse | undefined
  #error: unknown
  #timer: NodeJS.Timeout | undefined
  #released = false

  constructor(options: OtlpExportSlotOptions, connection: OtlpConnection) {
    this.#options = options
    this.#exporter = options.makeExporter({
      headers: () => this.#nextHeaders(),
      makeAgent: (protocol) => connection.watched(protocol, (request) => this.#watch(request)),
    })
  }

  /** Never rejects, and settles soon after `timeoutMs` at the latest, or after the time for a function that returns headers. */
  async export(records: SdkLogRecord[]): Promise<Outcome> {
    try {
      this.#headers = await this.#options.headers()
    } catch (error) {
      return { result: 'retry', failure: { reason: (error as Error).message }, targetDown: true }
    }
    return await this.#send(records)
  }

  #send(records: SdkLogRecord[]): Promise<Outcome> {
    const { timeoutMs, untraced } = this.#options
    const { length } = records
    // The records are released when they are serialized.
    let unsent = records
    this.#requests = 0
    this.#request = undefined
    this.#response = undefined
    this.#error = undefined
    return new Promise((resolve) => {
      const settle = (outcome: Outcome) => {
        clearTimeout(timer)
        this.#timer = undefined
        resolve(outcome)
      }
      // The timeout of the exporter restarts with each part of a response, so a slow response would never end.
      const timer = setTimeout(() => {
        settle(this.#read(length, notReady(`did not send a complete response within ${timeoutMs} ms`)))
        this.#request?.destroy()
      }, timeoutMs)
      if (typeof timer === 'object') timer.unref()
      this.#timer = timer
      try {
        untraced(() =>
          this.#exporter.export(unsent, ({ code, error }) =>
            settle(code === 0 ? this.#accepted(length) : this.#readError(length, error)),
          ),
        )
        unsent = []
      } catch (cause) {
        settle({ result: 'split', failure: { reason: 'the exporter threw', cause } })
      }
    })
  }

  /** From now on, requests do not keep the process alive. */
  release(): void {
    this.#released = true
    this.#request?.socket?.unref()
  }

  /** Ends the exporter. */
  close(): void {
    // All records have settled, so an error of the exporter says nothing about them.
    this.#exporter.shutdown().catch(() => {})
    this.#request?.destroy()
  }

  /** Restarts the timeout, so that the timeout of the exporter does not end first. */
  async #nextHeaders(): Promise<Record<string, string>> {
    if (this.#requests++ > 0) throw new Error('The exporter must not send a second request')
    this.#timer?.refresh?.()
    return { ...this.#headers }
  }

  /** Returns the reason of the collector without the secrets of the URL and of the headers. */
  #quote(reason: unknown): string {
    return reason === undefined ? '' : new ReasonReader(this.#options.url, this.#headers).quote(reason)
  }

  #watch(request: ClientRequest): void {
    this.#request = request
    // Others may read the path when the response arrives, for example for a breadcrumb. It may be a secret.
    const { path } = request
    Object.defineProperty(request, 'path', { get: () => (request.headersSent ? '/' : path) })
    request.prependOnceListener('response', (response: IncomingMessage) => {
      this.#response = new OtlpResponse(response)
    })
    reportSilentEnd(request)
    request.prependListener('error', (error) => this.#fail(error))
    request.once('socket', (socket) => {
      if (this.#released) socket.unref()
    })
  }

  /** Keeps an error of the connection, and hides its code from the exporter, which does not retry errors without a code. */
  #fail(error: Error & { code?: unknown }): void {
    this.#error ??= error
    const { code } = error
    error.code = undefined
    queueMicrotask(() => {
      error.code = code
    })
  }

  #accepted(events: number): Outcome {
    const rejected = Math.min(this.#response?.rejectedRecords() ?? 0, events)
    const said = this.#quote(this.#response?.message())
    if (rejected === 0) {
      if (said !== '') this.#options.diagnose(`the collector accepted a batch with the warning${said}`)
      return { result: 'delivered' }
    }
    const failure: Failure = {
      reason: `the collector rejected ${rejected} of ${counted(events, 'event')} of a batch (partial success) and does not say which${said && `:${said}`}`,
      details: { events, rejected },
    }
    this.#options.diagnose(failure.reason)
    const first = events - rejected
    // The collector does not say which records it rejected, so the last ones count as rejected.
    return {
      result: 'delivered',
      rejected: new Map(Array.from({ length: rejected }, (_, index) => [first + index, failure])),
    }
  }

  #readError(events: number, error: unknown): Outcome {
    const { code } = (error ?? {}) as { readonly code?: unknown }
    if (this.#response === undefined && typeof code === 'number') return this.#refused(code)
    const cause = this.#error ?? error
    return this.#read(events, notReady(`could not be reached${describeNetworkFailure(cause)}`, cause))
  }

  /**
   * Returns the outcome for the status of the response, if there is one, even if the rest of the response is missing. The
   * error of the exporter is not kept, because it contains the whole body of the response, which may repeat a header.
   */
  #read(events: number, withoutResponse: Outcome): Outcome {
    const response = this.#response
    if (response === undefined) return withoutResponse
    return response.accepted ? this.#accepted(events) : this.#refused(response.status, response)
  }

  #refused(status: number, response?: OtlpResponse): Outcome {
    const said = this.#quote(response?.message())
    const outcome = refused(status, said, response?.waitMs)
    this.#options.diagnose(outcome.failure.reason)
    return outcome
  }
}

/** Emits an error if a request ends with neither a response nor an error, as after 101. The exporter would wait forever. */
function reportSilentEnd(request: ClientRequest): void {
  let isReported = false
  for (const event of ['response', 'error']) {
    request.once(event, () => {
      isReported = true
    })
  }
  responseOf(request).catch((error) => isReported || request.emit('error', error))
}

function notReady(what: string, cause?: unknown): Outcome {
  const failure = { reason: `the collector ${what}`, ...(cause === undefined ? {} : { cause }) }
  return { result: 'retry', failure, targetDown: true }
}

/** Redirects are not followed, so they are final. */
function refused(
  status: number,
  said: string,
  waitMs: number | undefined,
): Outcome & { readonly failure: Failure } {
  const failure = {
    reason: `the collector responded with ${status}${adviceFor(status)}${said}`,
    details: { status },
  }
  if (OVERLOADED.includes(status)) return { result: 'retry', failure, waitMs, targetDown: true }
  if (RETRYABLE.includes(status)) return { result: 'retry', failure }
  if (status >= 500) return { result: 'retry', failure, maxAttempts: MAX_ERROR_ATTEMPTS }
  return { result: status === 413 ? 'split' : 'failed', failure }
}

function adviceFor(status: number): string {
  if (status === 401 || status === 403) return ' (check the credentials in headers)'
  if (status === 404 || status === 405) return ' (check the path of url; collectors listen on /v1/logs)'
  if (status === 413) return ' (the event is larger than the collector or a proxy in front of it allows)'
  if (status === 415) return ' (it does not support this encoding or compression)'
  if (status >= 300 && status < 400) return ' (redirects are not followed; set url to the final URL)'
  return ''
}
