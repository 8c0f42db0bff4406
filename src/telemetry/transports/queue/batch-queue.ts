import { AsyncResource } from 'node:async_hooks'
import { setLongTimeout } from '../../../timers.ts'
import { type Generation, PendingWork } from '../../delivery/pending-work.ts'
import { KitTelemetryError } from '../../errors.ts'
import { DueHeap } from './due-heap.ts'

/** Why items were not delivered. */
export interface Failure {
  /** Such as `Slack answered 500`, without a secret. */
  readonly reason: string
  readonly cause?: unknown
  /** Added to the `details` of the error, such as `{ status: 500 }`. */
  readonly details?: Readonly<Record<string, string | number>> | undefined
}

/**
 * The outcome of one attempt to send a batch. `waitMs` is how long the target asks to be left alone: no batch is sent
 * before that.
 */
export type Outcome =
  /** The target took the batch, except for the items in `rejected`, by their index. */
  | {
      readonly result: 'delivered'
      readonly rejected?: ReadonlyMap<number, Failure> | undefined
      readonly waitMs?: number | undefined
    }
  /** Another attempt cannot help. */
  | { readonly result: 'failed'; readonly failure: Failure; readonly waitMs?: number | undefined }
  /** Another attempt may help. The queue decides whether there is one, and when. */
  | {
      readonly result: 'retry'
      readonly failure: Failure
      readonly waitMs?: number | undefined
      /**
       * No batch would have passed. Until an attempt succeeds, the queue tries single batches, a back-off apart. `'perhaps'`
       * means so once as many attempts as there are lanes had it in a row.
       */
      readonly targetDown?: boolean | 'perhaps' | undefined
      /** The batch fails when this many of its attempts had an outcome with such a limit. */
      readonly maxAttempts?: number | undefined
    }
  /** One of the items may be the reason: each half is sent on its own, and a single item fails. */
  | { readonly result: 'split'; readonly failure: Failure }
  /** The batch was too large: its items are sent in smaller batches, as is everything later. A single item fails. */
  | { readonly result: 'too-large'; readonly failure: Failure }
  /** Everything that waits fails. With `forGood`, so does everything that is added later. */
  | { readonly result: 'stop'; readonly failure: Failure; readonly forGood: boolean }

/** One attempt to send a batch. */
export interface Attempt {
  /** 1 for the first attempt of this batch. */
  readonly number: number
  /** Whether a caller waits in `flush` or `close`. */
  readonly flushing: boolean
  /** Aborted when the deadline of a shutdown has passed. From then on the request must not keep the process alive. */
  readonly signal: AbortSignal
}

export interface BackOff {
  /** The longest back-off after the first failure, in milliseconds. It doubles with each further failure. */
  readonly firstMs: number
  /** The longest back-off, in milliseconds. */
  readonly maxMs: number
  /** The shortest back-off, as a share of the longest: 0 is full jitter. Defaults to 0. */
  readonly minShare?: number | undefined
}

export interface BatchQueueOptions<Item> {
  /** The transport's type, for errors. */
  readonly type: string
  /** Sends a batch once. What it throws fails the batch. */
  readonly send: (items: readonly Item[], attempt: Attempt) => Outcome | Promise<Outcome>
  /** The number of batches that may be under way at the same time. Defaults to 1. */
  readonly lanes?: number | undefined
  /**
   * Keeps the order of the items: a batch that waits for its retry holds back those behind it. Needs one lane. Without it,
   * a batch that waits holds no lane, and others go on. Defaults to `false`.
   */
  readonly ordered?: boolean | undefined
  /** The most items of a batch. A function is asked each time. Defaults to no limit. */
  readonly maxItems?: number | (() => number) | undefined
  /** The most weight of a batch of more than one item. Defaults to no limit. */
  readonly maxWeight?: number | undefined
  /** How long an item waits for others, in milliseconds. Defaults to 0: what is added in the same tick goes together. */
  readonly delayMs?: number | undefined
  /** How long the target is left alone after each attempt, in milliseconds. Defaults to 0. */
  readonly paceMs?: number | undefined
  readonly backOff: BackOff
  /** The most attempts of a batch. Defaults to no limit. */
  readonly maxAttempts?: number | undefined
  /** How long a batch is tried again, in milliseconds since its first attempt. Defaults to no limit. */
  readonly retryBudgetMs?: number | undefined
  /** The longest wait that a target may ask for, in milliseconds. Beyond it, what waits fails. Defaults to no limit. */
  readonly maxWaitMs?: number | undefined
  /** How long a wait that the target asked for lasts while a caller flushes, in milliseconds. Defaults to all of it. */
  readonly maxFlushingWaitMs?: number | undefined
  /** How long `close` waits, in milliseconds, before it fails what is left with `reason`. Defaults to no limit. */
  readonly closing?: { readonly timeoutMs: number; readonly reason: string } | undefined
  /** Whether attempts may begin after the deadline of a shutdown. They must not keep the process alive. Defaults to `false`. */
  readonly sendsAfterDeadline?: boolean | undefined
}

