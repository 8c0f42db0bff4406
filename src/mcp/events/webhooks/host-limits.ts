import { LRUCache } from 'lru-cache'

/** The maximum number of messages that one node sends at the same time, in all, to one host, and for one owner. */
const MAX_RUNNING = 64
const MAX_RUNNING_PER_HOST = 8
const MAX_RUNNING_PER_OWNER = 16

/** The number of attempts without a response after which a host gets a pause, and the first and the longest pause. */
const FAILURES_BEFORE_PAUSE = 5
const FIRST_PAUSE_MS = 5_000
const MAX_PAUSE_MS = 60_000

/** The time after which a message looks for a free place again. */
const BUSY_MS = 250

/** The maximum number of hosts that had failures and are remembered. */
const MAX_HOSTS = 1_000

interface Trouble {
  failures: number
  pausedUntilMs: number
}

/**
 * Bounds what one node sends at the same time, so that slow endpoints of one host or one owner leave room for others. A host that
 * does not respond several times in a row gets a pause, and then one message at a time until it responds. A response with any
 * status ends the pause, because one path of a shared host must not stop the others.
 */
export class HostLimits {
  readonly #running = new Map<string, number>()
  readonly #troubles = new LRUCache<string, Trouble>({ max: MAX_HOSTS })
  readonly #now: () => number
  #total = 0

  /** @param now returns a monotonic time in milliseconds */
  constructor(now: () => number = () => performance.now()) {
    this.#now = now
  }

  /** The number of further messages that can run now. */
  get free(): number {
    return MAX_RUNNING - this.#total
  }

  /** Takes a place. Returns 0, or the time in milliseconds after which to try again. */
  enter(host: string, owner: string): number {
    const atHost = this.#running.get(hostKey(host)) ?? 0
    const trouble = this.#troubles.get(host)
    if (trouble !== undefined && trouble.failures >= FAILURES_BEFORE_PAUSE) {
      const pauseMs = trouble.pausedUntilMs - this.#now()
      if (pauseMs > 0) return pauseMs
      if (atHost > 0) return BUSY_MS
    }
    const ofOwner = this.#running.get(ownerKey(owner)) ?? 0
    if (this.free === 0 || atHost >= MAX_RUNNING_PER_HOST || ofOwner >= MAX_RUNNING_PER_OWNER) return BUSY_MS
    this.#count(host, owner, 1)
    return 0
  }

  /** Frees a place. @param isReached `true` if the host has sent a response, and `undefined` if it is not known */
  leave(host: string, owner: string, isReached: boolean | undefined): void {
    this.#count(host, owner, -1)
    if (isReached === true) this.#troubles.delete(host)
    if (isReached !== false) return
    const failures = (this.#troubles.get(host)?.failures ?? 0) + 1
    const doublings = Math.max(0, failures - FAILURES_BEFORE_PAUSE)
    const pauseMs = Math.min(MAX_PAUSE_MS, FIRST_PAUSE_MS * 2 ** doublings)
    this.#troubles.set(host, { failures, pausedUntilMs: this.#now() + pauseMs })
  }

  #count(host: string, owner: string, change: 1 | -1): void {
    this.#total += change
    for (const key of [hostKey(host), ownerKey(owner)]) {
      const count = (this.#running.get(key) ?? 0) + change
      if (count > 0) this.#running.set(key, count)
      else this.#running.delete(key)
    }
  }
}

const hostKey = (host: string): string => `host ${host}`
const ownerKey = (owner: string): string => `owner ${owner}`
