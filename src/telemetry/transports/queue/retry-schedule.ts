import { type Batch, newBatch } from './batch.ts'

/** The batches that wait for their next attempt. */
export class RetrySchedule<Item> {
  readonly #ordered: boolean
  #waiting: Batch<Item>[] = []

  /** @param ordered keeps the order of the items, so that only the first batch may be sent. */
  constructor(ordered: boolean) {
    this.#ordered = ordered
  }

  /** `true` if a waiting batch holds back everything behind it. */
  get holdsBack(): boolean {
    return this.#ordered && this.#waiting.length > 0
  }

  /** When the next batch is due. `Infinity` if there is none. */
  dueMs(flushing: boolean): number {
    return dueMsOf(this.#first(flushing), flushing)
  }

  /** Removes and returns the batch that is due first. */
  take(flushing: boolean): Batch<Item> | undefined {
    const first = this.#first(flushing)
    this.#waiting = this.#waiting.filter((batch) => batch !== first)
    return first
  }

  /** Adds a batch whose attempt has failed. */
  add(batch: Batch<Item>): void {
    if (this.#ordered) this.#waiting.unshift(batch)
    else this.#waiting.push(batch)
  }

  /** Adds the halves of a batch, due at once. */
  addHalves({ queued }: Batch<Item>, nowMs: number): void {
    const middle = queued.length >> 1
    this.add(newBatch(queued.slice(middle), nowMs))
    this.add(newBatch(queued.slice(0, middle), nowMs))
  }

  /** Returns the first end of a retry budget. */
  firstDeadlineMs(): number {
    return this.#waiting.reduce(
      (firstMs, { deadlineMs }) => Math.min(firstMs, deadlineMs),
      Number.POSITIVE_INFINITY,
    )
  }

  /** Removes and returns the batches whose retry budget has ended. */
  takeExpired(nowMs: number): readonly Batch<Item>[] {
    const expired = this.#waiting.filter(({ deadlineMs }) => deadlineMs <= nowMs)
    if (expired.length > 0) this.#waiting = this.#waiting.filter(({ deadlineMs }) => deadlineMs > nowMs)
    return expired
  }

  /** Removes and returns all batches. */
  takeAll(): readonly Batch<Item>[] {
    return this.#waiting.splice(0)
  }

  #first(flushing: boolean): Batch<Item> | undefined {
    let first = this.#waiting[0]
    if (this.#ordered) return first
    for (const batch of this.#waiting) if (dueMsOf(batch, flushing) < dueMsOf(first, flushing)) first = batch
    return first
  }
}

function dueMsOf(batch: Batch<unknown> | undefined, flushing: boolean): number {
  return (flushing ? batch?.flushingDueMs : batch?.dueMs) ?? Number.POSITIVE_INFINITY
}
