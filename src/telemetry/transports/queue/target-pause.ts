import { type BackOff, backOffMs, MAX_FLUSHING_BACKOFF_MS, type Outcome } from './batch-queue-options.ts'

interface TargetPauseOptions {
  readonly paceMs?: number | undefined
  readonly maxFlushingWaitMs?: number | undefined
  readonly backOff: BackOff
}

/**
 * The time before which no batch is sent: because of the pace, because the target asks for a pause, or because it is down.
 * While the target is down, single batches are tried, a back-off apart.
 */
export class TargetPause {
  readonly #paceMs: number
  readonly #maxFlushingWaitMs: number
  readonly #backOff: BackOff
  readonly #random: () => number

  /** The end of the pause, and its end while a caller flushes. */
  #untilMs = Number.NEGATIVE_INFINITY
  #flushingUntilMs = Number.NEGATIVE_INFINITY
  /** The end of the pause that the target asks for. */
  #askedUntilMs = Number.NEGATIVE_INFINITY
  #isDown = false
  /** The earliest time of an attempt next to one that is under way while the target is down; the same while a caller flushes. */
  #probeMs = Number.NEGATIVE_INFINITY
  #flushingProbeMs = Number.NEGATIVE_INFINITY
  #downsInARow = 0

  constructor(options: TargetPauseOptions, random: () => number) {
    this.#paceMs = options.paceMs ?? 0
    this.#maxFlushingWaitMs = options.maxFlushingWaitMs ?? Number.POSITIVE_INFINITY
    this.#backOff = options.backOff
    this.#random = random
  }

  get isDown(): boolean {
    return this.#isDown
  }

  /** Returns when the next attempt may begin. @param busy whether an attempt is under way. */
  endMs(flushing: boolean, busy: boolean): number {
    const untilMs = flushing ? this.#flushingUntilMs : this.#untilMs
    if (!this.#isDown || !busy) return untilMs
    return Math.max(untilMs, flushing ? this.#flushingProbeMs : this.#probeMs)
  }

  /** Returns `true` during a pause that the target asked for. */
  isAskedFor(nowMs: number): boolean {
    return this.#askedUntilMs > nowMs
  }

  /** Reports that an attempt begins. @returns whether the target is down. */
  attemptBegins(nowMs: number): boolean {
    if (!this.#isDown) return false
    // An attempt may take long to fail. Others do not wait for its end.
    const waitMs = this.#backOffMs()
    this.#probeMs = nowMs + waitMs
    this.#flushingProbeMs = nowMs + Math.min(waitMs, MAX_FLUSHING_BACKOFF_MS)
    return true
  }

  /**
   * Sets when the next attempt may begin.
   * @param wasDown the result of `attemptBegins`.
   * @param firstDeadlineMs the first end of a retry budget: that batch gets its last attempt before it.
   */
  attemptEnds(outcome: Outcome, wasDown: boolean, nowMs: number, firstDeadlineMs: () => number): void {
    this.#extend(nowMs + this.#paceMs, nowMs + this.#paceMs)
    const waitMs = 'waitMs' in outcome ? (outcome.waitMs ?? 0) : 0
    if (waitMs > 0) {
      this.#askedUntilMs = Math.max(this.#askedUntilMs, nowMs + waitMs)
      this.#extend(nowMs + waitMs, nowMs + Math.min(waitMs, this.#maxFlushingWaitMs))
    }
    if (outcome.result !== 'retry' || outcome.targetDown !== true) {
      this.#isDown = false
      this.#downsInARow = 0
    } else if (!this.#isDown || wasDown) {
      // Of several attempts that were under way together, only the first counts.
      this.#isDown = true
      this.#downsInARow++
      const pauseMs = this.#backOffMs()
      const soonestMs = Math.min(pauseMs, MAX_FLUSHING_BACKOFF_MS)
      const untilDeadlineMs = firstDeadlineMs() - nowMs
      this.#extend(nowMs + Math.max(soonestMs, Math.min(pauseMs, untilDeadlineMs)), nowMs + soonestMs)
    }
  }

  #backOffMs(): number {
    return backOffMs(this.#backOff, this.#downsInARow, this.#random())
  }

  #extend(untilMs: number, flushingUntilMs: number): void {
    this.#untilMs = Math.max(this.#untilMs, untilMs)
    this.#flushingUntilMs = Math.max(this.#flushingUntilMs, flushingUntilMs)
  }
}
