import { counted } from '../../../base/options/counted.ts'
import type { Generation } from '../../delivery/pending-work.ts'
import type { EventOutcome } from '../../delivery/transport.ts'
import { KitTelemetryError } from '../../errors.ts'
import type { Failure } from './batch-queue-options.ts'

/** An item of the queue. */
export interface Queued<Item> {
  readonly item: Item
  readonly weight: number
  readonly addedMs: number
  readonly generation: Generation
  readonly outcome: EventOutcome
}

/** The items that have not been sent. Adding and removing an item takes constant time on average. */
export class FreshItems<Item> {
  #items: Queued<Item>[] = []
  /** The index of the first item that was not taken. */
  #next = 0
  #weight = 0

  get first(): Queued<Item> | undefined {
    return this.#items[this.#next]
  }

  add(queued: Queued<Item>): void {
    this.#items.push(queued)
    this.#weight += queued.weight
  }

  /** Returns `true` if the items fill a batch. */
  fill(maxItems: number, maxWeight: number): boolean {
    return this.#weight >= maxWeight || this.#items.length - this.#next >= maxItems
  }

  /** Removes and returns the items of the next batch. An item that is heavier than `maxWeight` is a batch of its own. */
  take(maxItems: number, maxWeight: number): readonly Queued<Item>[] {
    const taken: Queued<Item>[] = []
    let weight = 0
    for (let one = this.first; one !== undefined; one = this.first) {
      if (taken.length > 0 && (taken.length >= maxItems || weight + one.weight > maxWeight)) break
      delete this.#items[this.#next++]
      taken.push(one)
      weight += one.weight
    }
    this.#weight -= weight
    if (2 * this.#next >= this.#items.length) {
      this.#items = this.#items.slice(this.#next)
      this.#next = 0
    }
    return taken
  }
}

/** A time, and the time instead of it while a caller flushes. */
export interface Moment {
  readonly ms: number
  readonly flushingMs: number
}

export const PAST: Moment = { ms: Number.NEGATIVE_INFINITY, flushingMs: Number.NEGATIVE_INFINITY }

/** Returns the end of a wait. @param maxFlushingMs its maximum while a caller flushes. */
export function after(nowMs: number, waitMs: number, maxFlushingMs = waitMs): Moment {
  return { ms: nowMs + waitMs, flushingMs: nowMs + Math.min(waitMs, maxFlushingMs) }
}

/** Items that are sent together. */
export interface Batch<Item> {
  readonly queued: readonly Queued<Item>[]
  attempts: number
  /** The attempts whose outcome had a `maxAttempts`. */
  limitedAttempts: number
  /** The end of its retry budget. */
  deadlineMs: number
  /** When its next attempt is due. */
  due: Moment
  failure: Failure | undefined
}

/** Returns a batch that is due at once. */
export function newBatch<Item>(queued: readonly Queued<Item>[]): Batch<Item> {
  return {
    queued,
    attempts: 0,
    limitedAttempts: 0,
    deadlineMs: Number.POSITIVE_INFINITY,
    due: PAST,
    failure: undefined,
  }
}

/**
 * Returns the error of items that have failed.
 * @param type the type of the transport.
 * @param budgetIsSpent whether the retry budget of the batch has ended.
 */
export function failureError(
  type: string,
  { reason, cause, details }: Failure,
  events: number,
  attempts: number,
  budgetIsSpent = false,
): KitTelemetryError {
  const often = budgetIsSpent
    ? `, ${counted(attempts, 'time')} until retryBudgetMs was spent`
    : attempts > 1
      ? ` in the last of ${attempts} attempts`
      : ''
  const lost = `${counted(events, 'event')} ${events === 1 ? 'is' : 'are'} lost`
  return new KitTelemetryError(
    'TELEMETRY_TRANSPORT_FAILED',
    `transport ${JSON.stringify(type)}: ${reason}${often}; ${lost}`,
    {
      ...(cause === undefined ? {} : { cause }),
      details: { events, ...(attempts === 0 ? {} : { attempts }), ...details },
    },
  )
}

/** Returns the outcome that `take` receives, as a promise. */
export function promisedOutcome(take: (outcome: EventOutcome) => void): Promise<void> {
  const promise = new Promise<void>((delivered, failed) => take({ delivered, failed }))
  // A caller may ignore the outcome. An ignored rejection must not be an error of the process.
  promise.catch(() => {})
  return promise
}
