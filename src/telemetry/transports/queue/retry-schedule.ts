import { type Batch, newBatch } from './batch.ts'

/** The times by which batches are sorted: while no caller flushes, and while one does. */
const TIMES = ['dueMs', 'flushingDueMs'] as const

/** The batches that wait for their next attempt. */
export class RetrySchedule<Item> {
  readonly #ordered: boolean
  #waiting: Record<(typeof TIMES)[number], Batch<Item>[]> = { dueMs: [], flushingDueMs: [] }

  /** @param ordered keeps the order of the items, so that only the first batch may be sent. */
  constructor(ordered: boolean) {
    this.#ordered = ordered
  }

  /** `true` if a waiting batch holds back everything behind it. */
  get holdsBack(): boolean {
    return this.#ordered && this.#waiting.dueMs.length > 0
  }

  /** When the next batch is due. `Infinity` if there is none. */
  dueMs(flushing: boolean): number {
    const time = flushing ? 'flushingDueMs' : 'dueMs'
    return this.#waiting[time][0]?.[time] ?? Number.POSITIVE_INFINITY
  }

  /** Removes and returns the batch that is due first. */
  take(flushing: boolean): Batch<Item> | undefined {
    const first = this.#waiting[flushing ? 'flushingDueMs' : 'dueMs'][0]
    if (first !== undefined) this.#remove(first)
    return first
  }

  /** Adds a batch whose attempt has failed. */
  add(batch: Batch<Item>): void {
    for (const time of TIMES) this.#waiting[time].splice(this.#endOf(batch, time), 0, batch)
  }

  /** Adds the halves of a batch, due at once. */
  addHalves({ queued }: Batch<Item>, nowMs: number): void {
    const middle = queued.length >> 1
    this.add(newBatch(queued.slice(middle), nowMs))
    this.add(newBatch(queued.slice(0, middle), nowMs))
  }

  /** Returns the first end of a retry budget. */
  firstDeadlineMs(): number {
    return this.#waiting.dueMs.reduce(
      (firstMs, { deadlineMs }) => Math.min(firstMs, deadlineMs),
      Number.POSITIVE_INFINITY,
    )
  }

  /** Removes and returns the batches whose retry budget has ended. */
  takeExpired(nowMs: number): readonly Batch<Item>[] {
    const expired = this.#waiting.dueMs.filter(({ deadlineMs }) => deadlineMs <= nowMs)
    if (expired.length === 0) return expired
    for (const time of TIMES)
      this.#waiting[time] = this.#waiting[time].filter(({ deadlineMs }) => deadlineMs > nowMs)
    return expired
  }

  /** Removes and returns all batches. */
  takeAll(): readonly Batch<Item>[] {
    const all = this.#waiting.dueMs
    this.#waiting = { dueMs: [], flushingDueMs: [] }
    return all
  }

  #remove(batch: Batch<Item>): void {
    for (const time of TIMES) {
      const sorted = this.#waiting[time]
      const end = this.#ordered ? sorted.length : this.#endOf(batch, time)
      sorted.splice(sorted.lastIndexOf(batch, end - 1), 1)
    }
  }

  /** Returns the place behind the batches that are due at the same time, or the first place of an ordered schedule. */
  #endOf(batch: Batch<Item>, time: (typeof TIMES)[number]): number {
    const sorted = this.#waiting[time]
    let low = 0
    let high = this.#ordered ? 0 : sorted.length
    while (low < high) {
      const middle = (low + high) >> 1
      if ((sorted[middle] as Batch<Item>)[time] <= batch[time]) low = middle + 1
      else high = middle
    }
    return low
  }
}
