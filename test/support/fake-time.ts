import { performance } from 'node:perf_hooks'
import { mock } from 'node:test'

/** Time that moves only when a test advances it. */
export interface FakeTime {
  /** Advances the clocks, and runs the timers that are due, one after the other. */
  advance(ms: number): void
  restore(): void
}

const STEP_MS = 10

/** Replaces `setTimeout`, `Date`, and `performance.now`. Intervals and immediates stay as they are. Timers run at most 10 ms late. */
export function fakeTime(): FakeTime {
  mock.timers.enable({ apis: ['setTimeout', 'Date'], now: Date.now() })
  const startedAtMs = Date.now() - performance.now()
  const now = mock.method(performance, 'now', () => Date.now() - startedAtMs)
  return {
    advance: (ms) => {
      // The timers of one tick all see the time at its end.
      for (let left = ms; left > 0; left -= STEP_MS) mock.timers.tick(Math.min(left, STEP_MS))
    },
    restore: () => {
      now.mock.restore()
      mock.timers.reset()
    },
  }
}
