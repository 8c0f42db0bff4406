import { auditObstacle, minPriority, type TelemetryTransport } from '../../delivery/transport.ts'
import type { TelemetryEnvelope } from '../../envelope/envelope.ts'
import { LEVEL_PRIORITY, type TelemetryLevel } from '../../levels.ts'
import { HttpTarget, jsonHeaders, type PostResult } from '../http/http-target.ts'
import type { TargetConnectionOptions } from '../http/target-options.ts'
import { BatchQueue } from '../queue/batch-queue.ts'
import type { Outcome } from '../queue/batch-queue-options.ts'
import { type Alert, AlertGroups, type Digest, digestOf } from './digest.ts'

/** A response with a status. */
export type ChatResponse = Extract<PostResult, { readonly status: number }>

/** The options that all chats share. */
export interface ChatOptions extends TargetConnectionOptions {
  /** The minimum level. Events below it are ignored. Defaults to `warn`. */
  readonly minLevel?: TelemetryLevel | undefined
  /**
   * Groups events of the same name, level, and kind of error, in milliseconds. The first one is sent at once. The following ones
   * are counted, and one message with their number and the latest of them is sent after this time, or at a flush. Defaults to 0:
   * every event is sent.
   */
  readonly groupMs?: number | undefined
}

/** The parts of a chat that depend on the service. */
export interface ChatFormat {
  /** The type of the transport. */
  readonly type: string
  /** The name of the service, for errors. */
  readonly service: string
  /** The pause after each message. */
  readonly paceMs: number
  /** The advice for the status 400 and for a final status. */
  readonly advice: { readonly refused: string; readonly gone: string }
  /** Returns the pause that the response asks for in a format of the service, in milliseconds. */
  readonly waitMs?: (response: ChatResponse) => number | undefined
  readonly url: string
  /** Returns the message about a digest, in the format of the service. */
  readonly message: (digest: Digest) => object
  /** Returns `true` if a rejected message should be sent again, for a reason that is specific to the service. */
  readonly sendAgain?: (response: ChatResponse) => boolean
}

/** The time that an event waits for others. */
const WINDOW_MS = 50
const TIMEOUT_MS = 10_000
/** The maximum number of attempts for a message that the service delays. */
const MAX_ATTEMPTS = 8
/** The wait if the service delays a message without naming a time. */
const BACK_OFF = { firstMs: 1000, maxMs: 128_000, minShare: 1 }
/** If the service asks for a longer pause, waiting events fail. */
const MAX_WAIT_MS = 600_000

/** The statuses after which every further request would fail too. */
const FINAL = [401, 403, 404, 410]

/**
 * Sends messages about events to a chat. Events of a burst become one message, and events during a pause become the next
 * one. With `groupMs`, events of the same group are counted. A message is sent again if the service delays it, and never if it may have arrived.
 */
export abstract class ChatTransport implements TelemetryTransport {
  readonly type: string
  /** @internal */
  readonly [auditObstacle]: string = 'Use a transport that writes events as JSON'
  /** @internal */
  readonly [minPriority]: number
  readonly #format: ChatFormat
  readonly #target: HttpTarget
  readonly #queue: BatchQueue<Alert>
  readonly #groups: AlertGroups

  /** @internal */
  protected constructor(
    format: ChatFormat,
    {
      minLevel,
      groupMs,
      ...connection
    }: TargetConnectionOptions & { readonly minLevel: TelemetryLevel; readonly groupMs: number },
  ) {
    const { type, paceMs, url } = format
    this.type = type
    this[minPriority] = LEVEL_PRIORITY[minLevel]
    this.#format = format
    this.#target = new HttpTarget(url, connection)
    this.#queue = new BatchQueue({
      type,
      ordered: true,
      delayMs: WINDOW_MS,
      paceMs,
      maxAttempts: MAX_ATTEMPTS,
      maxWaitMs: MAX_WAIT_MS,
      backOff: BACK_OFF,
      send: (alerts, { signal }) => this.#send(alerts, signal),
    })
    this.#groups = new AlertGroups(groupMs, (alert) => this.#queue.add(alert))
  }

  /**
   * Sends a message about an event.
   * @param envelope the event.
   * @returns `undefined` for an event below `minLevel`. Otherwise a promise that resolves when the service has accepted the
   * message, and rejects with `TELEMETRY_TRANSPORT_FAILED` if the message has failed.
   */
  handle(envelope: TelemetryEnvelope): Promise<void> | void {
    if (LEVEL_PRIORITY[envelope.level] < this[minPriority]) return
    return this.#groups.add(envelope)
  }

  /**
   * Sends buffered events as soon as the service allows. Resolves when they are delivered or have failed.
   * @param deadline when it aborts, the promise resolves.
   */
  flush(deadline?: AbortSignal): Promise<void> {
    this.#groups.release()
    return this.#queue.flush(deadline)
  }

  /**
   * Flushes. Later events fail.
   * @param deadline when it aborts, nothing more is sent, and a pending request is aborted.
   */
  async shutdown(deadline?: AbortSignal): Promise<void> {
    this.#groups.close()
    await this.#queue.close(deadline)
  }

  async #send(alerts: readonly Alert[], released: AbortSignal): Promise<Outcome> {
    const { service, advice, message, ...format } = this.#format
    const body = JSON.stringify(message(digestOf(alerts)))
    const result = await this.#target.post(jsonHeaders(), body, TIMEOUT_MS, released)
    const { status } = result
    // The message may have arrived.
    if (status === undefined) return { result: 'failed', failure: { reason: `${service} ${result.reason}` } }
    const askedMs = format.waitMs?.(result)
    if (status >= 200 && status < 300) return { result: 'delivered', waitMs: askedMs }
    const hint = status === 400 ? advice.refused : FINAL.includes(status) ? advice.gone : undefined
    const reason = `${service} responded with ${status}${hint === undefined ? '' : ` (${hint})`}`
    const failure = { reason, details: { status } }
    if (FINAL.includes(status)) return { result: 'stop', failure, forGood: true }
    const headerMs = status === 429 || status >= 500 ? result.retryAfterMs : undefined
    const said = headerMs !== undefined || askedMs !== undefined
    const waitMs = Math.max(headerMs ?? 0, askedMs ?? 0)
    if (status === 429) return { result: 'retry', failure, waitMs: said ? waitMs : undefined }
    return { result: format.sendAgain?.(result) === true ? 'retry' : 'failed', failure, waitMs }
  }
}
