import type { TelemetryEnvelope } from '../envelope.ts'
import { invalidKind, unknownOption } from '../options.ts'
import type { TelemetryTransport } from '../transport.ts'
import { type Answer, HttpTarget, jsonHeaders } from './http-target.ts'
import { Outbox, type Outcome } from './outbox.ts'
import {
  CONNECTION_CHECKS,
  checkConnection,
  checkCount,
  checkHeaders,
  checkMs,
  checkUrl,
  readTargetOptions,
  type TargetConnectionOptions,
} from './target-options.ts'

/** When a batch leaves. */
export interface HttpBatchOptions {
  /** Most events of one request, a whole number from 1. */
  readonly maxSize: number
  /** How long an event waits for others, in milliseconds, from 0. */
  readonly maxDelayMs: number
}

/** What `HttpTransportAdapter.create()` takes. */
export interface HttpTransportOptions extends TargetConnectionOptions {
  /** Where to post, `http:` or `https:`, without credentials. */
  readonly url: string
  /** Headers of every request. One replaces a default of the same name, whatever its case. Default none. */
  readonly headers?: Readonly<Record<string, string>> | undefined
  /** How long an attempt may take, its answer included, in milliseconds above 0. Default 5000. */
  readonly timeout?: number | undefined
  /** Further attempts after a network error, a timeout, 408, 429 or 5xx; a whole number. Default 0. */
  readonly retries?: number | undefined
  /** Sends arrays of envelopes, also of a single one. Default: each envelope by itself, as an object. */
  readonly batch?: HttpBatchOptions | undefined
}

/** Longest wait before the second attempt; it doubles with each further one. */
const BACKOFF_MS = 250
const MAX_BACKOFF_MS = 30_000

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
  readonly #outbox: Outbox<TelemetryEnvelope>

  private constructor(outbox: Outbox<TelemetryEnvelope>) {
    this.#outbox = outbox
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
      timeout: checkMs('above zero'),
      retries: checkCount(0),
      batch: checkBatch,
      ...CONNECTION_CHECKS,
    })
    checkConnection('HttpTransportAdapter', connection, url)
    const target = new HttpTarget(url, connection)
    const headers = jsonHeaders()
    for (const [name, value] of Object.entries(given)) if (value !== undefined) headers.set(name, value)
    const { maxSize: maxItems = 1, maxDelayMs: windowMs = 0 } = batch ?? {}
    const send = async (envelopes: readonly TelemetryEnvelope[], attempt: number): Promise<Outcome> => {
      const body = JSON.stringify(batch === undefined ? envelopes[0] : envelopes)
      return outcomeOf(await target.post(headers, body, timeout), attempt, retries)
    }
    return new HttpTransportAdapter(new Outbox({ type: 'http', target, maxItems, windowMs, paceMs: 0, send }))
  }

  /**
   * Resolves when a request that carried the event was answered 2xx.
   * @throws {KitTelemetryError} `TELEMETRY_TRANSPORT_FAILED`, by rejecting, when there is no attempt left
   */
  handle(envelope: TelemetryEnvelope): Promise<void> {
    return this.#outbox.add(envelope)
  }

  /** Sends a batch that is not full yet; resolves when everything is delivered or has failed for good. */
  flush(): Promise<void> {
    return this.#outbox.flush()
  }

  /** Flushes. An event that comes later fails. */
  shutdown(): Promise<void> {
    return this.#outbox.close()
  }
}

function checkBatch(value: unknown, option: string): void {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) {
    throw invalidKind(option, 'an object, { maxSize, maxDelayMs }', value)
  }
  const checks = { maxSize: checkCount(1), maxDelayMs: checkMs('zero') }
  for (const member of Object.keys(value)) {
    if (!Object.hasOwn(checks, member)) throw unknownOption(option, member, Object.keys(checks))
  }
  const { maxSize, maxDelayMs } = value as Record<string, unknown>
  checks.maxSize(maxSize, `maxSize of ${option}`)
  checks.maxDelayMs(maxDelayMs, `maxDelayMs of ${option}`)
}

function outcomeOf(answer: Answer, attempt: number, retries: number): Outcome {
  const { status } = answer
  if (status !== undefined && status >= 200 && status < 300) return {}
  const passing = status === undefined || status === 408 || status === 429 || status >= 500
  const again = passing && attempt <= retries
  const askedMs = passing && status !== undefined ? answer.retryAfterMs : undefined
  const failed =
    status === undefined ? `the target ${answer.reason}` : `the target answered ${status}${adviceFor(status)}`
  return { failed, status, again, waitMs: askedMs ?? (again ? backoffMs(attempt) : 0) }
}

/** Full jitter, so that several processes do not knock in step. */
function backoffMs(attempt: number): number {
  return Math.random() * Math.min(BACKOFF_MS * 2 ** (attempt - 1), MAX_BACKOFF_MS)
}

function adviceFor(status: number): string {
  if (status === 401 || status === 403) return ' (check the credentials in headers)'
  if (status === 404 || status === 405) return ' (check the path of url)'
  if (status === 413) return ' (the body was too large; lower batch.maxSize)'
  if (status >= 300 && status < 400) return ' (redirects are not followed; give the final url)'
  return ''
}
