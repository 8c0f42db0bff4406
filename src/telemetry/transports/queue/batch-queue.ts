import { AsyncContext } from '../../../base/runtime.ts'
import { PendingWork } from '../../delivery/pending-work.ts'
import type { EventOutcome } from '../../delivery/transport.ts'
import {
  after,
  type Batch,
  FreshItems,
  failureError,
  type Moment,
  newBatch,
  PAST,
  promisedOutcome,
  type Queued,
} from './batch.ts'
import {
  type BatchQueueOptions,
  backOffMs,
  type Clock,
  type Failure,
  MAX_FLUSHING_BACKOFF_MS,
  type Outcome,
  REAL_CLOCK,
} from './batch-queue-options.ts'

/** The time of a step that runs as soon as the current code of the application has returned, because encoding takes time. */
const SOON = Number.NEGATIVE_INFINITY
const NEVER = Number.POSITIVE_INFINITY

/**
 * The async context of all batches. A batch contains several events and outlives their requests, so it must not run in the
 * context of one of them. This one is created when the module is loaded, usually outside of a request.
 */
const context = /* @__PURE__ */ new AsyncContext('KitTelemetryBatchQueue')

/**
 * Collects items into batches, and sends each batch until it is delivered or has failed. All transports that send over a
 * network use it. While a caller flushes, partial batches are sent at once, a back-off lasts at most a second, and a pause that
 * the target asks for lasts at most `maxFlushingWaitMs`. Items that have not settled at the deadline of `close` stay pending.
 *
 * There are two kinds of waits. A pause for the target holds back every batch: because of the pace, because the target asks for
 * it, or because the target is down, when single batches are tried, a back-off apart. The back-off of a batch holds back only
 * that batch, and those behind it if the queue is ordered.
 *
 * `send` may call every method. The timers do not keep the process alive.
 */
export class BatchQueue<Item> {
  readonly #options: BatchQueueOptions<Item>
  readonly #clock: Clock
  readonly #work = new PendingWork()

  readonly #fresh = new FreshItems<Item>()
  /** The items that were added until then do not wait for others. */
  #hurriedUntilMs = Number.NEGATIVE_INFINITY
  /** The batches that wait for their next attempt, in the order of their items if the queue is ordered. */
  #retries: Batch<Item>[] = []
  #underWay = 0
  /** Batches are being sent. */
  #stepping = false

  /** The end of the pause for the target, and of the part of it that the target asks for. */
  #pause = PAST
  #askedUntilMs = Number.NEGATIVE_INFINITY
  /** The earliest time of an attempt next to one that is under way while the target is down. */
  #probe = PAST
  /** The number of failures since the target went down. */
  #downsInARow = 0

  /** The number of callers that wait in `flush`. */
  #flushes = 0
  #closedReason: string | undefined
  readonly #released = new AbortController()

  /** When the queue looks again for batches that are due. */
  #wakeMs = NEVER
  #cancelWake: () => void = () => {}

