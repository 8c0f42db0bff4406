import { LRUCache } from 'lru-cache'

/** The maximum number of messages that one node sends at the same time, in all, for one owner, and to one host. */
export const PLACES = 64
export const QUARTER: number = PLACES / 4
const PER_HOST = 8
/** The maximum number of messages that a node has at the same time, with those that wait a moment for a place. */
export const MAX_MESSAGES: number = 2 * PLACES
const MOMENT_MS = 1_000

/** The number of attempts without a response after which a host gets a pause, and the first and the longest pause. */
const FAILURES_BEFORE_PAUSE = 5
const FIRST_PAUSE_MS = 5_000
const MAX_PAUSE_MS = 60_000

/** The time that a message is expected to take at a host that is not known, and the longest wait for a place. */
const USUAL_MS = 500
const MAX_BUSY_MS = 60_000

/** The maximum number of hosts that are remembered. */
const MAX_HOSTS = 1_000

/** The state of a host. */
interface Host {
  failures: number
  pausedUntilMs: number
  /** The time that its messages take. */
  usualMs: number
  /** The time at which a place is expected for the next message. */
  freeAtMs: number
}

/**
 * Bounds what one node sends at the same time, so that slow endpoints of one host or one owner leave room for others. The last
 * quarter of the places is for owners with nothing under way. A host that does not respond several times in a row gets a pause, and
 * then one message at a time until it responds. A response with any status ends the pause, because one path of a shared host must
 * not stop the others.
 */
export class Places {
  readonly #running = new Map<string, number>()
  readonly #hosts = new LRUCache<string, Host>({ max: MAX_HOSTS })
  /** Those that wait for the end of another message, by host. */
  readonly #waiting = new Map<string, Set<() => void>>()
  #taken = 0
  #waitingCount = 0

  /** Returns the number of messages of an owner that have a place. */
  of(owner: string): number {
    return this.#running.get(`owner ${owner}`) ?? 0
  }

  /** Returns the time in milliseconds for which a host still has a pause. */
  pauseMs(host: string): number {
    const { failures = 0, pausedUntilMs = 0 } = this.#hosts.peek(host) ?? {}
    return failures < FAILURES_BEFORE_PAUSE ? 0 : Math.max(0, pausedUntilMs - performance.now())
  }

  /**
   * Takes a place, which `leave` frees. Waits a moment if other messages to the host are under way.
   * @returns 0, or the time in milliseconds after which to try again if there is none
   */
  async enter(host: string, owner: string): Promise<number> {
    const endMs = performance.now() + MOMENT_MS
    while (!this.#take(host, owner)) {
      const waiting = this.#waiting.get(host) ?? new Set()
      const isFull = waiting.size >= QUARTER || this.#taken + this.#waitingCount >= MAX_MESSAGES - 2 * QUARTER
      const leftMs = endMs - performance.now()
      const pauseMs = this.pauseMs(host)
      if (pauseMs > 0) return pauseMs
      if (isFull || leftMs <= 0 || !this.#running.has(`host ${host}`)) return this.#nextPlaceMs(host)
      this.#waiting.set(host, waiting)
      this.#waitingCount++
      await new Promise<void>((resolve) => {
        const wake = (): void => {
          clearTimeout(timer)
          waiting.delete(wake)
          resolve()
        }
        const timer = setTimeout(wake, leftMs)
        waiting.add(wake)
      })
      this.#waitingCount--
    }
    return 0
  }

  /**
   * Frees a place.
   * @param isReached `true` if the host has sent a response, and `undefined` if it is not known
   * @param tookMs the time since the place was taken
   */
  leave(host: string, owner: string, isReached: boolean | undefined, tookMs: number): void {
    this.#count(host, owner, -1)
    const known = this.#host(host)
    known.usualMs += (tookMs - known.usualMs) / 4
    if (isReached === true) known.failures = 0
    if (isReached === false) {
      const doublings = Math.max(0, ++known.failures - FAILURES_BEFORE_PAUSE)
      known.pausedUntilMs = performance.now() + Math.min(MAX_PAUSE_MS, FIRST_PAUSE_MS * 2 ** doublings)
    }
    const waiting = this.#waiting.get(host)
    const [next] = waiting ?? []
    next?.()
    if (waiting?.size === 0) this.#waiting.delete(host)
  }

  #take(host: string, owner: string): boolean {
    const ofOwner = this.of(owner)
    const ofHost = this.#running.get(`host ${host}`) ?? 0
    // After a pause, one message finds out whether the host responds.
    const maxOfHost = (this.#hosts.peek(host)?.failures ?? 0) >= FAILURES_BEFORE_PAUSE ? 1 : PER_HOST
    const isReserved = ofOwner > 0 && this.#taken >= PLACES - QUARTER
    if (this.#taken >= PLACES || isReserved || ofOwner >= QUARTER) return false
    if (ofHost >= maxOfHost || this.pauseMs(host) > 0) return false
    this.#count(host, owner, 1)
    return true
  }

  /** Returns the time after which a place is expected. Each message gets another one, so that they do not come back together. */
  #nextPlaceMs(host: string): number {
    const known = this.#host(host)
    const nowMs = performance.now()
    known.freeAtMs = Math.max(known.freeAtMs, nowMs) + known.usualMs / PER_HOST
    return Math.ceil(Math.min(known.freeAtMs - nowMs, MAX_BUSY_MS * (0.5 + Math.random() / 2)))
  }

  #host(name: string): Host {
    const known = this.#hosts.get(name) ?? { failures: 0, pausedUntilMs: 0, usualMs: USUAL_MS, freeAtMs: 0 }
    this.#hosts.set(name, known)
    return known
  }

  #count(host: string, owner: string, change: 1 | -1): void {
    this.#taken += change
    for (const key of [`host ${host}`, `owner ${owner}`]) {
      const count = (this.#running.get(key) ?? 0) + change
      if (count > 0) this.#running.set(key, count)
      else this.#running.delete(key)
    }
  }
}
