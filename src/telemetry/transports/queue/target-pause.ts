import { type BackOff, backOffMs, MAX_FLUSHING_BACKOFF_MS, type Outcome } from './batch-queue-options.ts'

interface TargetPauseOptions {
  readonly paceMs?: number | undefined
  readonly maxFlushingWaitMs?: number | undefined
  readonly backOff: BackOff
}

/** A time, and the time instead of it while a caller flushes. */
interface Moment {
  readonly ms: number
  readonly flushingMs: number
}

const PAST: Moment = { ms: Number.NEGATIVE_INFINITY, flushingMs: Number.NEGATIVE_INFINITY }

/**
 * The time before which no batch is sent: because of the pace, because the target asks for a pause, or because it is down.
 * While the target is down, single batches are tried, a back-off apart.
 */
export class TargetPause {
  readonly #options: TargetPauseOptions
  readonly #random: () => number
  #end = PAST
  /** The end of the pause that the target asks for. */
  #askedUntilMs = Number.NEGATIVE_INFINITY
  /** The earliest time of an attempt next to one that is under way while the target is down. */
  #probe = PAST
  /** The number of failures since the target went down. */
  #downsInARow = 0

  constructor(options: TargetPauseOptions, random: () => number) {
    this.#options = options
    this.#random = random
  }

  get isDown(): boolean {
    return this.#downsInARow > 0
  }

  /** Returns when the next attempt may begin. @param busy whether an attempt is under way. */
  endMs(flushing: boolean, busy: boolean): number {
    const { ms, flushingMs } = this.isDown && busy ? later(this.#end, this.#probe) : this.#end
    return flushing ? flushingMs : ms
  }

  /** Returns `true` during a pause that the target asked for. */
  isAskedFor(nowMs: number): boolean {
    return this.#askedUntilMs > nowMs
  }

  /** Reports that an attempt begins. @returns whether the target is down. */
  attemptBegins(nowMs: number): boolean {
    // An attempt may take long to fail. Others do not wait for its end.
    if (this.isDown) this.#probe = after(nowMs, this.#backOffMs(), MAX_FLUSHING_BACKOFF_MS)
    return this.isDown
  }

  /**
   * Sets when the next attempt may begin.
   * @param wasDown the result of `attemptBegins`.
   * @param firstDeadlineMs the first end of a retry budget: that batch gets its last attempt before it.
   */
  attemptEnds(outcome: Outcome, wasDown: boolean, nowMs: number, firstDeadlineMs: () => number): void {
    const { paceMs = 0, maxFlushingWaitMs = Number.POSITIVE_INFINITY } = this.#options
    this.#end = later(this.#end, after(nowMs, paceMs))
    const waitMs = 'waitMs' in outcome ? (outcome.waitMs ?? 0) : 0
    if (waitMs > 0) {
      this.#askedUntilMs = Math.max(this.#askedUntilMs, nowMs + waitMs)
      this.#end = later(this.#end, after(nowMs, waitMs, maxFlushingWaitMs))
    }
    if (outcome.result !== 'retry' || outcome.targetDown !== true) {
      this.#downsInARow = 0
    } else if (!this.isDown || wasDown) {
      // Of several attempts that were under way together, only the first counts.
      this.#downsInARow++
      const { ms, flushingMs } = after(nowMs, this.#backOffMs(), MAX_FLUSHING_BACKOFF_MS)
      this.#end = later(this.#end, { ms: Math.max(flushingMs, Math.min(ms, firstDeadlineMs())), flushingMs })
    }
  }

  #backOffMs(): number {
    return backOffMs(this.#options.backOff, this.#downsInARow, this.#random())
  }
}

/** Returns the end of a wait. @param maxFlushingMs its maximum while a caller flushes. */
function after(nowMs: number, waitMs: number, maxFlushingMs = waitMs): Moment {
  return { ms: nowMs + waitMs, flushingMs: nowMs + Math.min(waitMs, maxFlushingMs) }
}

function later(one: Moment, other: Moment): Moment {
  return { ms: Math.max(one.ms, other.ms), flushingMs: Math.max(one.flushingMs, other.flushingMs) }
}
