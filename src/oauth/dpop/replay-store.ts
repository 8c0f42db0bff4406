import { LRUCache } from 'lru-cache'

/**
 * Remembers which DPoP proofs were used (RFC 9449 §11.1). Nodes that serve the same resource share one:
 * in Redis it is one `SET key 1 NX EX …`, as `redisReplayStore` does it.
 */
export interface DpopReplayStore {
  /**
   * Takes `key` if nobody has, and keeps it until `expiresAtSeconds` (since 1970).
   * True for the first use, false for every further one. Where it throws, rejects, or does not answer within
   * `verifyTimeoutMs`, the request is answered 503.
   * @param key 43 characters of base64url.
   */
  use(key: string, expiresAtSeconds: number): boolean | Promise<boolean>
}

/** So many proofs are remembered; beyond it the longest unused are forgotten, however fresh. */
const MAX_ENTRIES = 100_000

/** The store of a single process. Only proofs that came with an accepted token get here. */
export class MemoryReplayStore implements DpopReplayStore {
  readonly #used: LRUCache<string, true>

  constructor(maxEntries: number = MAX_ENTRIES) {
    // With `max` it would take room for all of them at once.
    this.#used = new LRUCache({ maxSize: maxEntries, sizeCalculation: () => 1, ttl: 1, ttlResolution: 0 })
  }

  use(key: string, expiresAtSeconds: number): boolean {
    if (this.#used.has(key)) return false
    this.#used.set(key, true, { ttl: Math.max(1, Math.ceil(expiresAtSeconds * 1000 - Date.now())) })
    return true
  }
}
