import { isOptionsObject } from '../../../base/options/option-kit.ts'
import { optional, type RulesFor } from '../../../base/options/option-rules.ts'
import type { TelemetryTransport } from '../../delivery/transport.ts'
import type { TelemetryEnvelope } from '../../envelope/envelope.ts'
import { telemetryOptions } from '../../options.ts'
import { BatchQueue } from '../queue/batch-queue.ts'
import type { Outcome } from '../queue/batch-queue-options.ts'
import { countFrom, timeoutMs } from '../transport-options.ts'
import { HttpTarget, jsonHeaders, type PostResult } from './http-target.ts'
import {
  CONNECTION_RULES,
  checkHeaders,
  checkUrl,
  type GivenHeaders,
  headersReader,
  type ReadHeaders,
  readTargetOptions,
  type TargetConnectionOptions,
} from './target-options.ts'

const { checkKnownOptions, checkMs, checkWholeNumber, invalidKind, invalidOption } = telemetryOptions

/** The options of `HttpTransportAdapter.create()`. */
export interface HttpTransportOptions extends TargetConnectionOptions {
  /** The URL that receives the events: `http:` or `https:`, without credentials. */
  readonly url: string | URL
  /**
   * The headers of every request, or a function that returns them, or a promise of them, before each attempt. An attempt fails if
   * the function throws, or takes more than 5 seconds. They replace default headers of the same name, ignoring case. Defaults to
   * none.
   */
  readonly headers?: GivenHeaders | (() => GivenHeaders | Promise<GivenHeaders>) | undefined
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
  /**
   * The body of a request. `json` is an envelope, or an array of envelopes with `batch`. `ndjson` is one line of JSON for each
   * envelope. A function returns the body of one or more envelopes, and its media type. Defaults to `json`.
   */
  readonly serialize?: 'json' | 'ndjson' | SerializeEnvelopes | undefined
  /** Compresses bodies of at least 1,024 bytes with gzip. Defaults to `false`. */
  readonly gzip?: boolean | undefined
}

/** Returns the body of a request for one or more envelopes, and its media type, such as `application/json`. */
export type SerializeEnvelopes = (envelopes: readonly TelemetryEnvelope[]) => {
  readonly body: string | Uint8Array
  readonly contentType: string
}

const RULES = {
  url: checkUrl,
  headers: optional<ReadHeaders, ReadHeaders>(headersReader(checkHeaders), () => ({})),
  timeout: optional(timeoutMs, 5000),
  retries: optional(countFrom(0), 0),
  batch: optional(checkBatch),
  serialize: optional(checkSerialize, 'json'),
  gzip: optional<boolean, boolean>(telemetryOptions.checkBoolean, false),
  ...CONNECTION_RULES,
} satisfies RulesFor<HttpTransportOptions>

/** Full jitter, so that several processes do not send at the same time. */
const BACK_OFF = { firstMs: 250, maxMs: 30_000 }

/** The size from which on a body is compressed, in bytes. */
const MIN_GZIP_BYTES = 1024

/** If the target asks for a longer pause, waiting events fail. */
const MAX_WAIT_MS = 600_000

/**
 * Posts events to a collector, as JSON by default, in order, one request at a time. Set `batch` for a high rate of events. Redirects are
 * not followed.
 *
 * With `retries`, events are delivered at least once, because an attempt that timed out may have arrived. The wait between
 * attempts is random. Its maximum is 250 ms, doubled with each attempt, up to 30 s. If the target responds with 429, 408, or
 * 5xx and a `Retry-After` header, no event is sent before that time. Events fail if that is more than ten minutes away.
 *
 * @example
 * ```ts
 * import { HttpTransportAdapter, KitTelemetry } from 'mcp-gatekit/telemetry'
 *
 * KitTelemetry.create().addTransport(
 *   HttpTransportAdapter.create({
 *     url: 'https://collector.example.com/events',
 *     retries: 3,
 *     batch: { maxSize: 100, maxDelayMs: 1_000 },
 *   }),
 * )
 * ```
 * @see docs/reference/transports.md
 */
export class HttpTransportAdapter implements TelemetryTransport {
  readonly type: string = 'http'
  readonly #queue: BatchQueue<TelemetryEnvelope>

  private constructor(queue: BatchQueue<TelemetryEnvelope>) {
    this.#queue = queue
  }

