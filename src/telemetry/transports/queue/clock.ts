import { setLongTimeout } from '../../../timers.ts'

/** `setImmediate`, or a timer in runtimes that do not have it. */
const soon: (callback: () => void) => void =
  typeof setImmediate === 'function' ? setImmediate : (callback) => setTimeout(callback, 0)

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
  soon: (callback) => soon(callback),
  random: () => Math.random(),
}
