import type { RateLimiterLike } from './rate-limiter.ts'
import { WindowCounter } from './window-counter.ts'

/**
 * The maximum number of clients that are counted. Beyond it, the entry that was not used for the longest time is
 * dropped.
 */
const MAX_CLIENTS = 100_000

/** Counts refusals in this process. Its memory is bounded, because an attacker can use any number of addresses. */
export class RefusalCounter implements RateLimiterLike {
  readonly #points: number
  readonly #durationMs: number
  readonly #clients = new WindowCounter(MAX_CLIENTS)

  /** @param points the number of refusals that a client may cause in `durationSeconds`, which begin with the first one */
  constructor(points: number, durationSeconds: number) {
    this.#points = points
    this.#durationMs = durationSeconds * 1000
  }

  consume(key: string): Promise<void> {
    const { points, leftMs } = this.#clients.add(key, this.#durationMs)
    return points <= this.#points ? Promise.resolve() : Promise.reject({ msBeforeNext: leftMs })
  }
}
