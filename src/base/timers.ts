/** The longest delay of a Node timer, in milliseconds. A timer with a longer delay fires at once. */
export const MAX_TIMER_MS: number = 2 ** 31 - 1

/** A timer of {@link setLongTimeout}. */
export interface LongTimer {
  /** Stops the timer. Has no effect if the timer has fired or was stopped. */
  clear(): void
  /** Makes the timer keep the process alive. */
  ref(): void
}

/**
 * Calls `callback` once, after a delay of any length. The timer does not keep the process alive.
 * @param ms the delay in milliseconds. Negative numbers and `NaN` count as 0. `Infinity` never fires.
 */
export function setLongTimeout(callback: () => void, ms: number): LongTimer {
  let leftMs = Number.isNaN(ms) ? 0 : Math.max(ms, 0)
  let keepsAlive = false
  let timer: NodeJS.Timeout | undefined
  const wait = (): void => {
    const stepMs = Math.min(leftMs, MAX_TIMER_MS)
    leftMs -= stepMs
    timer = setTimeout(leftMs > 0 ? wait : callback, stepMs)
    // In browsers, a timer is a number.
    if (!keepsAlive && typeof timer === 'object') timer.unref()
  }
  wait()
  return {
    clear: () => clearTimeout(timer),
    ref: () => {
      keepsAlive = true
      if (typeof timer === 'object') timer.ref()
    },
  }
}

/** Returns the milliseconds since `startedAt`, rounded to a thousandth. */
export function elapsedMs(startedAt: number): number {
  return Math.round((performance.now() - startedAt) * 1000) / 1000
}
