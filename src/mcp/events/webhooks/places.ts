import { LRUCache } from 'lru-cache'

/** The maximum number of messages that one node sends at the same time, in all, for one owner, and to one host. */
export const PLACES = 64
export const QUARTER: number = PLACES / 4
const PER_HOST = 8

/** The number of attempts without a response after which a host gets a pause, and the first and the longest pause. */
const FAILURES_BEFORE_PAUSE = 5
const FIRST_PAUSE_MS = 5_000
const MAX_PAUSE_MS = 60_000

/** The maximum number of hosts and owners that are remembered. The pause of a dead host must outlive many that work. */
const MAX_LANES = 10_000
/** The longest wait for a place, and the time that a message is expected to take at first, and at most. */
const MAX_WAIT_MS = 60_000
const FIRST_TOOK_MS = 10
const MAX_TOOK_MS = 1_000

/** The state of a host, of an owner, or of all. */
interface Lane {
  failures: number
  /** The end of a pause. */
  untilMs: number
  /** The time that its messages take, on average. */
  tookMs: number
  /** The time at which the next message without a place tries again. */
  nextMs: number
}

/**
 * Bounds what one node sends at the same time, so that slow endpoints of one host or one owner leave room for others. The last
 * quarter of the places is for owners with nothing under way. A host that does not respond several times in a row gets a pause, and
 * then one message at a time until it responds. A response with any status ends the pause, because one path of a shared host must
 * not stop the others.
 */
export class Places {
  readonly #taken = new Map<string, number>()
  readonly #lanes = new LRUCache<string, Lane>({ max: MAX_LANES })

  /** Returns the number of messages of an owner that have a place. */
  of(owner: string): number {
    return this.#taken.get(`owner ${owner}`) ?? 0
  }

  /** Returns the time in milliseconds for which a host still has a pause. */
  pauseMs(host: string): number {
    return Math.max(0, this.#lane(`host ${host}`).untilMs - performance.now())
  }

  /** Takes a place, which `leave` frees, and returns 0. Without one, returns the time in milliseconds until one is expected. */
  enter(host: string, owner: string): number {
    // After a pause, one message finds out whether the host responds.
    const maxOfHost = this.#lane(`host ${host}`).failures >= FAILURES_BEFORE_PAUSE ? 1 : PER_HOST
    const limits = [
      ['all', this.of(owner) > 0 ? PLACES - QUARTER : PLACES],
      [`owner ${owner}`, QUARTER],
      [`host ${host}`, this.pauseMs(host) > 0 ? 0 : maxOfHost],
    ] as const
    const full = limits.find(([key, max]) => (this.#taken.get(key) ?? 0) >= max)
    if (full === undefined) {
      this.#count(host, owner, 1)
      return 0
    }
    // Those without a place come back one after the other, as fast as places become free.
    const [key, max] = full
    const lane = this.#lane(key)
    const nowMs = performance.now()
    lane.nextMs = Math.max(nowMs, lane.nextMs) + Math.min(MAX_TOOK_MS, lane.tookMs) / Math.max(1, max)
    return Math.max(1, Math.min(lane.nextMs - nowMs, MAX_WAIT_MS * (0.5 + Math.random() / 2)))
  }

  /** Frees a place after a time. @param isReached `true` if the host has sent a response, and `undefined` if it is not known */
  leave(host: string, owner: string, tookMs: number, isReached?: boolean): void {
    this.#count(host, owner, -1)
    for (const key of keysOf(host, owner)) {
      const lane = this.#lane(key)
      lane.tookMs += (tookMs - lane.tookMs) / PER_HOST
    }
    if (isReached === undefined) return
    const lane = this.#lane(`host ${host}`)
    lane.failures = isReached ? 0 : lane.failures + 1
    const pauseMs = FIRST_PAUSE_MS * 2 ** (lane.failures - FAILURES_BEFORE_PAUSE)
    const isPaused = lane.failures >= FAILURES_BEFORE_PAUSE
    lane.untilMs = isPaused ? performance.now() + Math.min(MAX_PAUSE_MS, pauseMs) : 0
  }

  #lane(key: string): Lane {
    const lane = this.#lanes.get(key) ?? { failures: 0, untilMs: 0, tookMs: FIRST_TOOK_MS, nextMs: 0 }
    this.#lanes.set(key, lane)
    return lane
  }

  #count(host: string, owner: string, change: 1 | -1): void {
    for (const key of keysOf(host, owner)) {
      const count = (this.#taken.get(key) ?? 0) + change
      if (count > 0) this.#taken.set(key, count)
      else this.#taken.delete(key)
    }
  }
}

function keysOf(host: string, owner: string): readonly string[] {
  return ['all', `owner ${owner}`, `host ${host}`]
}
