/** The longest delay that a Node timer takes, in milliseconds; a longer one fires at once. */
export const MAX_TIMER_MS: number = 2 ** 31 - 1

/** A timer that {@link setLongTimeout} has started. */
export interface LongTimer {
  /** Stops the timer. A timer that has fired, or was stopped before, stays as it is. */
  clear(): void
  /** Lets the timer keep the process alive. */
  ref(): void
}

/**
 * Calls `callback` once, after a delay of any length. The timer does not keep the process alive.
 * @param ms milliseconds. Below 0 and `NaN` count as 0; `Infinity` never fires.
 */
export function setLongTimeout(callback: () => void, ms: number): LongTimer {
  let leftMs = Number.isNaN(ms) ? 0 : Math.max(ms, 0)
  let keepsAlive = false
  let timer: NodeJS.Timeout | undefined
  const wait = (): void => {
    const stepMs = Math.min(leftMs, MAX_TIMER_MS)
    leftMs -= stepMs
    timer = setTimeout(leftMs > 0 ? wait : callback, stepMs)
    if (!keepsAlive) timer.unref()
  }
  wait()
  return {
    clear: () => clearTimeout(timer),
    ref: () => {
      keepsAlive = true
      timer?.ref()
    },
  }
}

/** Milliseconds since `startedAt`, to a thousandth. */
export function elapsedMs(startedAt: number): number {
  return Math.round((performance.now() - startedAt) * 1000) / 1000
}
