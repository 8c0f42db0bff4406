import { LRUCache } from 'lru-cache'
import type { RateLimiterLike } from './rate-limiter.ts'

/** The most clients that are counted at a time. Beyond it, the client that was not refused for the longest is forgotten. */
const MAX_CLIENTS = 100_000

interface Counted {
  points: number
  readonly untilMs: number
}

/** Counts in this process, in bounded memory: an attacker may have as many addresses as there are networks. */
export class RefusalCounter implements RateLimiterLike {
  readonly #points: number
  readonly #durationMs: number
  readonly #clients = new LRUCache<string, Counted>({ max: MAX_CLIENTS })

  /** @param points the refusals that a client may cause in `durationSeconds`, which begin with the first. */
  constructor(points: number, durationSeconds: number) {
    this.#points = points
    this.#durationMs = durationSeconds * 1000
  }

  consume(key: string): Promise<void> {
    const nowMs = performance.now()
    let counted = this.#clients.get(key)
    if (counted === undefined || counted.untilMs <= nowMs) {
      counted = { points: 0, untilMs: nowMs + this.#durationMs }
      this.#clients.set(key, counted)
    }
    counted.points++
    return counted.points <= this.#points
      ? Promise.resolve()
      : Promise.reject({ msBeforeNext: counted.untilMs - nowMs })
  }
}
