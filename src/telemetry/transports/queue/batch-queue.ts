import { AsyncContext } from '../../../runtime.ts'
import { PendingWork } from '../../delivery/pending-work.ts'
import type { EventOutcome } from '../../delivery/transport.ts'
import { type Batch, failureError } from './batch.ts'
import {
  type BatchQueueOptions,
  backOffMs,
  type Failure,
  MAX_FLUSHING_BACKOFF_MS,
  type Outcome,
} from './batch-queue-options.ts'
import { type Clock, REAL_CLOCK } from './clock.ts'
import { FreshItems } from './fresh-items.ts'
import { ItemOutcomes } from './item-outcomes.ts'
import { promisedOutcome } from './promised-outcome.ts'
import { RetrySchedule } from './retry-schedule.ts'
import { TargetPause } from './target-pause.ts'

/**
 * The async context of all batches. A batch contains several events and outlives their requests, so it must not run in the
 * context of one of them. This one is created when the module is loaded, usually outside of a request.
 */
const context = /* @__PURE__ */ new AsyncContext('KitTelemetryBatchQueue')

/** The time of a step that runs as soon as the current code of the application has returned, because encoding takes time. */
const SOON = Number.NEGATIVE_INFINITY

/**
 * Collects items into batches, and sends each batch until it is delivered or has failed. All transports that send over a
 * network use it:
 *
 * - `add(item, weight)` returns a promise that settles with the item.
 * - `send(items, attempt)` sends a batch once, and returns an `Outcome` that says what the response means. The queue decides
 *   whether there is another attempt, and when.
 * - `flush(deadline)` resolves when all earlier items have settled, or at the deadline. Until then, partial batches are sent at
 *   once, a back-off lasts at most a second, and a pause that the target asks for lasts at most `maxFlushingWaitMs`.
 * - `close(deadline)` flushes, and rejects later items. When `deadline` aborts, it resolves at once. Items that have not
 *   settled by then stay pending, and `attempt.signal` aborts, so that `send` does not keep the process alive.
 *
 * There are two kinds of waits. A pause for the target holds back every batch (see `TargetPause`). The back-off of a batch
 * holds back only that batch (see `RetrySchedule`).
 *
 * The time and memory for any number of calls is linear in the number of unsettled items and waiting callers. `send` may
 * call every method. The timers do not keep the process alive.
 */
export class BatchQueue<Item> {
  readonly #options: BatchQueueOptions<Item>
  readonly #clock: Clock
  readonly #lanes: number
  readonly #delayMs: number
  readonly #work = new PendingWork()
  readonly #outcomes: ItemOutcomes
  readonly #fresh: FreshItems<Item>
  readonly #retries: RetrySchedule<Item>
  readonly #pause: TargetPause
  readonly #underWay = new Set<Batch<Item>>()
  /** The latest batch was a retry. */
  #retriedLast = false
  /** The latest attempt was too large. Batches are sent one at a time until the right size is known. */
  #sizing = false
  /** Batches are being sent. */
  #stepping = false

  /** The number of callers that wait in `flush`. */
  #flushes = 0
  #closedReason: string | undefined
  readonly #released = new AbortController()

  /** When the queue looks again for batches that are due. */
  #wakeMs = Number.POSITIVE_INFINITY
  #cancelWake: () => void = () => {}

  constructor(options: BatchQueueOptions<Item>, clock: Clock = REAL_CLOCK) {
    const ordered = options.ordered === true
    this.#options = options
    this.#clock = clock
    this.#lanes = ordered ? 1 : (options.lanes ?? 1)
    this.#delayMs = options.delayMs ?? 0
    this.#outcomes = new ItemOutcomes(options.type, this.#work)
    this.#fresh = new FreshItems(options)
    this.#retries = new RetrySchedule(ordered)
    this.#pause = new TargetPause(options, () => clock.random())
  }

  /**
   * Adds an item.
   * @param weight its size in the unit of `maxWeight`. Defaults to 1.
   * @returns a promise that resolves when the item is delivered, and rejects with `TELEMETRY_TRANSPORT_FAILED` if it fails.
   */
  add(item: Item, weight = 1): Promise<void> {
    return promisedOutcome((outcome) => this.addFor(outcome, item, weight))
  }

