import { StoreGuard } from '../store-guard.ts'

/** The part of a `rate-limiter-flexible` limiter that is used. */
export interface RateLimiterLike {
  /** Consumes a point. Rejects with `{ msBeforeNext }` if none is left, and with an `Error` if the store fails. */
  consume(key: string, points?: number): Promise<unknown>
}

/** The maximum time that a limiter may take. */
const DEADLINE_MS = 500

/** Consumes points of limiters that share a store, which may be away. */
export class LimiterGuard {
  readonly #store = new StoreGuard(DEADLINE_MS)
  readonly #insurance = new StoreGuard(DEADLINE_MS)

  /**
   * Consumes a point. The `insuranceLimiter` of `rate-limiter-flexible`, if there is one, counts what the store is not asked for.
   * @returns the rejection that says that no point is left; undefined if there was one
   * @throws if nothing was counted, or if the limiter takes too long
   */
  async consume(limiter: RateLimiterLike, key: string): Promise<unknown> {
    let isAsked = false
    try {
      return await this.#store.ask(() => {
        isAsked = true
        return consumed(limiter, key)
      })
    } catch (error) {
      const { insuranceLimiter } = limiter as { readonly insuranceLimiter?: RateLimiterLike | null }
      // A command that takes too long may still be counted.
      if (isAsked || typeof insuranceLimiter?.consume !== 'function') throw error
      return await this.#insurance.ask(() => consumed(insuranceLimiter, key))
    }
  }
}

async function consumed(limiter: RateLimiterLike, key: string): Promise<unknown> {
  try {
    await limiter.consume(key, 1)
    return undefined
  } catch (rejection) {
    if (waitingMs(rejection) === undefined) throw rejection
    return rejection
  }
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