  /**
   * Creates the transport.
   * @param options the URL, and how to send.
   * @throws {KitTelemetryError} `TELEMETRY_CONFIGURATION_INVALID` if an option is invalid. The message contains neither
   * the URL nor the value of a header.
   */
  static create(options: HttpTransportOptions): HttpTransportAdapter {
    const {
      url,
      headers: readHeaders,
      timeout,
      retries,
      batch,
      serialize,
      gzip,
      ...connection
    } = readTargetOptions('HttpTransportAdapter.create', options, RULES, ['url'])
    const target = new HttpTarget(url, connection)
    const contentOf: SerializeEnvelopes = (envelopes) => {
      if (typeof serialize === 'function') return serialize(envelopes)
      const lines = envelopes.map((envelope) => JSON.stringify(envelope))
      if (serialize === 'ndjson')
        return { body: lines.map((line) => `${line}\n`).join(''), contentType: 'application/x-ndjson' }
      const body = batch === undefined ? lines.join('') : `[${lines.join(',')}]`
      return { body, contentType: 'application/json' }
    }
    const queue = new BatchQueue<TelemetryEnvelope>({
      type: 'http',
      ordered: true,
      maxItems: batch?.maxSize ?? 1,
      delayMs: batch?.maxDelayMs ?? 0,
      maxAttempts: retries + 1,
      maxWaitMs: MAX_WAIT_MS,
      backOff: BACK_OFF,
      send: async (envelopes, { signal }) => {
        const headers = jsonHeaders()
        const { body, contentType } = checkContent(contentOf(envelopes))
        headers.set('content-type', contentType)
        const compressed = gzip ? await compress(body) : undefined
        try {
          for (const [name, value] of Object.entries(await readHeaders())) headers.set(name, value)
        } catch (error) {
          return { result: 'retry', failure: { reason: (error as Error).message } }
        }
        if (compressed !== undefined) headers.set('content-encoding', 'gzip')
        return outcomeOf(await target.post(headers, compressed ?? body, timeout, signal))
      },
    })
    return new HttpTransportAdapter(queue)
  }

  /**
   * Sends an event.
   * @param envelope the event.
   * @returns a promise that resolves when the target has responded with 2xx, and rejects with `TELEMETRY_TRANSPORT_FAILED`
   * after the last attempt.
   */
  handle(envelope: TelemetryEnvelope): Promise<void> {
    return this.#queue.add(envelope)
  }

  /**
   * Sends all events, even if a batch is not full. Resolves when they are delivered or have failed.
   * @param deadline when it aborts, the promise resolves.
   */
  flush(deadline?: AbortSignal): Promise<void> {
    return this.#queue.flush(deadline)
  }

  /**
   * Flushes. Later events fail.
   * @param deadline when it aborts, nothing more is sent, and a pending request is aborted.
   */
  shutdown(deadline?: AbortSignal): Promise<void> {
    return this.#queue.close(deadline)
  }
}

function checkBatch(option: string, value: unknown): NonNullable<HttpTransportOptions['batch']> {
  if (!isOptionsObject(value)) throw invalidKind(option, 'must be an object, { maxSize, maxDelayMs }', value)
  checkKnownOptions(option, value, ['maxSize', 'maxDelayMs'])
  const { maxSize, maxDelayMs } = value as Record<string, unknown>
  return {
    maxSize: checkWholeNumber(`maxSize of ${option}`, maxSize, 1, Number.MAX_SAFE_INTEGER),
    maxDelayMs: checkMs(`maxDelayMs of ${option}`, maxDelayMs, 0),
  }
}

function checkSerialize(option: string, value: unknown): 'json' | 'ndjson' | SerializeEnvelopes {
  if (typeof value === 'function') return value as SerializeEnvelopes
  if (value === 'json' || value === 'ndjson') return value
  throw invalidOption(option, "must be 'json', 'ndjson', or a function", value)
}

/** @throws {TypeError} if a function of the application has not returned a body and its media type. */
function checkContent(content: ReturnType<SerializeEnvelopes>): ReturnType<SerializeEnvelopes> {
  if (content instanceof Promise) content.catch(() => {})
  const { body, contentType } = content
  if (typeof contentType === 'string' && (typeof body === 'string' || body instanceof Uint8Array))
    return content
  throw new TypeError('serialize must return { body, contentType }')
}

/** Returns a body with gzip, or `undefined` if it is too small. */
async function compress(body: string | Uint8Array): Promise<Uint8Array | undefined> {
  const content = new Blob([body as string])
  if (content.size < MIN_GZIP_BYTES) return undefined
  const compressed = content.stream().pipeThrough(new CompressionStream('gzip'))
  return new Uint8Array(await new Response(compressed).arrayBuffer())
}

function outcomeOf(result: PostResult): Outcome {
  const { status } = result
  if (status === undefined) return { result: 'retry', failure: { reason: `the target ${result.reason}` } }
  if (status >= 200 && status < 300) return { result: 'delivered' }
  const failure = { reason: `the target responded with ${status}${adviceFor(status)}`, details: { status } }
  if (status === 408 || status === 429 || status >= 500)
    return { result: 'retry', failure, waitMs: result.retryAfterMs }
  // One of the events may be too large for the target.
  return { result: status === 413 ? 'split' : 'failed', failure }
}

function adviceFor(status: number): string {
  if (status === 401 || status === 403) return ' (check the credentials in headers)'
  if (status === 404 || status === 405) return ' (check the path of url)'
  if (status === 413) return ' (the body is too large; lower batch.maxSize)'
  if (status >= 300 && status < 400) return ' (redirects are not followed; set url to the final URL)'
  return ''
}
