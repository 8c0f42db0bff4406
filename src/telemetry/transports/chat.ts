import type { TelemetryEnvelope } from '../envelope.ts'
import { LEVEL_PRIORITY, type TelemetryLevel } from '../levels.ts'
import type { TelemetryTransport } from '../transport.ts'
import { type Digest, digestOf } from './digest.ts'
import { type Answer, HttpTarget, jsonHeaders } from './http-target.ts'
import { Outbox, type Outcome } from './outbox.ts'
import { checkConnection, type TargetConnectionOptions } from './target-options.ts'

/** An answer with a status. */
export type ChatAnswer = Extract<Answer, { readonly status: number }>

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
  readonly waitMs?: (answer: ChatAnswer) => number | undefined
  /** Whether a message that was refused is to be sent once more, for a reason of the service's own. */
  readonly sendAgain?: (answer: ChatAnswer) => boolean
  /** What to check when the service answers 400, and when it answers what is final. */
  readonly advice: { readonly refused: string; readonly gone: string }
}

/** How long an event waits for others of its burst. */
const WINDOW_MS = 50
const TIMEOUT_MS = 10_000
/** How often a message is sent that the service puts off. */
const MAX_ATTEMPTS = 8
/** First wait where the service puts a message off without saying for how long. */
const UNSAID_WAIT_MS = 1000

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
  readonly #outbox: Outbox<TelemetryEnvelope>

  /** @internal */
  protected constructor(options: ChatOptions) {
    this.type = options.type
    this.#options = options
    this.#minPriority = LEVEL_PRIORITY[options.minLevel]
    checkConnection(options.adapter, options.connection, options.url)
    this.#target = new HttpTarget(options.url, options.connection)
    this.#outbox = new Outbox({
      type: options.type,
      target: this.#target,
      maxItems: Number.POSITIVE_INFINITY,
      windowMs: WINDOW_MS,
      paceMs: options.paceMs,
      send: (envelopes, attempt) => this.#send(envelopes, attempt),
    })
  }

  /**
   * Resolves when a message that tells of the event was taken.
   * @returns nothing for an event below `minLevel`
   * @throws {KitTelemetryError} `TELEMETRY_TRANSPORT_FAILED`, by rejecting, when the message has failed
   */
  handle(envelope: TelemetryEnvelope): Promise<void> | void {
    if (LEVEL_PRIORITY[envelope.level] < this.#minPriority) return
    return this.#outbox.add(envelope)
  }

  /** Sends what is buffered as soon as the service's pace allows; resolves when it is delivered or has failed for good. */
  flush(): Promise<void> {
    return this.#outbox.flush()
  }

  /** Flushes. An event that comes later fails. */
  shutdown(): Promise<void> {
    return this.#outbox.close()
  }

  async #send(envelopes: readonly TelemetryEnvelope[], attempt: number): Promise<Outcome> {
    const message = this.#options.message(digestOf(envelopes))
    const answer = await this.#target.post(jsonHeaders(), JSON.stringify(message), TIMEOUT_MS)
    return this.#outcome(answer, attempt)
  }

  #outcome(answer: Answer, attempt: number): Outcome {
    const { service, advice } = this.#options
    const { status } = answer
    if (status === undefined) return { failed: `${service} ${answer.reason}` }
    const askedMs = this.#options.waitMs?.(answer)
    if (status >= 200 && status < 300) return { waitMs: askedMs }
    const mend = status === 400 ? advice.refused : FINAL.includes(status) ? advice.gone : undefined
    const failed = `${service} answered ${status}${mend === undefined ? '' : ` (${mend})`}`
    if (FINAL.includes(status)) return { failed, status, final: true }
    const headerMs = status === 429 || status >= 500 ? answer.retryAfterMs : undefined
    const waitMs = Math.max(headerMs ?? 0, askedMs ?? 0)
    if (status !== 429) {
      const again = this.#options.sendAgain?.(answer) === true && attempt < MAX_ATTEMPTS
      return { failed, status, waitMs, again }
    }
    const said = headerMs !== undefined || askedMs !== undefined
    return {
      failed,
      status,
      waitMs: said ? waitMs : UNSAID_WAIT_MS * 2 ** (attempt - 1),
      again: attempt < MAX_ATTEMPTS,
    }
  }
}
