import { LRUCache } from 'lru-cache'

/**
 * Remembers which DPoP proofs were used (RFC 9449 §11.1). Nodes that serve the same resource share one:
 * in Redis it is one `SET key 1 NX EX …`, as `redisReplayStore` does it.
 */
export interface DpopReplayStore {
  /**
   * Takes `key` if it is not taken yet, and keeps it until `expiresAtSeconds` (since 1970).
   * True for the first use, false for every further one. Where it throws, rejects, or does not answer within
   * `verifyTimeoutMs`, the request is answered 503.
   * @param key 43 characters of base64url.
   * @param keyThumbprint SHA-256 thumbprint of the key that signed the proof (RFC 7638), for a store that limits how much
   * it remembers for one key.
   */
  use(key: string, expiresAtSeconds: number, keyThumbprint?: string): boolean | Promise<boolean>
}

/** The most proofs that are remembered, and the most keys whose older proofs are refused. */
const MAX_ENTRIES = 100_000

interface UsedProof {
  readonly expiresAtSeconds: number
  readonly keyThumbprint: string | undefined
}

/**
 * The store of a single process. Only proofs that came with an accepted token get here. When it is full, it forgets the
 * proof that it has known for the longest, and from then on refuses all proofs of that key that expire no later. So a
 * user who floods it cannot make the proofs of others usable again.
 */
export class MemoryReplayStore implements DpopReplayStore {
  readonly #used: LRUCache<string, UsedProof>
  /** By thumbprint of a key: proofs of it are refused if they expire then or before. */
  readonly #refusedUntil: LRUCache<string, number>

  constructor(maxEntries: number = MAX_ENTRIES) {
    // With `max` it would take room for all of them at once.
    const bounds = { maxSize: maxEntries, sizeCalculation: () => 1, ttl: 1, ttlResolution: 0 }
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
