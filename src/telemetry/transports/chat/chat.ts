import type { TelemetryTransport } from '../../delivery/transport.ts'
import type { TelemetryEnvelope } from '../../envelope/envelope.ts'
import { LEVEL_PRIORITY, type TelemetryLevel } from '../../levels.ts'
import { HttpTarget, jsonHeaders, type PostResult } from '../http/http-target.ts'
import { checkConnection, type TargetConnectionOptions } from '../http/target-options.ts'
import { BatchQueue } from '../queue/batch-queue.ts'
import type { Outcome } from '../queue/batch-queue-options.ts'
import { type Digest, digestOf } from './digest.ts'

/** An answer with a status. */
export type ChatResponse = Extract<PostResult, { readonly status: number }>

export interface ChatOptions {
  /** The transport's type. */
  readonly type: string
  /** The service's name, for errors. */
  readonly service: string
  readonly minLevel: TelemetryLevel
  /** How long a chat is left alone after a message. */
  readonly paceMs: number
  /** The adapter's name, for errors of its options. */
  readonly adapter: string
  readonly url: string
  readonly connection: TargetConnectionOptions
  /** The message about a digest, as the service takes it. */
  readonly message: (digest: Digest) => object
  /** How long the service asks to be left alone in a way of its own, in milliseconds. */
  readonly waitMs?: (answer: ChatResponse) => number | undefined
  /** Whether a message that was refused is to be sent once more, for a reason of the service's own. */
  readonly sendAgain?: (answer: ChatResponse) => boolean
  /** What to check when the service answers 400, and when it answers what is final. */
  readonly advice: { readonly refused: string; readonly gone: string }
}

/** How long an event waits for others of its burst. */
const WINDOW_MS = 50
const TIMEOUT_MS = 10_000
/** How often a message is sent that the service puts off. */
const MAX_ATTEMPTS = 8
/** How long to wait if the service puts a message off without saying for how long. */
const BACK_OFF = { firstMs: 1000, maxMs: 128_000, minShare: 1 }
/** If the service asks for a longer wait, what waits fails. */
const MAX_WAIT_MS = 600_000

/** Once one of these was answered, the next request would be answered in the same way. */
const FINAL = [401, 403, 404, 410]

/**
 * Tells a chat of events. A burst becomes one message, and what comes while the chat must be left alone becomes the
 * next. A message is repeated when the service has put it off, and never when it may have arrived.
 */
export abstract class ChatTransport implements TelemetryTransport {
  readonly type: string
  readonly #options: ChatOptions
  readonly #minPriority: number
  readonly #target: HttpTarget
  readonly #queue: BatchQueue<TelemetryEnvelope>

  /** @internal */
  protected constructor(options: ChatOptions) {
    this.type = options.type
    this.#options = options
    this.#minPriority = LEVEL_PRIORITY[options.minLevel]
    checkConnection(options.adapter, options.connection, options.url)
    this.#target = new HttpTarget(options.url, options.connection)
    this.#queue = new BatchQueue({
      type: options.type,
      ordered: true,
      delayMs: WINDOW_MS,
      paceMs: options.paceMs,
      maxAttempts: MAX_ATTEMPTS,
      maxWaitMs: MAX_WAIT_MS,
      backOff: BACK_OFF,
      send: (envelopes, { signal }) => this.#send(envelopes, signal),
    })
  }

  /**
   * Resolves when a message that tells of the event was taken.
   * @returns nothing for an event below `minLevel`
   * @throws {KitTelemetryError} `TELEMETRY_TRANSPORT_FAILED`, by rejecting, when the message has failed
   */
  handle(envelope: TelemetryEnvelope): Promise<void> | void {
    if (LEVEL_PRIORITY[envelope.level] < this.#minPriority) return
    return this.#queue.add(envelope)
  }

  /** Sends what is buffered as soon as the service's pace allows; resolves when it is delivered or has failed for good. */
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

  async #send(envelopes: readonly TelemetryEnvelope[], released: AbortSignal): Promise<Outcome> {
    const message = this.#options.message(digestOf(envelopes))
    const answer = await this.#target.post(jsonHeaders(), JSON.stringify(message), TIMEOUT_MS, released)
    return this.#outcomeOf(answer)
  }

  #outcomeOf(answer: PostResult): Outcome {
    const { service, advice } = this.#options
    const { status } = answer
    // It may have arrived.
    if (status === undefined) return { result: 'failed', failure: { reason: `${service} ${answer.reason}` } }
    const askedMs = this.#options.waitMs?.(answer)
    if (status >= 200 && status < 300) return { result: 'delivered', waitMs: askedMs }
    const hint = status === 400 ? advice.refused : FINAL.includes(status) ? advice.gone : undefined
    const reason = `${service} answered ${status}${hint === undefined ? '' : ` (${hint})`}`
    const failure = { reason, details: { status } }
    if (FINAL.includes(status)) return { result: 'stop', failure, forGood: true }
    const headerMs = status === 429 || status >= 500 ? answer.retryAfterMs : undefined
    const said = headerMs !== undefined || askedMs !== undefined
    const waitMs = Math.max(headerMs ?? 0, askedMs ?? 0)
    if (status === 429) return { result: 'retry', failure, waitMs: said ? waitMs : undefined }
    return { result: this.#options.sendAgain?.(answer) === true ? 'retry' : 'failed', failure, waitMs }
  }
}