  constructor(options: BatchQueueOptions<Item>, clock: Clock = REAL_CLOCK) {
    this.#options = options
    this.#clock = clock
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
    const { type, delayMs = 0 } = this.#options
    if (this.#closedReason !== undefined) {
      outcome.failed(failureError(type, { reason: this.#closedReason }, 1, 0))
      return
    }
    const addedMs = this.#clock.now()
    this.#fresh.add({ item, weight, addedMs, generation: this.#work.add(), outcome })
    this.#wakeAt(delayMs === 0 || this.#isFull ? SOON : addedMs + delayMs)
  }

  /**
   * Sends all items, at once if a lane is free. Resolves when all of them are delivered or have failed.
   * @param deadline when it aborts, the promise resolves, and the caller shortens pauses no longer.
   */
  flush(deadline?: AbortSignal): Promise<void> {
    if (this.#work.count === 0 || !this.#mayBegin) return Promise.resolve()
    this.#hurriedUntilMs = this.#clock.now()
    this.#flushes++
    const settled = this.#work.settled(deadline).then(() => {
      this.#flushes--
    })
    context.runInAsyncScope(() => this.#step())
    return settled
  }

  /** Resolves when all items are delivered or have failed, without sending them sooner. */
  settled(): Promise<void> {
    return this.#work.settled()
  }

  /**
   * Flushes. Items that are added from now on fail.
   * @param deadline when it aborts, the promise resolves, and nothing keeps the process alive any longer.
   */
  async close(deadline?: AbortSignal): Promise<void> {
    this.#closedReason ??= 'it is shut down'
    await this.flush(deadline)
    this.#released.abort()
    if (this.#mayBegin) return
    this.#cancelWake()
    this.#wakeMs = NEVER
    this.#retries = []
    this.#fresh.take(NEVER, NEVER)
  }

  get #mayBegin(): boolean {
    return !this.#released.signal.aborted || this.#options.sendsAfterDeadline === true
  }

  /** The limits of a batch: its items and its weight. */
  get #limits(): readonly [maxItems: number, maxWeight: number] {
    const { maxItems = NEVER, maxWeight = NEVER } = this.#options
    return [typeof maxItems === 'function' ? maxItems() : maxItems, maxWeight]
  }

  /** `true` if the items that have not been sent fill a batch. */
  get #isFull(): boolean {
    return this.#fresh.fill(...this.#limits)
  }

  get #hasLane(): boolean {
    const { ordered, lanes = 1 } = this.#options
    return this.#underWay < (ordered === true ? 1 : lanes)
  }

  get #pauseEndMs(): number {
    const isProbing = this.#downsInARow > 0 && this.#underWay > 0
    return Math.max(this.#timeOf(this.#pause), this.#timeOf(isProbing ? this.#probe : PAST))
  }

