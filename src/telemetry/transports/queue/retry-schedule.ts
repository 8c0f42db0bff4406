import { type Batch, newBatch } from './batch.ts'
import { DueHeap } from './due-heap.ts'

/** The batches that wait for their next attempt, and the ends of their retry budgets. */
export class RetrySchedule<Item> {
  readonly #ordered: boolean
  /** The waiting batches of an ordered queue. */
  readonly #inOrder: Batch<Item>[] = []
  /** The waiting batches of any other queue. */
  readonly #heap = new DueHeap<Batch<Item>>()
  /** The batches in `#heap` whose back-off has not been shortened by a flush. */
  readonly #unhurried = new Set<Batch<Item>>()
  /** The batches that have been tried, from `#startedAt` on, in the order of their first attempts and of their deadlines. */
  #started: Batch<Item>[] = []
  #startedAt = 0
  #startedDone = 0

  constructor(ordered: boolean) {
    this.#ordered = ordered
  }

  /** `true` if a waiting batch holds back everything behind it. */
  get holdsBack(): boolean {
    return this.#ordered && this.#inOrder.length > 0
  }

  /** When the next batch is due. `Infinity` if there is none. */
  dueMs(flushing: boolean): number {
    if (!this.#ordered) return this.#heap.dueMs
    const [first] = this.#inOrder
    if (first === undefined) return Number.POSITIVE_INFINITY
    return flushing ? first.flushingDueMs : first.dueMs
  }

  /** Removes and returns the batch that is due first. */
  take(): Batch<Item> | undefined {
    return this.#ordered ? this.#inOrder.shift() : this.#heap.take()
  }

  /** Adds a batch whose attempt has failed. */
  add(batch: Batch<Item>, flushing: boolean): void {
    batch.state = 'waiting'
    if (this.#ordered) {
      this.#inOrder.unshift(batch)
    } else {
      if (flushing) batch.dueMs = batch.flushingDueMs
      else this.#unhurried.add(batch)
      this.#heap.add(batch)
    }
  }

  /** Adds the halves of a batch, due at once. */
  addHalves({ queued }: Batch<Item>, nowMs: number): void {
    const middle = queued.length >> 1
    const halves = [queued.slice(0, middle), queued.slice(middle)].map((half) => newBatch(half, nowMs))
    if (this.#ordered) this.#inOrder.unshift(...halves)
    else for (const half of halves) this.#heap.add(half)
  }

  /** Shortens the back-off of each batch, once. */
  hurry(): void {
    for (const batch of this.#unhurried) {
      if (batch.flushingDueMs >= batch.dueMs) continue
      batch.dueMs = batch.flushingDueMs
      this.#heap.add(batch)
    }
    this.#unhurried.clear()
  }

  /** Counts an attempt of a batch. @param deadlineMs the end of its retry budget, if this is the first attempt. */
  begin(batch: Batch<Item>, deadlineMs: number): void {
    this.#unhurried.delete(batch)
    batch.state = 'under way'
    batch.attempts++
    if (batch.attempts > 1) return
    batch.deadlineMs = deadlineMs
    this.#started.push(batch)
  }

  /** Forgets a batch that is delivered, has failed, or was divided. */
  remove(batch: Batch<Item>): void {
    if (batch.state === 'done') return
    if (batch.state === 'waiting' && this.#ordered) {
      const at = this.#inOrder.indexOf(batch)
      if (at !== -1) this.#inOrder.splice(at, 1)
    }
    batch.state = 'done'
    this.#unhurried.delete(batch)
    // At most half of the list has settled.
    if (batch.attempts === 0 || ++this.#startedDone * 2 < this.#started.length) return
    this.#started = this.#started.filter(({ state }) => state !== 'done')
    this.#startedAt = 0
    this.#startedDone = 0
  }

  /** Returns the first end of a retry budget among the batches that have not settled. */
  firstDeadlineMs(): number {
    while (this.#started[this.#startedAt]?.state === 'done') this.#startedAt++
    return this.#started[this.#startedAt]?.deadlineMs ?? Number.POSITIVE_INFINITY
  }

  /** Returns the waiting batches whose retry budget has ended. */
  expired(nowMs: number): readonly Batch<Item>[] {
    const expired: Batch<Item>[] = []
    if (this.firstDeadlineMs() > nowMs) return expired
    for (let at = this.#startedAt; at < this.#started.length; at++) {
      const batch = this.#started[at] as Batch<Item>
      if (batch.deadlineMs > nowMs) break
      if (batch.state === 'waiting') expired.push(batch)
    }
    return expired
  }

  /** Removes and returns all waiting batches. */
  takeAll(): readonly Batch<Item>[] {
    return [...this.#inOrder.splice(0), ...this.#heap.takeAll()]
  }

  /** Forgets all batches. */
  clear(): void {
    this.takeAll()
    this.#started = []
    this.#startedAt = 0
    this.#unhurried.clear()
  }
}
