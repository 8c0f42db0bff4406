/** The part of a `rate-limiter-flexible` limiter that is used. */
export interface RateLimiterLike {
  /** Consumes a point. Rejects with `{ msBeforeNext }` if none is left, and with an `Error` if the store fails. */
  consume(key: string, points?: number): Promise<unknown>
}