  /**
   * Adds an item without a promise.
   * @param outcome is called when the item is delivered or has failed, within a call of the queue or later.
   * @param weight its size in the unit of `maxWeight`.
   */
  addFor(outcome: EventOutcome, item: Item, weight: number): void {
    if (this.#closedReason !== undefined) {
      outcome.failed(failureError(this.#options.type, { reason: this.#closedReason }, 1, 0))
      return
    }
    const wasEmpty = this.#fresh.count === 0
    const addedMs = this.#clock.now()
    const generation = this.#work.add()
    this.#fresh.add({ item, weight, addedMs, generation, outcome })
    if (this.#fresh.isFull || (wasEmpty && this.#delayMs === 0)) this.#wakeAt(SOON)
    else if (wasEmpty) this.#wakeAt(addedMs + this.#delayMs)
  }

  /**
   * Sends all items, at once if a lane is free. Resolves when all of them are delivered or have failed.
   * @param deadline when it aborts, the promise resolves, and the caller shortens pauses no longer.
   */
  flush(deadline?: AbortSignal): Promise<void> {
    if (this.#work.count === 0 || !this.#mayBegin) return Promise.resolve()
    this.#fresh.hurry()
    return new Promise((resolve) => {
      this.#flushes++
      let isWaiting = true
      const end = () => {
        if (!isWaiting) return
        isWaiting = false
        this.#flushes--
        deadline?.removeEventListener('abort', end)
        cancel()
        resolve()
      }
      const cancel = this.#work.whenSettled(end)
      deadline?.addEventListener('abort', end, { once: true })
      this.#inContext(() => this.#step())
      if (deadline?.aborted === true) end()
    })
  }

  /** Calls `done` when all items are delivered or have failed, without sending them sooner. */
  whenSettled(done: () => void): void {
    this.#work.whenSettled(done)
  }

  /**
   * Flushes. Items that are added from now on fail.
   * @param deadline when it aborts, the promise resolves, and nothing keeps the process alive any longer.
   */
  async close(deadline?: AbortSignal): Promise<void> {
    this.#closedReason ??= 'it is shut down'
    const { closing } = this.#options
    const cancel =
      closing === undefined
        ? () => {}
        : this.#inContext(() => this.#clock.after(() => this.#failAll(closing), closing.timeoutMs))
    await this.flush(deadline)
    if (this.#work.count === 0) cancel()
    this.#release()
  }

  get #isFlushing(): boolean {
    return this.#flushes > 0
  }

  get #pauseEndMs(): number {
    return this.#pause.endMs(this.#isFlushing, this.#underWay.size > 0)
  }

  get #mayBegin(): boolean {
    return !this.#released.signal.aborted || this.#options.sendsAfterDeadline === true
  }

  #inContext<Result>(run: () => Result): Result {
    return context.runInAsyncScope(run)
  }

  /** Sends the batches that are due, and sets the timer for the next ones. `send` may call this method again. */
  #step(): void {
    if (this.#stepping || !this.#mayBegin) return
    this.#stepping = true
    try {
      const nowMs = this.#clock.now()
      this.#fresh.restoreWeight(nowMs)
      this.#failIfPauseIsTooLong(nowMs)
      const isAskedToWait = this.#pause.isAskedFor(nowMs)
      if (isAskedToWait) this.#failExpired(nowMs)
      while (this.#hasLane && this.#pauseEndMs <= nowMs) {
        const batch = this.#next(nowMs)
        if (batch === undefined) break
        void this.#send(batch)
      }
      if (this.#hasLane) {
        const dueMs = this.#retries.dueMs(this.#isFlushing)
        const readyMs = this.#retries.holdsBack ? dueMs : Math.min(this.#fresh.readyMs, dueMs)
        this.#wakeAt(Math.max(nowMs, readyMs, this.#pauseEndMs))
      }
      if (isAskedToWait) this.#wakeAt(Math.max(nowMs, this.#retries.firstDeadlineMs()))
    } finally {
      this.#stepping = false
    }
  }

  get #hasLane(): boolean {
    return this.#underWay.size < (this.#sizing ? 1 : this.#lanes)
  }

