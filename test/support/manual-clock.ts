import type { Clock } from '../../src/telemetry/transports/queue/batch-queue-options.ts'

/** A clock that moves only when a test advances it. */
export class ManualClock implements Clock {
  #nowMs = 1_000
  #soon: (() => void)[] = []
  readonly #timers = new Set<{ readonly atMs: number; readonly callback: () => void }>()
  readonly random: () => number

  /** @param random Source of the jitter. Defaults to the longest jitter. */
  constructor(random: () => number = () => 1) {
    this.random = random
  }

  get timers(): number {
    return this.#timers.size
  }

  now(): number {
    return this.#nowMs
  }

  after(callback: () => void, ms: number): () => void {
    const timer = { atMs: this.#nowMs + ms, callback }
    this.#timers.add(timer)
    return () => void this.#timers.delete(timer)
  }

  soon(callback: () => void): void {
    this.#soon.push(callback)
  }

  /** Runs the timers that are due now, and their consequences. */
  async settle(): Promise<void> {
    do {
      for (const callback of this.#soon.splice(0)) callback()
      await new Promise((resolve) => setImmediate(resolve))
    } while (this.#soon.length > 0)
  }

  /** Advances the clock, one timer at a time. */
  async advance(ms: number): Promise<void> {
    const untilMs = this.#nowMs + ms
    await this.settle()
    for (;;) {
      const due = [...this.#timers].reduce<{ atMs: number; callback: () => void } | undefined>(
        (first, timer) =>
          timer.atMs <= untilMs && (first === undefined || timer.atMs < first.atMs) ? timer : first,
        undefined,
      )
      if (due === undefined) break
      this.#timers.delete(due)
      this.#nowMs = Math.max(this.#nowMs, due.atMs)
      due.callback()
      await this.settle()
    }
    this.#nowMs = untilMs
  }
}