/** The time and the chance, which tests replace. */
export interface Clock {
  /** Milliseconds of a clock that never goes back. */
  now(): number
  /** Calls back after `ms` milliseconds, without keeping the process alive. @returns cancels the call */
  after(callback: () => void, ms: number): () => void
  /** Calls back soon, but not at once. */
  soon(callback: () => void): void
  /** From 0 to 1. */
  random(): number
}

const REAL_CLOCK: Clock = {
  now: () => performance.now(),
  after: (callback, ms) => {
    const timer = setLongTimeout(callback, ms)
    return () => timer.clear()
  },
  soon: (callback) => setImmediate(callback),
  random: () => Math.random(),
}

interface Queued<Item> {
  readonly item: Item
  readonly weight: number
  /** When it was added; `-Infinity` when it waits for others no longer. */
  addedMs: number
  readonly generation: Generation
  readonly settled: Promise<void>
  readonly delivered: () => void
  readonly failed: (error: KitTelemetryError) => void
}

interface Batch<Item> {
  readonly queued: readonly Queued<Item>[]
  readonly weight: number
  attempts: number
  /** The attempts whose outcome had a `maxAttempts`. */
  limitedAttempts: number
  /** The end of its retry budget. */
  deadlineMs: number
  state: 'waiting' | 'under way' | 'done'
  /** When its next attempt is due. */
  dueMs: number
  /** The same while a caller flushes. */
  flushingDueMs: number
  failure: Failure | undefined
}

/** A flush shortens a back-off to this. */
const MAX_FLUSHING_BACKOFF_MS = 1_000

/** How long an item is not sent that is as large as one that the target refused as too large. */
const REFUSED_ITEM_MS = 60_000

/** How long batches stay smaller after the target refused one as too large. */
const SMALLER_BATCHES_MS = 600_000

/**
 * What is sent belongs to no event's async context: a batch carries several events, and outlives the requests they came
 * from. Made when this module is loaded, usually outside of any request.
 */
const context = new AsyncResource('KitTelemetryBatchQueue')

/**
 * Collects items into batches and sends each until it is delivered or has failed. Every transport that sends over a
 * network uses it:
 *
 * - `add(item, weight)` returns a promise that settles with the item.
 * - `send(items, attempt)` sends a batch once and returns an `Outcome`. It decides what an answer means. The queue decides
 *   whether and when there is another attempt.
 * - `flush()` resolves when everything added before has settled. Until then partial batches are sent at once, a back-off
 *   is at most a second, and a wait that the target asked for is at most `maxFlushingWaitMs`.
 * - `close(deadline)` flushes, and rejects what is added later. When `deadline` aborts, it resolves at once: what has
 *   not settled by then stays pending, and `attempt.signal` tells `send` to let go of the process.
 *
 * There are two kinds of waits. A wait for the target holds back every batch: the pace, `waitMs`, and the back-off after
 * `targetDown`, after which single batches go first, a back-off apart. Any other back-off holds back only its own batch.
 *
 * Any number of calls costs time and memory linear in the items that have not settled and the callers that wait. `send`
 * may call every method. The timers do not keep the process alive.
 *
 * @example
 * const queue = new BatchQueue<TelemetryEnvelope>({
 *   type: 'http',
 *   ordered: true,
 *   maxItems: 100,
 *   delayMs: 1_000,
 *   maxAttempts: 3,
 *   backOff: { firstMs: 250, maxMs: 30_000 },
 *   send: async (envelopes, { signal }) => outcomeOf(await post(url, headers, JSON.stringify(envelopes), signal)),
 * })
 */