  /** Looks for batches that are due at a time, or as soon as the current code of the application has returned. */
  #wakeAt(atMs: number): void {
    if (atMs >= this.#wakeMs) return
    this.#cancelWake()
    this.#wakeMs = atMs
    const step = () => {
      this.#wakeMs = Number.POSITIVE_INFINITY
      this.#step()
    }
    this.#inContext(() => {
      if (atMs === SOON) this.#clock.soon(step)
      else this.#cancelWake = this.#clock.after(step, Math.max(1, Math.ceil(atMs - this.#clock.now())))
    })
  }

  /** Returns the batch to send now. If retries and fresh items are both due, they take turns, so that neither starves. */
  #next(nowMs: number): Batch<Item> | undefined {
    const dueMs = this.#retries.dueMs(this.#isFlushing)
    const retryIsDue = dueMs <= nowMs
    const freshIsReady = this.#fresh.readyMs <= nowMs
    if (this.#retries.holdsBack) return retryIsDue ? this.#takeRetry() : undefined
    // A batch whose budget is spent fails with its next attempt. A caller that flushes during an outage therefore gets the
    // outcome sooner if each batch is tried once first.
    const freshFirst = this.#retriedLast || (this.#pause.isDown && this.#isFlushing)
    if (retryIsDue && (!freshIsReady || !freshFirst)) return this.#takeRetry()
    return freshIsReady ? this.#takeFresh(nowMs) : undefined
  }

  #takeRetry(): Batch<Item> | undefined {
    this.#retriedLast = true
    const batch = this.#retries.take(this.#isFlushing)
    if (batch === undefined || this.#fresh.fits(batch)) return batch
    // It was made when larger batches were allowed.
    this.#fresh.putBack(batch)
    return this.#takeFresh(this.#clock.now())
  }

  #takeFresh(nowMs: number): Batch<Item> | undefined {
    this.#retriedLast = false
    return this.#fresh.take(nowMs, (queued, failure) => this.#outcomes.fail([queued], failure, 1))
  }

  /** Never rejects. */
  async #send(batch: Batch<Item>): Promise<void> {
    this.#underWay.add(batch)
    const startedMs = this.#clock.now()
    if (batch.attempts++ === 0)
      batch.deadlineMs = startedMs + (this.#options.retryBudgetMs ?? Number.POSITIVE_INFINITY)
    const wasDown = this.#pause.attemptBegins(startedMs)
    const outcome = await this.#attempt(batch)
    // `closing` may have failed the batch in the meantime.
    if (!this.#underWay.delete(batch)) return
    // After the deadline, items that are not delivered stay pending.
    if (!this.#mayBegin && outcome.result !== 'delivered') return
    const nowMs = this.#clock.now()
    this.#settle(batch, outcome, nowMs)
    this.#pause.attemptEnds(outcome, wasDown, nowMs, () => this.#retries.firstDeadlineMs())
    this.#step()
  }

  async #attempt(batch: Batch<Item>): Promise<Outcome> {
    try {
      return await this.#options.send(
        batch.queued.map(({ item }) => item),
        { number: batch.attempts, flushing: this.#isFlushing, signal: this.#released.signal },
      )
    } catch {
      // The error is not kept, because it may quote an event or the target.
      return { result: 'failed', failure: { reason: 'the request body could not be serialized' } }
    }
  }

  #settle(batch: Batch<Item>, outcome: Outcome, nowMs: number): void {
    this.#sizing = outcome.result === 'too-large'
    switch (outcome.result) {
      case 'delivered':
        if (outcome.rejected === undefined) this.#fresh.delivered(batch.queued)
        this.#outcomes.deliver(batch, outcome.rejected)
        return
      case 'failed':
        this.#failBatch(batch, outcome.failure)
        return
      case 'retry':
        this.#retry(batch, outcome, nowMs)
        return
      case 'split':
        if (batch.queued.length === 1) this.#failBatch(batch, outcome.failure)
        else this.#retries.addHalves(batch, nowMs)
        return
      case 'too-large':
        this.#tooLarge(batch, outcome.failure, nowMs)
        return
      case 'stop':
        if (outcome.forGood) this.#closedReason = `nothing more is sent, because ${outcome.failure.reason}`
        this.#failBatch(batch, outcome.failure)
        this.#failWaiting(() => outcome.failure)
    }
  }

  #retry(batch: Batch<Item>, outcome: Outcome & { readonly result: 'retry' }, nowMs: number): void {
    const { failure, maxAttempts = Number.POSITIVE_INFINITY } = outcome
    batch.failure = failure
    if (outcome.maxAttempts !== undefined) batch.limitedAttempts++
    if (
      batch.limitedAttempts >= maxAttempts ||
      batch.attempts >= (this.#options.maxAttempts ?? Number.POSITIVE_INFINITY)
    ) {
      this.#failBatch(batch, failure)
    } else if (nowMs >= batch.deadlineMs) {
      this.#failBatch(batch, failure, true)
    } else {
      const waitMs =
        outcome.waitMs === undefined
          ? backOffMs(this.#options.backOff, batch.attempts, this.#clock.random())
          : 0
      const soonestMs = nowMs + Math.min(waitMs, MAX_FLUSHING_BACKOFF_MS)
      batch.dueMs = Math.max(soonestMs, Math.min(nowMs + waitMs, batch.deadlineMs))
      batch.flushingDueMs = soonestMs
      this.#retries.add(batch)
    }
    // The target has just shown that none of them would have been delivered.
    if (outcome.targetDown === true) this.#failExpired(nowMs)
  }

  #tooLarge(batch: Batch<Item>, failure: Failure, nowMs: number): void {
    if (batch.queued.length === 1) {
      this.#fresh.rejectFrom(batch.weight, failure, nowMs)
      this.#failBatch(batch, failure)
    } else {
      this.#fresh.shrink(batch.weight, nowMs)
      this.#fresh.putBack(batch)
    }
  }

  /** Fails waiting items if the target asks for a pause above `maxWaitMs`. */
  #failIfPauseIsTooLong(nowMs: number): void {
    const { maxWaitMs = Number.POSITIVE_INFINITY } = this.#options
    const leftMs = this.#pauseEndMs - nowMs
    if (leftMs <= maxWaitMs) return
    const wait = `the target asked for a pause of another ${Math.ceil(leftMs / 1000)} s`
    this.#failWaiting(({ failure }) => ({
      ...failure,
      reason: failure === undefined ? wait : `${failure.reason}, and ${wait}`,
    }))
  }

  /** Fails waiting batches whose budget is spent. */
  #failExpired(nowMs: number): void {
    for (const batch of this.#retries.takeExpired(nowMs))
      this.#failBatch(batch, batch.failure as Failure, true)
  }

  /** Fails all items, including those under way. */
  #failAll(failure: Failure): void {
    for (const batch of this.#underWay) this.#failBatch(batch, failure)
    this.#underWay.clear()
    this.#failWaiting(() => failure)
  }

  /** Fails all items that are not under way. */
  #failWaiting(failureOf: (batch: { readonly failure: Failure | undefined }) => Failure): void {
    for (const batch of this.#retries.takeAll()) this.#failBatch(batch, failureOf(batch))
    const fresh = this.#fresh.takeAll()
    if (fresh.length > 0) this.#outcomes.fail(fresh, failureOf({ failure: undefined }), 0)
  }

  #failBatch(batch: Batch<Item>, failure: Failure, budgetIsSpent = false): void {
    this.#outcomes.fail(batch.queued, failure, batch.attempts, budgetIsSpent)
  }

  /** From now on, nothing keeps the process alive, and attempts begin only with `sendsAfterDeadline`. */
  #release(): void {
    this.#released.abort()
    if (this.#mayBegin) return
    this.#cancelWake()
    this.#wakeMs = Number.POSITIVE_INFINITY
    this.#fresh.takeAll()
    this.#retries.takeAll()
  }
}
