import { LRUCache } from 'lru-cache'
import { entriesUpTo } from '../../base/entries-up-to.ts'

/** The count of a key in its current period. */
export interface WindowCount {
  readonly points: number
  /** The milliseconds until the period ends. */
  readonly leftMs: number
}

interface Counted {
  points: number
  readonly untilMs: number
}

/**
 * Counts points per key in periods that begin with the first point. Its memory is bounded, because an attacker may use any
 * number of keys: beyond the maximum, the key that was not counted for the longest time is dropped.
 */
export class WindowCounter {
  readonly #keys: LRUCache<string, Counted>

  constructor(maxKeys: number) {
    this.#keys = new LRUCache(entriesUpTo(maxKeys))
  }

  /** The number of keys that are kept. */
  get size(): number {
    return this.#keys.size
  }

  /** Adds one point. @param durationMs the length of the period */
  add(key: string, durationMs: number): WindowCount {
    const nowMs = performance.now()
    let counted = this.#keys.get(key)
    if (counted === undefined || counted.untilMs <= nowMs) {
      counted = { points: 0, untilMs: nowMs + durationMs }
      this.#keys.set(key, counted)
    }
    counted.points++
    // The difference can exceed the period by a rounding error.
    return { points: counted.points, leftMs: Math.min(durationMs, counted.untilMs - nowMs) }
  }
}