export class BatchQueue<Item> {
  readonly #options: BatchQueueOptions<Item>
  readonly #clock: Clock
  readonly #lanes: number
  readonly #work = new PendingWork()

  /** What has not been sent yet: `#fresh` from `#freshAt` on. */
  #fresh: Queued<Item>[] = []
  #freshAt = 0
  #freshWeight = 0
  /** How many items have been taken from `#fresh`, and up to which one callers have flushed. */
  #taken = 0
  #flushedTo = 0

  /** Batches that wait for their next attempt, in their order where that is kept. */
  readonly #inOrder: Batch<Item>[] = []
  readonly #retries = new DueHeap<Batch<Item>>()
  /** Those of `#retries` whose back-off no flush has shortened. */
  readonly #unhurried = new Set<Batch<Item>>()
  /** Batches that have been tried, in the order of their first attempts, and so of their deadlines. */
  #started: Batch<Item>[] = []
  #startedAt = 0
  #startedDone = 0
  readonly #underWay = new Set<Batch<Item>>()
  #retriedLast = false

  /** The target is left alone until then, and until then while a caller flushes. */
  #opensMs = Number.NEGATIVE_INFINITY
  #flushingOpensMs = Number.NEGATIVE_INFINITY
  #askedUntilMs = Number.NEGATIVE_INFINITY
  #down = false
  /** The earliest time of an attempt next to one that is under way while the target is down; the same while a caller flushes. */
  #probeMs = Number.NEGATIVE_INFINITY
  #flushingProbeMs = Number.NEGATIVE_INFINITY
  #downsInARow = 0
  #perhapsDownInARow = 0

  #maxWeight: number
  /** The latest attempt was too large: one batch at a time finds out which size is not. */
  #sizing = false
  /** Until then, `#maxWeight` is less than the option, since the target refused a batch as too large. */
  #smallerUntilMs = Number.POSITIVE_INFINITY
  /** An item of this weight was refused by itself. */
  #refused: { readonly weight: number; readonly untilMs: number; readonly failure: Failure } | undefined

  #flushing = 0
  #closedReason: string | undefined
  readonly #released = new AbortController()

  /** Nothing can be sent before the timer fires or an attempt ends. */
  #blocked = false
  #stepScheduled = false
  #stepping = false
  #stepAgain = false
  #wakeMs = Number.POSITIVE_INFINITY
  #cancelWake: () => void = () => {}

  constructor(options: BatchQueueOptions<Item>, clock: Clock = REAL_CLOCK) {
    this.#options = options
    this.#clock = clock
    this.#lanes = options.ordered === true ? 1 : (options.lanes ?? 1)
    this.#maxWeight = options.maxWeight ?? Number.POSITIVE_INFINITY
  }

