import { isPromiseLike } from '../../base/options/value-kinds.ts'
import { setLongTimeout } from '../../base/timers.ts'
import type { TelemetryTransport, TelemetryTransportMeta } from '../delivery/transport.ts'
import type { TelemetryEnvelope } from '../envelope/envelope.ts'
import { KitTelemetryError } from '../errors.ts'

/** The first and the longest pause before another attempt, in milliseconds. Each pause is twice as long as the previous one. */
const FIRST_PAUSE_MS = 100
const MAX_PAUSE_MS = 30_000

/** The maximum length of a pause during a flush, in milliseconds. */
const MAX_FLUSHING_PAUSE_MS = 1000

/** The maximum depth of events that the transport emits while it handles an event. */
const MAX_NESTING = 8

/** The statuses with which a target rejects the content of an event. Another attempt would fail too. */
const REFUSALS: readonly unknown[] = [400, 413, 422]

/**
 * Passes events to another transport one at a time. An event is passed only when the previous one is delivered, and is passed
 * again until it is delivered, so that the order is kept even if the transport fails or sends several events at a time.
 */
export class InOrderTransport implements TelemetryTransport {
  readonly type: string
  readonly #transport: TelemetryTransport
  readonly #failed: (cause: unknown) => void
  /** Resolves when all events so far have settled. `undefined` if they have. */
  #tail: Promise<void> | undefined
  /** The nesting of the event that is passed to the transport at this moment. It is -1 if there is none. */
  #nesting = -1
  #isFlushing = false
  #shortenPause = (): void => {}
  #isClosed = false

  /** @param failed is called with the reason if an event is passed again. */
  constructor(transport: TelemetryTransport, failed: (cause: unknown) => void) {
    this.type = transport.type
    this.#transport = transport
    this.#failed = failed
  }

  init(meta: TelemetryTransportMeta): Promise<void> | void {
    return this.#transport.init?.(meta)
  }

  /** `true` while `flush` of the transport is called for an event. */
  get isFlushing(): boolean {
    return this.#isFlushing
  }

  /**
   * Passes an event to the transport when all earlier events have settled.
   * @returns a promise that rejects only if the target rejects the content of the event, or nothing if the event is delivered.
   */
  handle(envelope: TelemetryEnvelope, emittedAtMs?: number): Promise<void> | void {
    const nesting = this.#nesting + 1
    if (nesting > MAX_NESTING)
      throw new KitTelemetryError(
        'TELEMETRY_TRANSPORT_FAILED',
        'an event was dropped because the transport emits an event for every event that it receives',
      )
    const laterMs = emittedAtMs ?? Date.now()
    const again = () => this.#attempt(envelope, laterMs, nesting)
    // The callback of `then` runs in the async context of this call, which contains the active span.
    const first =
      this.#tail === undefined ? this.#attempt(envelope, emittedAtMs, nesting) : this.#tail.then(again)
    if (first === undefined) return
    const delivered = this.#deliver(first, again)
    const settled = delivered
      .catch(() => {})
      .then(() => {
        if (this.#tail === settled) this.#tail = undefined
      })
    this.#tail = settled
    return delivered
  }

  /** Shortens a pause, and flushes the transport. */
  flush(deadline?: AbortSignal): Promise<void> | void {
    this.#shortenPause()
    return this.#transport.flush?.(deadline)
  }

  /** Shuts the transport down. Events that have not been delivered stay pending. */
  shutdown(deadline?: AbortSignal): Promise<void> | void {
    this.#isClosed = true
    return this.#transport.shutdown?.(deadline)
  }

  async #deliver(first: Promise<unknown>, again: () => Promise<unknown> | undefined): Promise<void> {
    let attempt: Promise<unknown> | undefined = first
    for (let pauseMs = FIRST_PAUSE_MS; ; pauseMs = Math.min(2 * pauseMs, MAX_PAUSE_MS)) {
      try {
        await attempt
        return
      } catch (cause) {
        if (KitTelemetryError.is(cause) && REFUSALS.includes(cause.details?.status)) throw cause
        this.#failed(cause)
      }
      await this.#pause(pauseMs)
      attempt = again()
    }
  }

  /** Passes an event to the transport. After `shutdown`, it stays pending. @returns `undefined` if it is delivered. */
  #attempt(
    envelope: TelemetryEnvelope,
    emittedAtMs: number | undefined,
    nesting: number,
  ): Promise<unknown> | undefined {
    if (this.#isClosed) return new Promise(() => {})
    this.#nesting = nesting
    let handled: unknown
    try {
      handled =
        emittedAtMs === undefined
          ? this.#transport.handle(envelope)
          : this.#transport.handle(envelope, emittedAtMs)
      if (!isPromiseLike(handled)) return undefined
    } catch (cause) {
      return Promise.reject(cause)
    } finally {
      this.#nesting = -1
    }
    // A transport that collects events would otherwise wait for events that come only after this one.
    void this.#flushTransport()
    return new Promise((resolve) => resolve(handled))
  }

  async #flushTransport(): Promise<void> {
    this.#isFlushing = true
    try {
      // The event is sent at once, but not more often than without a flush.
      const flushed = this.#transport.flush?.(AbortSignal.abort())
      this.#isFlushing = false
      await flushed
    } catch {
      // The promise of `handle` says whether the event is delivered.
    } finally {
      this.#isFlushing = false
    }
  }

  /** Waits before another attempt. */
  #pause(ms: number): Promise<void> {
    const startMs = performance.now()
    return new Promise((resolve) => {
      let timer = setLongTimeout(resolve, ms)
      this.#shortenPause = () => {
        timer.clear()
        timer = setLongTimeout(resolve, Math.min(ms, MAX_FLUSHING_PAUSE_MS) - (performance.now() - startMs))
      }
    })
  }
}
