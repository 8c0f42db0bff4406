import { LRUCache } from 'lru-cache'

/** The maximum number of messages that one node has taken at the same time, in all and for one owner, and sends to one host. */
const MAX_TAKEN = 64
const MAX_TAKEN_PER_OWNER = 16
const MAX_RUNNING_PER_HOST = 8

/** The number of attempts without a response after which a host gets a pause, and the first and the longest pause. */
const FAILURES_BEFORE_PAUSE = 5
const FIRST_PAUSE_MS = 5_000
const MAX_PAUSE_MS = 60_000

/** The time after which a message that did not get a place is taken again. */
const BUSY_MS = 250

/** The maximum number of hosts that had failures and are remembered. */
const MAX_HOSTS = 1_000

interface Trouble {
  failures: number
  pausedUntilMs: number
}

/** The messages to a host that have a place. */
interface Host {
  running: number
  /** Those that wait for others to end. Each is called with the time to wait for another place, or 0 to begin. */
  readonly waiting: ((pauseMs: number) => void)[]
}

/** The hosts and owners for which no further message can begin. */
export interface BusySenders {
  readonly hosts: readonly string[]
  readonly owners: readonly string[]
}

/**
 * Bounds what one node sends at the same time, so that slow endpoints of one host or one owner leave room for others. A host that
 * does not respond several times in a row gets a pause, and then one message at a time until it responds. A response with any
 * status ends the pause, because one path of a shared host must not stop the others.
 */
export class HostLimits {
  readonly #hosts = new Map<string, Host>()
  /** The number of messages of each owner. */
  readonly #owners = new Map<string, number>()
  readonly #troubles = new LRUCache<string, Trouble>({ max: MAX_HOSTS })
  readonly #now: () => number
  #taken = 0

  /** @param now returns a monotonic time in milliseconds */
  constructor(now: () => number = () => performance.now()) {
    this.#now = now
  }

  /** The number of further messages that can be taken now. */
  get free(): number {
    return MAX_TAKEN - this.#taken
  }

  get busy(): BusySenders {
    const paused = [...this.#troubles.keys()].filter((host) => this.#pauseMs(host) > 0)
    const full = [...this.#hosts].filter(([host, { running }]) => running >= this.#maxAt(host))
    return {
      hosts: [...new Set([...paused, ...full.map(([host]) => host)])],
      owners: [...this.#owners].filter(([, count]) => count >= MAX_TAKEN_PER_OWNER).map(([owner]) => owner),
    }
  }

  /**
   * Takes a place, at once or when another message to the host has ended.
   * @returns 0 if there is a place, which `leave` frees, or the time in milliseconds after which to try again
   */
  enter(host: string, owner: string): number | Promise<number> {
    const pauseMs = this.#pauseMs(host)
    if (pauseMs > 0) return pauseMs
    if (this.free <= 0 || (this.#owners.get(owner) ?? 0) >= MAX_TAKEN_PER_OWNER) return BUSY_MS
    this.#count(owner, 1)
    const at = this.#hosts.get(host) ?? { running: 0, waiting: [] }
    this.#hosts.set(host, at)
    if (at.running < this.#maxAt(host)) {
      at.running++
      return 0
    }
    return new Promise((resolve) => {
      at.waiting.push((ms) => {
        if (ms > 0) this.#count(owner, -1)
        resolve(ms)
      })
    })
  }

  /** Frees a place. @param isReached `true` if the host has sent a response, and `undefined` if it is not known */
  leave(host: string, owner: string, isReached: boolean | undefined): void {
    this.#count(owner, -1)
    if (isReached === true) this.#troubles.delete(host)
    else if (isReached === false) this.#addFailure(host)
    const at = this.#hosts.get(host)
    if (at === undefined) return
    at.running--
    const pauseMs = this.#pauseMs(host)
    if (pauseMs > 0) for (const wait of at.waiting.splice(0)) wait(pauseMs)
    while (at.running < this.#maxAt(host)) {
      const next = at.waiting.shift()
      if (next === undefined) break
      at.running++
      next(0)
    }
    if (at.running === 0) this.#hosts.delete(host)
  }

  #addFailure(host: string): void {
    const failures = (this.#troubles.get(host)?.failures ?? 0) + 1
    const doublings = Math.max(0, failures - FAILURES_BEFORE_PAUSE)
    const pauseMs = Math.min(MAX_PAUSE_MS, FIRST_PAUSE_MS * 2 ** doublings)
    this.#troubles.set(host, { failures, pausedUntilMs: this.#now() + pauseMs })
  }

  #pauseMs(host: string): number {
    const trouble = this.#troubles.peek(host)
    return trouble === undefined || trouble.failures < FAILURES_BEFORE_PAUSE
      ? 0
      : Math.max(0, trouble.pausedUntilMs - this.#now())
  }

  /** After a pause, one message finds out whether the host responds. */
  #maxAt(host: string): number {
    return (this.#troubles.peek(host)?.failures ?? 0) >= FAILURES_BEFORE_PAUSE ? 1 : MAX_RUNNING_PER_HOST
  }

  #count(owner: string, change: 1 | -1): void {
    this.#taken += change
    const count = (this.#owners.get(owner) ?? 0) + change
    if (count > 0) this.#owners.set(owner, count)
    else this.#owners.delete(owner)
  }
}