  /**
   * Adds an item.
   * @param weight its size in the unit of `maxWeight`. Defaults to 1.
   * @returns resolves when the item is delivered, and rejects with `TELEMETRY_TRANSPORT_FAILED` when it has failed
   */
  add(item: Item, weight = 1): Promise<void> {
    if (this.#closedReason !== undefined) {
      const rejected = Promise.reject(this.#error({ reason: this.#closedReason }, 1, 0))
      rejected.catch(ignore)
      return rejected
    }
    const wasEmpty = this.#freshCount === 0
    const addedMs = this.#clock.now()
    let delivered: Queued<Item>['delivered'] = ignore
    let failed: Queued<Item>['failed'] = ignore
    const settled = new Promise<void>((resolve, reject) => {
      delivered = resolve
      failed = reject
    })
    const generation = this.#work.add()
    this.#fresh.push({ item, weight, addedMs, generation, settled, delivered, failed })
    this.#freshWeight += weight
    if (this.#blocked && !wasEmpty) return settled
    if (this.#isFull || (wasEmpty && this.#delayMs === 0)) this.#stepSoon()
    else if (wasEmpty) this.#wakeAt(addedMs + this.#delayMs)
    return settled
  }

  /**
   * Sends everything that has been added, at once if there is a lane for it, and resolves when all of it is delivered or has
   * failed.
   */
  flush(): Promise<void> {
    if (this.#work.count === 0 || !this.#mayBegin) return Promise.resolve()
    this.#flushedTo = this.#taken + this.#freshCount
    this.#hurry()
    return new Promise((resolve) => {
      this.#flushing++
      this.#work.whenSettled(() => {
        this.#flushing--
        resolve()
      })
      this.#inContext(() => this.#step())
    })
  }

  /**
   * Flushes. Items that are added from now on fail.
   * @param deadline when it aborts, the promise resolves, and nothing keeps the process alive any longer
   */
  async close(deadline?: AbortSignal): Promise<void> {
    this.#closedReason ??= 'it is shut down'
    const { closing } = this.#options
    const cancel =
      closing === undefined
        ? () => {}
        : this.#inContext(() => this.#clock.after(() => this.#failAll(closing), closing.timeoutMs))
    await Promise.race([this.flush(), aborted(deadline)])
    if (this.#work.count === 0) cancel()
    this.#release()
  }

  get #freshCount(): number {
    return this.#fresh.length - this.#freshAt
  }

  get #delayMs(): number {
    return this.#options.delayMs ?? 0
  }

  get #maxItems(): number {
    const { maxItems = Number.POSITIVE_INFINITY } = this.#options
    return typeof maxItems === 'function' ? maxItems() : maxItems
  }

