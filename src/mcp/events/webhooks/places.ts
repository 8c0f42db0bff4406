import { LRUCache } from 'lru-cache'

/** The maximum number of messages that one node sends at the same time, in all, for one owner, and to one host. */
export const PLACES = 64
export const QUARTER: number = PLACES / 4
const PER_HOST = 8

/** The number of attempts without a response after which a host gets a pause, and the first and the longest pause. */
const FAILURES_BEFORE_PAUSE = 5
const FIRST_PAUSE_MS = 5_000
const MAX_PAUSE_MS = 60_000

/** The maximum number of hosts that are remembered. */
const MAX_HOSTS = 1_000

/**
 * Bounds what one node sends at the same time, so that slow endpoints of one host or one owner leave room for others. The last
 * quarter of the places is for owners with nothing under way. A host that does not respond several times in a row gets a pause, and
 * then one message at a time until it responds. A response with any status ends the pause, because one path of a shared host must
 * not stop the others.
 */
export class Places {
  readonly #taken = new Map<string, number>()
  readonly #failing = new LRUCache<string, { readonly failures: number; readonly untilMs: number }>({
    max: MAX_HOSTS,
  })

  /** Returns the number of messages of an owner that have a place. */
  of(owner: string): number {
    return this.#taken.get(`owner ${owner}`) ?? 0
  }

  /** Returns the time in milliseconds for which a host still has a pause. */
  pauseMs(host: string): number {
    return Math.max(0, (this.#failing.peek(host)?.untilMs ?? 0) - performance.now())
  }

  /** Takes a place, which `leave` frees. Returns `false` if there is none. */
  enter(host: string, owner: string): boolean {
    const [all, ofHost] = ['all', `host ${host}`].map((key) => this.#taken.get(key) ?? 0) as [number, number]
    const ofOwner = this.of(owner)
    // After a pause, one message finds out whether the host responds.
    const maxOfHost = (this.#failing.peek(host)?.failures ?? 0) >= FAILURES_BEFORE_PAUSE ? 1 : PER_HOST
    if (all >= (ofOwner > 0 ? PLACES - QUARTER : PLACES) || ofOwner >= QUARTER) return false
    if (ofHost >= maxOfHost || this.pauseMs(host) > 0) return false
    this.#count(host, owner, 1)
    return true
  }

  /** Frees a place. @param isReached `true` if the host has sent a response, and `undefined` if it is not known */
  leave(host: string, owner: string, isReached?: boolean): void {
    this.#count(host, owner, -1)
    if (isReached === true) this.#failing.delete(host)
    if (isReached !== false) return
    const failures = (this.#failing.get(host)?.failures ?? 0) + 1
    const pauseMs = FIRST_PAUSE_MS * 2 ** (failures - FAILURES_BEFORE_PAUSE)
    const isPaused = failures >= FAILURES_BEFORE_PAUSE
    const untilMs = isPaused ? performance.now() + Math.min(MAX_PAUSE_MS, pauseMs) : 0
    this.#failing.set(host, { failures, untilMs })
  }

  #count(host: string, owner: string, change: 1 | -1): void {
    for (const key of ['all', `host ${host}`, `owner ${owner}`]) {
      const count = (this.#taken.get(key) ?? 0) + change
      if (count > 0) this.#taken.set(key, count)
      else this.#taken.delete(key)
    }
  }
}
