/** The part of a `rate-limiter-flexible` limiter that is used. */
export interface RateLimiterLike {
  /** Consumes a point. Rejects with `{ msBeforeNext }` if none is left, and with an `Error` if the store fails. */
  consume(key: string, points?: number): Promise<unknown>
}

/** Reads the waiting time in milliseconds from a rejection of a limiter. A union of limiters rejects with an object of such values. */
export function waitingMs(rejection: unknown): number | undefined {
  if (typeof rejection !== 'object' || rejection === null || rejection instanceof Error) return undefined
  const waits = [rejection, ...Object.values(rejection)]
    .map((entry) => (entry as { msBeforeNext?: unknown } | null)?.msBeforeNext)
    .filter((wait): wait is number => typeof wait === 'number' && Number.isFinite(wait))
  return waits.length === 0 ? undefined : Math.max(...waits)
}

/** Returns a waiting time in whole seconds, at least 1. */
export function wholeSeconds(ms: number): number {
  return Math.max(1, Math.ceil(ms / 1000))
}