  get #isFull(): boolean {
    return this.#freshWeight >= this.#maxWeight || this.#freshCount >= this.#maxItems
  }

  get #opens(): number {
    const flushes = this.#flushing > 0
    const opensMs = flushes ? this.#flushingOpensMs : this.#opensMs
    if (!this.#down || this.#underWay.size === 0) return opensMs
    return Math.max(opensMs, flushes ? this.#flushingProbeMs : this.#probeMs)
  }

  get #mayBegin(): boolean {
    return !this.#released.signal.aborted || this.#options.sendsAfterDeadline === true
  }

  /** Not at once, since encoding a batch takes time that is not the application's to spend. */
  #stepSoon(): void {
    if (this.#stepScheduled) return
    this.#stepScheduled = true
    this.#inContext(() =>
      this.#clock.soon(() => {
        this.#stepScheduled = false
        this.#step()
      }),
    )
  }

  #inContext<Result>(run: () => Result): Result {
    return context.runInAsyncScope(run)
  }

  /** Sends what can be sent now, and sets the timer for what comes next. `send` may lead back here. */
  #step(): void {
    this.#stepAgain = true
    if (this.#stepping) return
    this.#stepping = true
    try {
      while (this.#stepAgain) {
        this.#stepAgain = false
        this.#sendWhatIsDue()
      }
    } finally {
      this.#stepping = false
    }
  }

  #sendWhatIsDue(): void {
    if (!this.#mayBegin) return
    const nowMs = this.#clock.now()
    if (nowMs >= this.#smallerUntilMs) this.#maxWeight = this.#options.maxWeight ?? Number.POSITIVE_INFINITY
    this.#failWhatWaitsTooLong(nowMs)
    if (this.#askedUntilMs > nowMs) this.#failExpired(nowMs)
    const lanes = this.#sizing ? 1 : this.#lanes
    while (this.#underWay.size < lanes && this.#opens <= nowMs) {
      const batch = this.#next(nowMs)
      if (batch === undefined) break
      void this.#send(batch)
    }
    this.#blocked = this.#underWay.size >= lanes || this.#opens > nowMs
    if (this.#underWay.size < lanes) {
      const readyMs = Math.min(this.#freshReadyMs(), this.#retryDueMs())
      this.#wakeAt(this.#opens > nowMs && readyMs < Number.POSITIVE_INFINITY ? this.#opens : readyMs)
    }
    if (this.#askedUntilMs > nowMs) this.#wakeAt(this.#firstDeadlineMs())
  }

  #wakeAt(atMs: number): void {
    if (atMs >= this.#wakeMs) return
    this.#cancelWake()
    this.#wakeMs = atMs
    const waitMs = Math.max(1, Math.ceil(atMs - this.#clock.now()))
    this.#cancelWake = this.#inContext(() =>
      this.#clock.after(() => {
        this.#wakeMs = Number.POSITIVE_INFINITY
        this.#step()
      }, waitMs),
    )
  }

  /** The batch that is to be sent now. Where both are due, retries and fresh items take turns, so that neither starves. */
  #next(nowMs: number): Batch<Item> | undefined {
    const retryIsDue = this.#retryDueMs() <= nowMs
    const freshIsReady = this.#freshReadyMs() <= nowMs
    if (this.#options.ordered === true && this.#inOrder.length > 0)
      return retryIsDue ? this.#takeRetry() : undefined
    // Batches that wait for a retry fail with the next attempt if their budget is spent, so a caller that flushes an outage
    // learns the outcome sooner if each batch is tried once first.
    const freshFirst = this.#retriedLast || (this.#down && this.#flushing > 0)
    if (retryIsDue && (!freshIsReady || !freshFirst)) return this.#takeRetry()
    return freshIsReady ? this.#takeFresh(nowMs) : undefined
  }

  #freshReadyMs(): number {
    const first = this.#fresh[this.#freshAt]
    if (first === undefined) return Number.POSITIVE_INFINITY
    if (this.#taken < this.#flushedTo || this.#isFull) return Number.NEGATIVE_INFINITY
    return first.addedMs + this.#delayMs
  }

  #retryDueMs(): number {
    if (this.#options.ordered !== true) return this.#retries.dueMs
    const [first] = this.#inOrder
    if (first === undefined) return Number.POSITIVE_INFINITY
    return this.#flushing > 0 ? first.flushingDueMs : first.dueMs
  }

  #takeRetry(): Batch<Item> | undefined {
    this.#retriedLast = true
    const batch = this.#options.ordered === true ? this.#inOrder.shift() : this.#retries.take()
    if (batch === undefined) return undefined
    if (batch.weight <= this.#maxWeight || batch.queued.length === 1) return batch
    // It was made when larger batches were allowed.
    this.#putBack(batch)
    return this.#takeFresh(this.#clock.now())
  }

  #takeFresh(nowMs: number): Batch<Item> | undefined {
    this.#retriedLast = false
    const maxItems = this.#maxItems
    const refused = this.#refused !== undefined && this.#refused.untilMs > nowMs ? this.#refused : undefined
    const queued: Queued<Item>[] = []
    let weight = 0
    for (let first = this.#fresh[this.#freshAt]; first !== undefined; first = this.#fresh[this.#freshAt]) {
      const isRefused = refused !== undefined && first.weight >= refused.weight
      if (!isRefused && queued.length > 0) {
        if (queued.length >= maxItems || weight + first.weight > this.#maxWeight) break
      }
      this.#freshAt++
      this.#taken++
      this.#freshWeight -= first.weight
      if (isRefused) {
        this.#fail([first], this.#error(refused.failure, 1, 1))
      } else {
        queued.push(first)
        weight += first.weight
      }
    }
    if (this.#freshAt * 2 > this.#fresh.length) {
      this.#fresh = this.#fresh.slice(this.#freshAt)
      this.#freshAt = 0
    }
    return queued.length === 0 ? undefined : newBatch(queued, nowMs)
  }

  /** Puts the items of a batch before everything that has not been sent. */
  #putBack(batch: Batch<Item>): void {
    this.#forget(batch)
    const { queued, weight } = batch
    for (const one of queued) one.addedMs = Number.NEGATIVE_INFINITY
    this.#fresh = [...queued, ...this.#fresh.slice(this.#freshAt)]
    this.#freshAt = 0
    this.#freshWeight += weight
    this.#taken -= queued.length
  }

  /** Never rejects. */
  async #send(batch: Batch<Item>): Promise<void> {
    this.#underWay.add(batch)
    this.#unhurried.delete(batch)
    batch.state = 'under way'
    batch.attempts++
    if (batch.attempts === 1) {
      batch.deadlineMs = this.#clock.now() + (this.#options.retryBudgetMs ?? Number.POSITIVE_INFINITY)
      this.#started.push(batch)
    }
    const wasDown = this.#down
    if (wasDown) {
      // An attempt may take long to fail, and others need not wait for its end.
      const nowMs = this.#clock.now()
      const backOffMs = this.#backOffMs(this.#downsInARow)
      this.#probeMs = nowMs + backOffMs
      this.#flushingProbeMs = nowMs + Math.min(backOffMs, MAX_FLUSHING_BACKOFF_MS)
    }
    const outcome = await this.#attempt(batch)
    // It may have failed meanwhile.
    if (!this.#underWay.delete(batch)) return
    // After the deadline, what is not delivered stays pending.
    if (!this.#mayBegin && outcome.result !== 'delivered') return
    const nowMs = this.#clock.now()
    this.#settle(batch, outcome, nowMs)
    this.#leaveAloneAfter(outcome, wasDown, nowMs)
    this.#step()
  }

  async #attempt(batch: Batch<Item>): Promise<Outcome> {
    try {
      return await this.#options.send(
        batch.queued.map(({ item }) => item),
        { number: batch.attempts, flushing: this.#flushing > 0, signal: this.#released.signal },
      )
    } catch {
      // The error is not kept, since it may quote an event or name the target.
      return { result: 'failed', failure: { reason: 'what was to be sent could not be written' } }
    }
  }

  /** Sets from when on the target may be asked again. */
  #leaveAloneAfter(outcome: Outcome, wasDown: boolean, nowMs: number): void {
    const { paceMs = 0, maxFlushingWaitMs = Number.POSITIVE_INFINITY } = this.#options
    this.#leaveAlone(nowMs + paceMs, nowMs + paceMs)
    const waitMs = 'waitMs' in outcome ? (outcome.waitMs ?? 0) : 0
    if (waitMs > 0) {
      this.#askedUntilMs = Math.max(this.#askedUntilMs, nowMs + waitMs)
      this.#leaveAlone(nowMs + waitMs, nowMs + Math.min(waitMs, maxFlushingWaitMs))
    }
    const targetDown = outcome.result === 'retry' ? outcome.targetDown : false
    if (targetDown === 'perhaps') this.#perhapsDownInARow++
    else if (targetDown !== true) this.#perhapsDownInARow = 0
    const isDown = targetDown === 'perhaps' ? this.#perhapsDownInARow >= this.#lanes : targetDown === true
    if (!isDown) {
      if (targetDown === 'perhaps') return
      this.#down = false
      this.#downsInARow = 0
    } else if (!this.#down || wasDown) {
      // Of several attempts that were under way together, only the first counts.
      this.#down = true
      const backOffMs = this.#backOffMs(++this.#downsInARow)
      const soonestMs = Math.min(backOffMs, MAX_FLUSHING_BACKOFF_MS)
      // The batch whose budget ends first gets its last attempt before that.
      const untilDeadlineMs = this.#firstDeadlineMs() - nowMs
      this.#leaveAlone(nowMs + Math.max(soonestMs, Math.min(backOffMs, untilDeadlineMs)), nowMs + soonestMs)
    }
  }

  #leaveAlone(untilMs: number, flushingUntilMs: number): void {
    this.#opensMs = Math.max(this.#opensMs, untilMs)
    this.#flushingOpensMs = Math.max(this.#flushingOpensMs, flushingUntilMs)
  }

  #backOffMs(failures: number): number {
    const { firstMs, maxMs, minShare = 0 } = this.#options.backOff
    const longestMs = Math.min(firstMs * 2 ** (failures - 1), maxMs)
    return longestMs * (minShare + this.#clock.random() * (1 - minShare))
  }

  #settle(batch: Batch<Item>, outcome: Outcome, nowMs: number): void {
    this.#sizing = outcome.result === 'too-large'
    if (outcome.result !== 'retry') this.#forget(batch)
    switch (outcome.result) {
      case 'delivered':
        this.#deliver(batch, outcome.rejected)
        return
      case 'failed':
        this.#failBatch(batch, outcome.failure)
        return
      case 'retry':
        this.#retry(batch, outcome, nowMs)
        return
      case 'split':
        if (batch.queued.length === 1) this.#failBatch(batch, outcome.failure)
        else this.#split(batch, nowMs)
        return
      case 'too-large':
        this.#tooLarge(batch, outcome.failure, nowMs)
        return
      case 'stop':
        if (outcome.forGood) this.#closedReason = `nothing more is sent, since ${outcome.failure.reason}`
        this.#failBatch(batch, outcome.failure)
        this.#failWaiting(() => outcome.failure)
    }
  }

  #deliver({ queued, attempts }: Batch<Item>, rejected: ReadonlyMap<number, Failure> | undefined): void {
    if (rejected === undefined) {
      for (const { generation, delivered } of queued) {
        this.#work.settle(generation)
        delivered()
      }
      return
    }
    const failed = new Map<Failure, Queued<Item>[]>()
    for (const [index, one] of queued.entries()) {
      const failure = rejected.get(index)
      if (failure === undefined) {
        this.#work.settle(one.generation)
        one.delivered()
      } else {
        const others = failed.get(failure)
        if (others === undefined) failed.set(failure, [one])
        else others.push(one)
      }
    }
    for (const [failure, ones] of failed) this.#fail(ones, this.#error(failure, ones.length, attempts))
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
      const { waitMs } = outcome
      const backOffMs = waitMs === undefined ? this.#backOffMs(batch.attempts) : 0
      const soonestMs = nowMs + Math.min(backOffMs, MAX_FLUSHING_BACKOFF_MS)
      batch.dueMs = Math.max(soonestMs, Math.min(nowMs + backOffMs, batch.deadlineMs))
      batch.flushingDueMs = soonestMs
      this.#park(batch)
    }
    // The target has just shown that none of them would have passed.
    if (outcome.targetDown === true) this.#failExpired(nowMs)
  }

  #park(batch: Batch<Item>): void {
    batch.state = 'waiting'
    if (this.#options.ordered === true) {
      this.#inOrder.unshift(batch)
    } else {
      if (this.#flushing > 0) batch.dueMs = batch.flushingDueMs
      else this.#unhurried.add(batch)
      this.#retries.add(batch)
    }
  }

  /** Each back-off is shortened once. */
  #hurry(): void {
    for (const batch of this.#unhurried) {
      if (batch.flushingDueMs >= batch.dueMs) continue
      batch.dueMs = batch.flushingDueMs
      this.#retries.add(batch)
    }
    this.#unhurried.clear()
  }

  #split({ queued }: Batch<Item>, nowMs: number): void {
    const middle = queued.length >> 1
    const halves = [queued.slice(0, middle), queued.slice(middle)].map((half) => newBatch(half, nowMs))
    if (this.#options.ordered === true) this.#inOrder.unshift(...halves)
    else for (const half of halves) this.#retries.add(half)
  }

  #tooLarge(batch: Batch<Item>, failure: Failure, nowMs: number): void {
    if (batch.queued.length === 1) {
      this.#refused = { weight: batch.weight, untilMs: nowMs + REFUSED_ITEM_MS, failure }
      this.#failBatch(batch, failure)
      return
    }
    this.#maxWeight = Math.min(this.#maxWeight, batch.weight / 2)
    this.#smallerUntilMs = nowMs + SMALLER_BATCHES_MS
    this.#putBack(batch)
  }

  /** What the target asked for may be longer than anything can wait. */
  #failWhatWaitsTooLong(nowMs: number): void {
    const { maxWaitMs = Number.POSITIVE_INFINITY } = this.#options
    const leftMs = this.#opens - nowMs
    if (leftMs <= maxWaitMs) return
    const wait = `the target asked to be left alone for another ${Math.ceil(leftMs / 1000)} s`
    this.#failWaiting(({ failure }) => ({
      ...failure,
      reason: failure === undefined ? wait : `${failure.reason}, and ${wait}`,
    }))
  }

  /** Fails the batches that wait although their budget is spent. */
  #failExpired(nowMs: number): void {
    const expired: Batch<Item>[] = []
    if (this.#firstDeadlineMs() > nowMs) return
    for (let at = this.#startedAt; at < this.#started.length; at++) {
      const batch = this.#started[at] as Batch<Item>
      if (batch.deadlineMs > nowMs) break
      if (batch.state === 'waiting') expired.push(batch)
    }
    for (const batch of expired) if (batch.failure !== undefined) this.#failBatch(batch, batch.failure, true)
  }

  /** The deadline of the batch that was tried first, of those that have not settled. */
  #firstDeadlineMs(): number {
    while (this.#started[this.#startedAt]?.state === 'done') this.#startedAt++
    return this.#started[this.#startedAt]?.deadlineMs ?? Number.POSITIVE_INFINITY
  }

  /** Fails everything, including what is under way. */
  #failAll(failure: Failure): void {
    for (const batch of this.#underWay) this.#failBatch(batch, failure)
    this.#underWay.clear()
    this.#failWaiting(() => failure)
  }

  /** Fails everything but what is under way. */
  #failWaiting(failureOf: (batch: { readonly failure: Failure | undefined }) => Failure): void {
    for (const batch of [...this.#inOrder.splice(0), ...this.#retries.takeAll()])
      this.#failBatch(batch, failureOf(batch))
    const fresh = this.#fresh.slice(this.#freshAt)
    this.#fresh = []
    this.#freshAt = 0
    this.#freshWeight = 0
    this.#taken += fresh.length
    if (fresh.length > 0) this.#fail(fresh, this.#error(failureOf({ failure: undefined }), fresh.length, 0))
  }

  #failBatch(batch: Batch<Item>, failure: Failure, budgetIsSpent = false): void {
    this.#forget(batch)
    const { queued, attempts } = batch
    this.#fail(queued, this.#error(failure, queued.length, attempts, budgetIsSpent))
  }

  #forget(batch: Batch<Item>): void {
    if (batch.state === 'done') return
    if (batch.state === 'waiting' && this.#options.ordered === true) {
      const at = this.#inOrder.indexOf(batch)
      if (at !== -1) this.#inOrder.splice(at, 1)
    }
    batch.state = 'done'
    this.#unhurried.delete(batch)
    // The list keeps at most as many that have settled as others.
    if (batch.attempts === 0 || ++this.#startedDone * 2 < this.#started.length) return
    this.#started = this.#started.filter(({ state }) => state !== 'done')
    this.#startedAt = 0
    this.#startedDone = 0
  }

  #fail(queued: readonly Queued<Item>[], error: KitTelemetryError): void {
    for (const { generation, settled, failed } of queued) {
      this.#work.settle(generation)
      // A caller may ignore the outcome. Its rejection is not an error of the process.
      settled.catch(ignore)
      failed(error)
    }
  }

  #error(
    { reason, cause, details }: Failure,
    events: number,
    attempts: number,
    budgetIsSpent = false,
  ): KitTelemetryError {
    const often = budgetIsSpent
      ? `, ${attempts} times until retryBudgetMs was spent`
      : attempts > 1
        ? ` in the last of ${attempts} attempts`
        : ''
    const lost = events === 1 ? '1 event is lost' : `${events} events are lost`
    return new KitTelemetryError(
      'TELEMETRY_TRANSPORT_FAILED',
      `transport ${JSON.stringify(this.#options.type)}: ${reason}${often}; ${lost}`,
      {
        ...(cause === undefined ? {} : { cause }),
        details: { events, ...(attempts === 0 ? {} : { attempts }), ...details },
      },
    )
  }

  /** From now on, nothing keeps the process alive, and only `sendsAfterDeadline` lets attempts begin. */
  #release(): void {
    this.#released.abort()
    if (this.#mayBegin) return
    this.#cancelWake()
    this.#wakeMs = Number.POSITIVE_INFINITY
    this.#fresh = []
    this.#freshAt = 0
    this.#inOrder.length = 0
    this.#retries.takeAll()
    this.#started = []
    this.#startedAt = 0
    this.#unhurried.clear()
  }
}

function ignore(): void {}

function newBatch<Item>(queued: readonly Queued<Item>[], dueMs: number): Batch<Item> {
  return {
    queued,
    weight: queued.reduce((sum, { weight }) => sum + weight, 0),
    attempts: 0,
    limitedAttempts: 0,
    deadlineMs: Number.POSITIVE_INFINITY,
    state: 'waiting',
    dueMs,
    flushingDueMs: dueMs,
    failure: undefined,
  }
}

/** Resolves when `signal` aborts. */
function aborted(signal: AbortSignal | undefined): Promise<void> {
  return new Promise((resolve) => {
    if (signal?.aborted === true) resolve()
    else signal?.addEventListener('abort', () => resolve(), { once: true })
  })
}
