import { setLongTimeout } from '../../../base/timers.ts'

/** The reason why items were not delivered. */
export interface Failure {
  /** A sentence without secrets, such as `Slack responded with 500`. */
  readonly reason: string
  readonly cause?: unknown
  /** Added to the `details` of the error, such as `{ status: 500 }`. */
  readonly details?: Readonly<Record<string, string | number>> | undefined
}

/**
 * The outcome of one attempt to send a batch. `waitMs` is the pause that the target asks for. No batch is sent before it
 * has passed.
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
      /** Any other batch would have failed too. Until an attempt succeeds, the queue tries single batches, a back-off apart. */
      readonly targetDown?: boolean | undefined
      /** The batch fails after this many attempts whose outcome had such a limit. */
      readonly maxAttempts?: number | undefined
    }
  /** One of the items may be the reason. Each half is sent on its own, and a single item fails. */
  | { readonly result: 'split'; readonly failure: Failure }
  /** All waiting items fail. With `forGood`, so do all items that are added later. */
  | { readonly result: 'stop'; readonly failure: Failure; readonly forGood: boolean }

/** One attempt to send a batch. */
export interface Attempt {
  /** `true` while a caller waits in `flush` or `close`. */
  readonly flushing: boolean
  /** Aborts at the deadline of a shutdown. From then on, the request must not keep the process alive. */
  readonly signal: AbortSignal
}

export interface BatchQueueOptions<Item> {
  /** The type of the transport, for errors. */
  readonly type: string
  /** Sends a batch once. If it throws, the batch fails. */
  readonly send: (items: readonly Item[], attempt: Attempt) => Outcome | Promise<Outcome>
  /** The number of batches that may be under way at the same time. Defaults to 1. */
  readonly lanes?: number | undefined
  /**
   * Keeps the order of the items: a batch that waits for its retry holds back the batches behind it. Needs one lane.
   * Otherwise a waiting batch does not use a lane, and others go on. Defaults to `false`.
   */
  readonly ordered?: boolean | undefined
  /** The maximum number of items in a batch. A function is called each time. Defaults to no limit. */
  readonly maxItems?: number | (() => number) | undefined
  /** The maximum weight of a batch with more than one item. Defaults to no limit. */
  readonly maxWeight?: number | undefined
  /** The time that an item waits for others, in milliseconds. Defaults to 0: items of the same tick are sent together. */
  readonly delayMs?: number | undefined
  /** The pause after each attempt, in milliseconds. Defaults to 0. */
  readonly paceMs?: number | undefined
  readonly backOff: BackOff
  /** The maximum number of attempts of a batch. Defaults to no limit. */
  readonly maxAttempts?: number | undefined
  /** The time for all attempts of a batch, in milliseconds since the first one. Defaults to no limit. */
  readonly retryBudgetMs?: number | undefined
  /** The longest pause that a target may ask for, in milliseconds. If it asks for more, waiting items fail. Defaults to no limit. */
  readonly maxWaitMs?: number | undefined
  /** The longest pause for the target while a caller flushes, in milliseconds. Defaults to no limit. */
  readonly maxFlushingWaitMs?: number | undefined
  /** Allows attempts after the deadline of a shutdown. They must not keep the process alive. Defaults to `false`. */
  readonly sendsAfterDeadline?: boolean | undefined
}

export interface BackOff {
  /** The longest back-off after the first failure, in milliseconds. It doubles with each further failure. */
  readonly firstMs: number
  /** The longest back-off, in milliseconds. */
  readonly maxMs: number
  /** The shortest back-off, as a share of the longest: 0 is full jitter. Defaults to 0. */
  readonly minShare?: number | undefined
}

/** The maximum back-off while a caller flushes, in milliseconds. */
export const MAX_FLUSHING_BACKOFF_MS = 1_000

/** Returns the back-off after a number of failures in a row, in milliseconds. @param random from 0 to 1. */
export function backOffMs(
  { firstMs, maxMs, minShare = 0 }: BackOff,
  failures: number,
  random: number,
): number {
  const longestMs = Math.min(firstMs * 2 ** (failures - 1), maxMs)
  return longestMs * (minShare + random * (1 - minShare))
}

/** Time and random numbers. Tests replace them. */
export interface Clock {
  /** Returns the milliseconds of a clock that never goes back. */
  now(): number
  /** Calls back after `ms` milliseconds, without keeping the process alive. @returns a function that cancels the call. */
  after(callback: () => void, ms: number): () => void
  /** Calls back soon, after the current code has returned. */
  soon(callback: () => void): void
  /** Returns a number from 0 to 1. */
  random(): number
}

export const REAL_CLOCK: Clock = {
  now: () => performance.now(),
  after: (callback, ms) => {
    const timer = setLongTimeout(callback, ms)
    return () => timer.clear()
  },
  // Some runtimes do not have `setImmediate`.
  soon: (callback) => void (globalThis.setImmediate ?? setTimeout)(callback),
  random: () => Math.random(),
}
