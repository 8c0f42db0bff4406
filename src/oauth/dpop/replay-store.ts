import { LRUCache } from 'lru-cache'
import { entriesUpTo } from '../../base/entries-up-to.ts'

/**
 * A store of used DPoP proofs (RFC 9449 §11.1). Nodes that serve the same resource must share one. In Redis, an
 * implementation is one `SET key 1 NX EX …`, as in `redisReplayStore`.
 */
export interface DpopReplayStore {
  /**
   * Stores `key` until `expiresAtSeconds`. If it throws, rejects, or does not settle within `verifyTimeoutMs`, the response
   * is 503.
   * @param key 43 characters of base64url.
   * @param expiresAtSeconds the expiry in seconds since 1970.
   * @param keyThumbprint the SHA-256 thumbprint of the key that signed the proof (RFC 7638), for a store that limits the
   * number of entries per key.
   * @returns `true` if `key` was not stored yet, and `false` otherwise.
   */
  use(key: string, expiresAtSeconds: number, keyThumbprint?: string): boolean | Promise<boolean>
}

/** The maximum number of stored proofs, and of keys whose older proofs are rejected. */
const MAX_ENTRIES = 100_000

interface UsedProof {
  readonly expiresAtSeconds: number
  readonly keyThumbprint: string | undefined
}

/**
 * The store of a single process. It receives only proofs of accepted tokens. When it is full, it drops the oldest proof. From
 * then on, it rejects all proofs of that key that expire no later than the dropped one. A user who floods the store therefore
 * cannot make proofs of others usable again.
 */
export class MemoryReplayStore implements DpopReplayStore {
  readonly #used: LRUCache<string, UsedProof>
  /** By thumbprint of a key: its proofs are rejected if they expire at this time or earlier. */
  readonly #refusedUntil: LRUCache<string, number>

  constructor(maxEntries: number = MAX_ENTRIES) {
    const bounds = { ...entriesUpTo(maxEntries), ttl: 1, ttlResolution: 0 }
    this.#refusedUntil = new LRUCache(bounds)
    this.#used = new LRUCache({
      ...bounds,
      dispose: (proof, _key, reason) => {
        if (reason === 'evict') this.#refuseOlderThan(proof)
      },
    })
  }

  use(key: string, expiresAtSeconds: number, keyThumbprint?: string): boolean {
    if (this.#used.has(key)) return false
    if (keyThumbprint !== undefined && expiresAtSeconds <= (this.#refusedUntil.get(keyThumbprint) ?? 0))
      return false
    this.#used.set(key, { expiresAtSeconds, keyThumbprint }, { ttl: msUntil(expiresAtSeconds) })
    return true
  }

  #refuseOlderThan({ expiresAtSeconds, keyThumbprint }: UsedProof): void {
    if (keyThumbprint === undefined) return
    const until = Math.max(expiresAtSeconds, this.#refusedUntil.get(keyThumbprint) ?? 0)
    this.#refusedUntil.set(keyThumbprint, until, { ttl: msUntil(until) })
  }
}

function msUntil(seconds: number): number {
  return Math.max(1, Math.ceil(seconds * 1000 - Date.now()))
}
