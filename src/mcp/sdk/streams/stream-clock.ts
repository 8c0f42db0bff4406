import { performance } from 'node:perf_hooks'
import { AsyncContext, isWorkerd } from '../../../runtime.ts'
import { setLongTimeout } from '../../../timers.ts'
import { KEEP_ALIVE_MS } from '../../wire/event-stream.ts'

/** An open event stream. */
export interface TimedStream {
  /** Called every 15 s, to send a comment. */
  keepAlive(): void
  /** Called once, when the token of the stream has expired. */
  expire?(): void
}

/** The time between two slots. A stream is served at most this long after it is due. */
const SLOT_MS = 100

/** One slot for each time at which a stream can be due, which is at most one interval ahead. */
const SLOTS = KEEP_ALIVE_MS / SLOT_MS + 2

/** An entry of a circular list, in which adding and removing take no memory. A slot is an entry, too. */
class Entry {
  previous: Entry = this
  next: Entry = this

  get isAlone(): boolean {
    return this.next === this
  }

  insertBefore(other: Entry): void {
    this.previous = other.previous
    this.next = other
    other.previous.next = this
    other.previous = this
  }

  remove(): void {
    this.previous.next = this.next
    this.next.previous = this.previous
    this.previous = this
    this.next = this
  }
}

class Watched extends Entry {
  readonly stream: TimedStream
  /** The expiry of the token, in milliseconds since 1970. `Infinity` if it does not expire. */
  readonly expiresAtMs: number
  keepAliveAtMs: number

  constructor(stream: TimedStream, expiresAtMs: number, keepAliveAtMs: number) {
    super()
    this.stream = stream
    this.expiresAtMs = expiresAtMs
    this.keepAliveAtMs = keepAliveAtMs
  }
}

/**
 * Sends the comments that keep event streams open, and ends streams whose token expires. One timer serves all streams of an
 * adapter. No stream waits longer than 15 s, so a wheel of slots keeps them in order, and a token that expires later is checked
 * again with each comment.
 */
export class StreamClock {
  readonly #slots: readonly Entry[] = Array.from({ length: SLOTS }, () => new Entry())
  /** The slots up to this one have been served. Slots are counted from the start of the process. */
  #served = 0
  #timer: NodeJS.Timeout | undefined
  /** The slot for which the timer is set. */
  #timerSlot = 0
  /** The timer must not keep the context of the request that sets it. */
  readonly #context = new AsyncContext('McpStreams')

  /**
   * Watches a stream until the returned function is called.
   * @param expiresAt the expiry of the token, in seconds since 1970. If undefined, the token does not expire.
   * @returns a function that must be called when the stream ends. Further calls have no effect.
   */
  watch(stream: TimedStream, expiresAt?: number): () => void {
    if (isWorkerd()) return watchAlone(stream, expiresAt)
    const nowMs = performance.now()
    if (this.#timer === undefined) this.#served = Math.floor(nowMs / SLOT_MS)
    const expiresAtMs = expiresAt === undefined ? Number.POSITIVE_INFINITY : expiresAt * 1000
    const watched = new Watched(stream, expiresAtMs, nowMs + KEEP_ALIVE_MS)
    this.#setTimer(this.#add(watched, nowMs))
    return () => watched.remove()
  }

  /** Adds a stream to the slot for which it is due, and returns the slot. */
  #add(watched: Watched, nowMs: number): number {
    const expiryMs = nowMs + watched.expiresAtMs - Date.now()
    const dueMs = Math.min(watched.keepAliveAtMs, expiryMs)
    const slot = Math.max(Math.ceil(dueMs / SLOT_MS), this.#served + 1)
    watched.insertBefore(this.#slot(slot))
    return slot
  }

  #slot(slot: number): Entry {
    return this.#slots[slot % SLOTS] as Entry
  }

  #setTimer(slot: number): void {
    if (this.#timer !== undefined) {
      if (slot >= this.#timerSlot) return
      clearTimeout(this.#timer)
    }
    this.#timerSlot = slot
    this.#context.runInAsyncScope(() => {
      this.#timer = setTimeout(() => this.#serve(), Math.max(slot * SLOT_MS - performance.now(), 1)).unref()
    })
  }

  #serve(): void {
    this.#timer = undefined
    const first = this.#served + 1
    // The timer may fire up to a millisecond early, or late if the process was busy.
    const last = Math.max(Math.floor(performance.now() / SLOT_MS), this.#timerSlot)
    this.#served = last
    for (let slot = first; slot <= last && slot < first + SLOTS; slot++) this.#serveSlot(this.#slot(slot))
    for (let slot = last + 1; slot <= last + SLOTS; slot++) {
      if (this.#slot(slot).isAlone) continue
      this.#setTimer(slot)
      break
    }
  }

  #serveSlot(slot: Entry): void {
    if (slot.isAlone) return
    // A stream that is served may come back to the same slot.
    const due = new Entry()
    due.insertBefore(slot)
    slot.remove()
    while (!due.isAlone) {
      const watched = due.next as Watched
      watched.remove()
      this.#serveStream(watched)
    }
  }

  #serveStream(watched: Watched): void {
    const { stream } = watched
    if (stream.expire !== undefined && Date.now() >= watched.expiresAtMs) {
      stream.expire()
      return
    }
    const nowMs = Math.max(performance.now(), this.#served * SLOT_MS)
    const isDue = watched.keepAliveAtMs <= nowMs
    if (isDue) watched.keepAliveAtMs = nowMs + KEEP_ALIVE_MS
    this.#add(watched, nowMs)
    // Comes last, because it may end the stream.
    if (isDue) stream.keepAlive()
  }
}

/** Like `StreamClock.watch`, with timers of the request that opens the stream. */
function watchAlone(stream: TimedStream, expiresAt: number | undefined): () => void {
  const comments = setInterval(() => stream.keepAlive(), KEEP_ALIVE_MS)
  const expiry =
    expiresAt === undefined
      ? undefined
      : setLongTimeout(() => stream.expire?.(), expiresAt * 1000 - Date.now())
  return () => {
    clearInterval(comments)
    expiry?.clear()
  }
}