  #timeOf({ ms, flushingMs }: Moment): number {
    return this.#flushes > 0 ? flushingMs : ms
  }

  /** Sends the batches that are due, and sets the timer for the next ones. `send` may call this method again. */
  #step(): void {
    if (this.#stepping || !this.#mayBegin) return
    this.#stepping = true
    try {
      const nowMs = this.#clock.now()
      this.#failIfPauseIsTooLong(nowMs)
      const isAskedToWait = this.#askedUntilMs > nowMs
      if (isAskedToWait) this.#failExpired(nowMs)
      let next = this.#nextBatch()
      while (this.#hasLane && this.#pauseEndMs <= nowMs && next.dueMs <= nowMs) {
        void this.#send(next.take())
        next = this.#nextBatch()
      }
      if (this.#hasLane) this.#wakeAt(Math.max(nowMs, next.dueMs, this.#pauseEndMs))
      if (isAskedToWait) this.#wakeAt(Math.max(nowMs, this.#firstDeadlineMs()))
    } finally {
      this.#stepping = false
    }
  }

  /** Looks for batches that are due at a time, or as soon as the current code of the application has returned. */
  #wakeAt(atMs: number): void {
    if (atMs >= this.#wakeMs) return
    this.#cancelWake()
    this.#wakeMs = atMs
    const step = () => {
      this.#wakeMs = NEVER
      this.#step()
    }
    context.runInAsyncScope(() => {
      if (atMs === SOON) this.#clock.soon(step)
      else this.#cancelWake = this.#clock.after(step, Math.max(1, Math.ceil(atMs - this.#clock.now())))
    })
  }

  /** Returns when the next batch is due, and a function that removes and returns it. Those that wait longer go first. */
  #nextBatch(): { readonly dueMs: number; readonly take: () => Batch<Item> } {
    const { ordered, delayMs = 0 } = this.#options
    const { addedMs = NEVER } = this.#fresh.first ?? {}
    const freshMs = addedMs <= this.#hurriedUntilMs || this.#isFull ? addedMs : addedMs + delayMs
    let retry: Batch<Item> | undefined
    let retryMs = NEVER
    for (const batch of ordered === true ? this.#retries.slice(0, 1) : this.#retries) {
      const dueMs = this.#timeOf(batch.due)
      if (retry !== undefined && dueMs >= retryMs) continue
      retry = batch
      retryMs = dueMs
    }
    if (retry === undefined || (ordered !== true && freshMs < retryMs))
      return { dueMs: freshMs, take: () => newBatch(this.#fresh.take(...this.#limits)) }
    const taken = retry
    const take = () => {
      this.#retries.splice(this.#retries.indexOf(taken), 1)
      return taken
    }
    return { dueMs: retryMs, take }
  }

  /** Never rejects. */
  async #send(batch: Batch<Item>): Promise<void> {
    this.#underWay++
    const startedMs = this.#clock.now()
    if (batch.attempts++ === 0) batch.deadlineMs = startedMs + (this.#options.retryBudgetMs ?? NEVER)
    const wasDown = this.#downsInARow > 0
    // An attempt may take long to fail. Others do not wait for its end.
    if (wasDown) this.#probe = this.#backOff(this.#downsInARow, startedMs, NEVER)
    const outcome = await this.#attempt(batch)
    this.#underWay--
    // After the deadline, items that are not delivered stay pending.
    if (!this.#mayBegin && outcome.result !== 'delivered') return
    const nowMs = this.#clock.now()
    this.#settle(batch, outcome, nowMs)
    this.#pauseAfter(outcome, wasDown, nowMs)
    this.#step()
  }

  async #attempt(batch: Batch<Item>): Promise<Outcome> {
    try {
      return await this.#options.send(
        batch.queued.map(({ item }) => item),
        { flushing: this.#flushes > 0, signal: this.#released.signal },
      )
    } catch {
      // The error is not kept, because it may quote an event or the target.
      return { result: 'failed', failure: { reason: 'the request body could not be serialized' } }
    }
  }

  #settle(batch: Batch<Item>, outcome: Outcome, nowMs: number): void {
    const { queued } = batch
    switch (outcome.result) {
      case 'delivered':
        this.#deliver(batch, outcome.rejected)
        return
      case 'retry':
        this.#retry(batch, outcome, nowMs)
        return
      case 'split':
        if (queued.length === 1) break
        this.#retries.unshift(
          newBatch(queued.slice(0, queued.length >> 1)),
          newBatch(queued.slice(queued.length >> 1)),
        )
        return
      case 'stop':
        if (outcome.forGood) this.#closedReason = `nothing more is sent, because ${outcome.failure.reason}`
        this.#failBatch(batch, outcome.failure)
        this.#failWaiting(() => outcome.failure)
        return
    }
    this.#failBatch(batch, outcome.failure)
  }

  #deliver({ queued, attempts }: Batch<Item>, rejected: ReadonlyMap<number, Failure> | undefined): void {
    const failed = new Map<Failure, Queued<Item>[]>()
    for (const [index, one] of queued.entries()) {
      const failure = rejected?.get(index)
      if (failure === undefined) {
        this.#work.settle(one.generation)
        one.outcome.delivered()
      } else {
        const others = failed.get(failure) ?? []
        others.push(one)
        failed.set(failure, others)
      }
    }
    for (const [failure, ones] of failed) this.#fail(ones, failure, attempts)
  }

  #retry(batch: Batch<Item>, outcome: Outcome & { readonly result: 'retry' }, nowMs: number): void {
    const { failure, maxAttempts = NEVER, waitMs, targetDown } = outcome
    batch.failure = failure
    if (outcome.maxAttempts !== undefined) batch.limitedAttempts++
    if (batch.limitedAttempts >= maxAttempts || batch.attempts >= (this.#options.maxAttempts ?? NEVER)) {
      this.#failBatch(batch, failure)
    } else if (nowMs >= batch.deadlineMs) {
      this.#failBatch(batch, failure, true)
    } else {
      // A pause that the target asks for holds back every batch.
      batch.due =
        waitMs === undefined ? this.#backOff(batch.attempts, nowMs, batch.deadlineMs) : after(nowMs, 0)
      this.#retries.unshift(batch)
    }
    // The target has just shown that none of them would have been delivered.
    if (targetDown === true) this.#failExpired(nowMs)
  }

  /** Returns the end of a back-off. It ends earlier at a deadline, for a last attempt. */
  #backOff(failures: number, nowMs: number, deadlineMs: number): Moment {
    const waitMs = backOffMs(this.#options.backOff, failures, this.#clock.random())
    const { ms, flushingMs } = after(nowMs, waitMs, MAX_FLUSHING_BACKOFF_MS)
    return { ms: Math.max(flushingMs, Math.min(ms, deadlineMs)), flushingMs }
  }

  /** Sets when the next attempt may begin. @param wasDown whether the target was down when the attempt began. */
  #pauseAfter(outcome: Outcome, wasDown: boolean, nowMs: number): void {
    const { paceMs = 0, maxFlushingWaitMs } = this.#options
    const waitMs = 'waitMs' in outcome ? (outcome.waitMs ?? 0) : 0
    this.#askedUntilMs = Math.max(this.#askedUntilMs, nowMs + waitMs)
    this.#extendPause(after(nowMs, paceMs))
    this.#extendPause(after(nowMs, waitMs, maxFlushingWaitMs))
    if (outcome.result !== 'retry' || outcome.targetDown !== true) {
      this.#downsInARow = 0
    } else if (this.#downsInARow === 0 || wasDown) {
      // Of several attempts that were under way together, only the first counts.
      this.#downsInARow++
      this.#extendPause(this.#backOff(this.#downsInARow, nowMs, this.#firstDeadlineMs()))
    }
  }

  #extendPause({ ms, flushingMs }: Moment): void {
    const { ms: endMs, flushingMs: flushingEndMs } = this.#pause
    this.#pause = { ms: Math.max(endMs, ms), flushingMs: Math.max(flushingEndMs, flushingMs) }
  }

  /** Returns the first end of a retry budget. */
  #firstDeadlineMs(): number {
    return this.#retries.reduce((firstMs, { deadlineMs }) => Math.min(firstMs, deadlineMs), NEVER)
  }

  /** Fails waiting items if the target asks for a pause above `maxWaitMs`. */
  #failIfPauseIsTooLong(nowMs: number): void {
    const leftMs = this.#pauseEndMs - nowMs
    if (leftMs <= (this.#options.maxWaitMs ?? NEVER)) return
    const wait = `the target asked for a pause of another ${Math.ceil(leftMs / 1000)} s`
    this.#failWaiting((failure) => ({
      ...failure,
      reason: failure === undefined ? wait : `${failure.reason}, and ${wait}`,
    }))
  }

  /** Fails waiting batches whose budget is spent. */
  #failExpired(nowMs: number): void {
    const expired = this.#retries.filter(({ deadlineMs }) => deadlineMs <= nowMs)
    if (expired.length === 0) return
    this.#retries = this.#retries.filter(({ deadlineMs }) => deadlineMs > nowMs)
    for (const batch of expired) this.#failBatch(batch, batch.failure as Failure, true)
  }

  /** Fails all items that are not under way. @param failureOf receives the failure of the latest attempt. */
  #failWaiting(failureOf: (latest: Failure | undefined) => Failure): void {
    const retries = this.#retries.splice(0)
    const fresh = this.#fresh.take(NEVER, NEVER)
    for (const batch of retries) this.#failBatch(batch, failureOf(batch.failure))
    if (fresh.length > 0) this.#fail(fresh, failureOf(undefined), 0)
  }

  #failBatch({ queued, attempts }: Batch<Item>, failure: Failure, budgetIsSpent = false): void {
    this.#fail(queued, failure, attempts, budgetIsSpent)
  }

  #fail(queued: readonly Queued<Item>[], failure: Failure, attempts: number, budgetIsSpent = false): void {
    const error = failureError(this.#options.type, failure, queued.length, attempts, budgetIsSpent)
    for (const { generation, outcome } of queued) {
      this.#work.settle(generation)
      outcome.failed(error)
    }
  }
}
