import { type Batch, newBatch, type Queued } from './batch.ts'
import type { Failure } from './batch-queue-options.ts'

/** The time for which an item is rejected that is at least as large as those that the target rejected as too large. */
const TOO_LARGE_MS = 60_000

/** The number of items that the target must reject on their own before others are rejected without a request. */
const MIN_TOO_LARGE = 8

/** The time for which batches stay smaller after the target rejected one as too large. */
const SMALLER_BATCHES_MS = 600_000

interface FreshItemsOptions {
  readonly maxItems?: number | (() => number) | undefined
  readonly maxWeight?: number | undefined
  readonly delayMs?: number | undefined
}

/** The items that have not been sent yet, and the size of the batches that they are sent in. */
export class FreshItems<Item> {
  readonly #maxItems: number | (() => number)
  readonly #weightLimit: number
  readonly #delayMs: number

  /** The first items in reverse order, and all others in order, so that an item costs constant time at both ends. */
  #front: Queued<Item>[] = []
  #back: Queued<Item>[] = []
  #weight = 0
  /** The number of the first items that are due at once. */
  #hurried = 0

  #maxWeight: number
  /** Until then, `#maxWeight` is less than the option, because the target rejected a batch as too large. */
  #smallerUntilMs = Number.POSITIVE_INFINITY
  /** The items that were rejected on their own since one of at least this weight was delivered. */
  #tooLarge:
    | {
        readonly weight: number
        readonly count: number
        readonly untilMs: number
        readonly failure: Failure
      }
    | undefined

  constructor({ maxItems, maxWeight, delayMs }: FreshItemsOptions) {
    this.#maxItems = maxItems ?? Number.POSITIVE_INFINITY
    this.#weightLimit = maxWeight ?? Number.POSITIVE_INFINITY
    this.#maxWeight = this.#weightLimit
    this.#delayMs = delayMs ?? 0
  }

  get count(): number {
    return this.#front.length + this.#back.length
  }

  /** `true` if the items fill a batch. */
  get isFull(): boolean {
    return this.#weight >= this.#maxWeight || this.count >= this.#itemLimit
  }

  /** When the next batch is due. `Infinity` if there is not an item. */
  get readyMs(): number {
    const first = this.#first
    if (first === undefined) return Number.POSITIVE_INFINITY
    if (this.#hurried > 0 || this.isFull) return Number.NEGATIVE_INFINITY
    return first.addedMs + this.#delayMs
  }

  add(queued: Queued<Item>): void {
    this.#back.push(queued)
    this.#weight += queued.weight
  }

  /** Makes all current items due at once. */
  hurry(): void {
    this.#hurried = this.count
  }

  /** Returns `true` if a batch may be sent as it is. */
  fits(batch: Batch<Item>): boolean {
    return batch.weight <= this.#maxWeight || batch.queued.length === 1
  }

  /**
   * Removes and returns the next batch.
   * @param reject is called for items that are too large for the target.
   */
  take(nowMs: number, reject: (queued: Queued<Item>, failure: Failure) => void): Batch<Item> | undefined {
    const maxItems = this.#itemLimit
    const rejected = this.#rejectedOnTheirOwn(nowMs)
    const tooLarge = rejected !== undefined && rejected.count >= MIN_TOO_LARGE ? rejected : undefined
    const queued: Queued<Item>[] = []
    let weight = 0
    for (let one = this.#first; one !== undefined; one = this.#first) {
      const isTooLarge = tooLarge !== undefined && one.weight >= tooLarge.weight
      if (!isTooLarge && queued.length > 0) {
        if (queued.length >= maxItems || weight + one.weight > this.#maxWeight) break
      }
      this.#removeFirst()
      if (isTooLarge) {
        reject(one, tooLarge.failure)
      } else {
        queued.push(one)
        weight += one.weight
      }
    }
    return queued.length === 0 ? undefined : newBatch(queued, nowMs)
  }

  get #first(): Queued<Item> | undefined {
    return this.#front.at(-1) ?? this.#back[0]
  }

  #removeFirst(): void {
    if (this.#front.length === 0) {
      this.#front = this.#back.reverse()
      this.#back = []
    }
    this.#weight -= this.#front.pop()?.weight ?? 0
    this.#hurried = Math.max(0, this.#hurried - 1)
  }

  /** Puts the items of a batch before all others, due at once. */
  putBack({ queued, weight }: Batch<Item>): void {
    for (const one of queued.toReversed()) this.#front.push(one)
    this.#weight += weight
    this.#hurried += queued.length
  }

  /** Removes and returns all items. */
  takeAll(): readonly Queued<Item>[] {
    const all = [...this.#front.reverse(), ...this.#back]
    this.#front = []
    this.#back = []
    this.#weight = 0
    this.#hurried = 0
    return all
  }

  /** Makes batches smaller, because the target rejected one of this weight. */
  shrink(weight: number, nowMs: number): void {
    this.#maxWeight = Math.min(this.#maxWeight, weight / 2)
    this.#smallerUntilMs = nowMs + SMALLER_BATCHES_MS
  }

  /** Rejects items that are at least this large if the target has rejected several on their own. */
  rejectFrom(weight: number, failure: Failure, nowMs: number): void {
    const others = this.#rejectedOnTheirOwn(nowMs)
    this.#tooLarge = {
      weight: Math.min(weight, others?.weight ?? weight),
      count: (others?.count ?? 0) + 1,
      untilMs: nowMs + TOO_LARGE_MS,
      failure,
    }
  }

  /** Rejects nothing more without a request if one of the items is as large as those that were rejected. */
  delivered(queued: readonly Queued<Item>[]): void {
    const tooLarge = this.#tooLarge
    if (tooLarge !== undefined && queued.some(({ weight }) => weight >= tooLarge.weight))
      this.#tooLarge = undefined
  }

  /** Makes batches as large as the option allows once the target has not rejected one for some time. */
  restoreWeight(nowMs: number): void {
    if (nowMs >= this.#smallerUntilMs) this.#maxWeight = this.#weightLimit
  }

  #rejectedOnTheirOwn(nowMs: number) {
    return this.#tooLarge !== undefined && this.#tooLarge.untilMs > nowMs ? this.#tooLarge : undefined
  }

  get #itemLimit(): number {
    return typeof this.#maxItems === 'function' ? this.#maxItems() : this.#maxItems
  }
}
