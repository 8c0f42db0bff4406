/** What counts: a limiter of `rate-limiter-flexible`, in memory, in Redis or elsewhere. */
export interface RateLimiterLike {
  /** Takes a point; rejects with `{ msBeforeNext }` when none is left, and with an `Error` when it could not count. */
  consume(key: string, points?: number): Promise<unknown>
}
