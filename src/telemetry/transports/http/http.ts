import { isOptionsObject } from '../../../options/option-kit.ts'
import type { TelemetryTransport } from '../../delivery/transport.ts'
import type { TelemetryEnvelope } from '../../envelope/envelope.ts'
import { telemetryOptions } from '../../options.ts'
import { BatchQueue } from '../queue/batch-queue.ts'
import type { Outcome } from '../queue/batch-queue-options.ts'
import { HttpTarget, jsonHeaders, type PostResult } from './http-target.ts'
import {
  CONNECTION_CHECKS,
  checkConnection,
  checkHeaders,
  checkUrl,
  readTargetOptions,
  type TargetConnectionOptions,
} from './target-options.ts'

const { checkKnownOptions, checkMs, checkWholeNumber, invalidKind } = telemetryOptions

/** The options of `HttpTransportAdapter.create()`. */
export interface HttpTransportOptions extends TargetConnectionOptions {
  /** The URL that receives the events: `http:` or `https:`, without credentials. */
  readonly url: string
  /** The headers of every request. They replace default headers of the same name, ignoring case. Defaults to none. */
  readonly headers?: Readonly<Record<string, string>> | undefined
  /** The maximum duration of an attempt, including the response, in milliseconds above 0. Defaults to 5 000 ms. */
  readonly timeout?: number | undefined
  /** The number of further attempts after a network error, a timeout, or the status 408, 429, or 5xx. Defaults to 0. */
  readonly retries?: number | undefined
  /** Sends arrays of envelopes, even for a single one. By default, each envelope is sent on its own, as an object. */
  readonly batch?:
    | {
        /** The maximum number of events of a request, at least 1. */
        readonly maxSize: number
        /** The time that an event waits for others, in milliseconds, at least 0. */
        readonly maxDelayMs: number
      }
    | undefined
}

/** With full jitter, so that several processes do not send in step. */
const BACK_OFF = { firstMs: 250, maxMs: 30_000 }

/** If the target asks for a longer wait, what waits fails. */
const MAX_WAIT_MS = 600_000

/**
 * Posts events to a collector as JSON, in their order and one request at a time; where many events come, give `batch`.
 * Redirects are not followed.
 *
 * Delivery is at least once where `retries` is not 0: an attempt that ran out of time may have arrived. Waits between
 * attempts are random, up to 250 ms doubled each time, 30 s at most; where the target says `Retry-After` with 429, 408
 * or 5xx, nothing is sent before, other events included. An event that would have to wait over ten minutes fails.
 *
 * @example
 * HttpTransportAdapter.create({ url: 'https://collector.example/events', retries: 3 })
 */
export class HttpTransportAdapter implements TelemetryTransport {
  readonly type: string = 'http'
  readonly #queue: BatchQueue<TelemetryEnvelope>
  readonly #target: HttpTarget

  private constructor(queue: BatchQueue<TelemetryEnvelope>, target: HttpTarget) {
    this.#queue = queue
    this.#target = target
  }

  /**
   * Makes the transport.
   * @throws {KitTelemetryError} `TELEMETRY_CONFIGURATION_INVALID` for an option that cannot be. Neither the url nor a
   * header's value is in any message.
   */
  static create(options: HttpTransportOptions): HttpTransportAdapter {
    const {
      url,
      headers: given = {},
      timeout = 5000,
      retries = 0,
      batch,
      ...connection
    } = readTargetOptions('HttpTransportAdapter', options, ['url'], {
      url: checkUrl,
      headers: checkHeaders,
      timeout: (option, value) => checkMs(option, value, 'more than 0'),
      retries: (option, value) => checkWholeNumber(option, value, 0, Number.MAX_SAFE_INTEGER),
      batch: checkBatch,
      ...CONNECTION_CHECKS,
    })
    checkConnection('HttpTransportAdapter', connection, url)
    const target = new HttpTarget(url, connection)
    const headers = jsonHeaders()
    for (const [name, value] of Object.entries(given)) if (value !== undefined) headers.set(name, value)
    const queue = new BatchQueue<TelemetryEnvelope>({
      type: 'http',
      ordered: true,
      maxItems: batch?.maxSize ?? 1,
      delayMs: batch?.maxDelayMs ?? 0,
      maxAttempts: retries + 1,
      maxWaitMs: MAX_WAIT_MS,
      backOff: BACK_OFF,
      send: async (envelopes, { signal }) => {
        const body = JSON.stringify(batch === undefined ? envelopes[0] : envelopes)
        return outcomeOf(await target.post(headers, body, timeout, signal))
      },
    })
    return new HttpTransportAdapter(queue, target)
  }

  /**
   * Resolves when a request that carried the event was answered 2xx.
   * @throws {KitTelemetryError} `TELEMETRY_TRANSPORT_FAILED`, by rejecting, when there is no attempt left
   */
  handle(envelope: TelemetryEnvelope): Promise<void> {
    return this.#queue.add(envelope)
  }

  /** Sends a batch that is not full yet; resolves when everything is delivered or has failed for good. */
  flush(): Promise<void> {
    return this.#queue.flush()
  }

  /**
   * Flushes. An event that comes later fails.
   * @param deadline when it aborts, nothing more is sent, and a request under way does not keep the process alive
   */
  async shutdown(deadline?: AbortSignal): Promise<void> {
    await this.#queue.close(deadline)
    await this.#target.close()
  }
}

function checkBatch(option: string, value: unknown): void {
  if (!isOptionsObject(value)) throw invalidKind(option, 'must be an object, { maxSize, maxDelayMs }', value)
  checkKnownOptions(option, value, ['maxSize', 'maxDelayMs'])
  const { maxSize, maxDelayMs } = value as Record<string, unknown>
  checkWholeNumber(`maxSize of ${option}`, maxSize, 1, Number.MAX_SAFE_INTEGER)
  checkMs(`maxDelayMs of ${option}`, maxDelayMs, 0)
}

function outcomeOf(answer: PostResult): Outcome {
  const { status } = answer
  if (status === undefined) return { result: 'retry', failure: { reason: `the target ${answer.reason}` } }
  if (status >= 200 && status < 300) return { result: 'delivered' }
  const failure = { reason: `the target answered ${status}${adviceFor(status)}`, details: { status } }
  if (status === 408 || status === 429 || status >= 500)
    return { result: 'retry', failure, waitMs: answer.retryAfterMs }
  // One of the events may be too large for the target.
  return { result: status === 413 ? 'split' : 'failed', failure }
}

function adviceFor(status: number): string {
  if (status === 401 || status === 403) return ' (check the credentials in headers)'
  if (status === 404 || status === 405) return ' (check the path of url)'
  if (status === 413) return ' (the body was too large; lower batch.maxSize)'
  if (status >= 300 && status < 400) return ' (redirects are not followed; give the final url)'
  return ''
}
