import { performance } from 'node:perf_hooks'
import { AsyncContext, isWorkerd } from '../../../runtime.ts'
import { setLongTimeout } from '../../../timers.ts'
import { KEEP_ALIVE_MS } from '../../wire/event-stream.ts'

/** An open event stream. */
export interface TimedStream {
  /** Called every 15 s, to send a comment. */
  keepAlive(): void
  /** Called once, when the token of the stream has expired. It must end the stream. */
  expire?(): void
}

/** A stream whose token may expire. */
type ExpiringStream = TimedStream & Required<Pick<TimedStream, 'expire'>>

/** The minimum time from one look at the streams to the next. A stream is served at most this long after it is due. */
const INTERVAL_MS = 100

interface Watched {
  readonly stream: TimedStream
  /** The expiry of the token, in milliseconds since 1970. `Infinity` if it does not expire. */
  readonly expiresAtMs: number
  /** The time of the next comment, as `performance.now()` counts. */
  keepAliveAtMs: number
}

/**
 * Sends the comments that keep event streams open, and ends streams whose token expires. One timer serves all streams of an
 * adapter. It looks at each stream, which takes a few milliseconds per second for 10,000 streams.
 */
export class StreamClock {
  readonly #watched = new Set<Watched>()
  #timer: NodeJS.Timeout | undefined
  /** The time for which the timer is set. */
  #timerAtMs = 0
  /** The timer must not keep the context of the request that sets it. */
  readonly #context = new AsyncContext('McpStreams')

  /**
   * Watches a stream until the returned function is called.
   * @param expiresAt the expiry of the token, in seconds since 1970. If undefined, the token does not expire.
   * @returns a function that must be called when the stream ends. Further calls have no effect.
   */
  watch(stream: TimedStream): () => void
  watch(stream: ExpiringStream, expiresAt: number | undefined): () => void
  watch(stream: TimedStream, expiresAt?: number): () => void {
    if (isWorkerd()) return watchAlone(stream, expiresAt)
    const expiresAtMs = expiresAt === undefined ? Number.POSITIVE_INFINITY : expiresAt * 1000
    const watched: Watched = { stream, expiresAtMs, keepAliveAtMs: performance.now() + KEEP_ALIVE_MS }
    this.#watched.add(watched)
    this.#setTimer(dueMs(watched, clockOffsetMs()))
    return () => this.#watched.delete(watched)
  }

  #setTimer(atMs: number): void {
    if (this.#timer !== undefined) {
      if (atMs >= this.#timerAtMs) return
      clearTimeout(this.#timer)
    }
    this.#timerAtMs = atMs
    this.#context.runInAsyncScope(() => {
      this.#timer = setTimeout(() => this.#serve(), Math.max(atMs - performance.now(), 1)).unref()
    })
  }

  #serve(): void {
    this.#timer = undefined
    // The timer may fire up to a millisecond early.
    const nowMs = Math.max(performance.now(), this.#timerAtMs)
    const dateMs = Date.now()
    const offsetMs = clockOffsetMs()
    let nextMs = Number.POSITIVE_INFINITY
    for (const watched of this.#watched) {
      if (dateMs >= watched.expiresAtMs) {
        this.#watched.delete(watched)
        watched.stream.expire?.()
        continue
      }
      const isDue = watched.keepAliveAtMs <= nowMs
      if (isDue) watched.keepAliveAtMs = nowMs + KEEP_ALIVE_MS
      nextMs = Math.min(nextMs, dueMs(watched, offsetMs))
      // Comes last, because it may end the stream.
      if (isDue) watched.stream.keepAlive()
    }
    if (this.#watched.size > 0) this.#setTimer(Math.max(nextMs, nowMs + INTERVAL_MS))
  }
}

/** Returns the time at which a stream must be served, as `performance.now()` counts. */
function dueMs({ expiresAtMs, keepAliveAtMs }: Watched, offsetMs: number): number {
  return Math.min(keepAliveAtMs, expiresAtMs + offsetMs)
}

/** Returns the difference between `performance.now()` and `Date.now()`. */
function clockOffsetMs(): number {
  return performance.now() - Date.now()
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
