import { AsyncResource } from 'node:async_hooks'
import { KitTelemetryError } from '../errors.ts'

/** What became of one attempt to send. */
export interface Outcome {
  /** Why it was not delivered, as in `Slack answered 500`; absent when it was. */
  readonly failed?: string
  /** The status that was answered. */
  readonly status?: number | undefined
  /** The same items are to be sent once more. */
  readonly again?: boolean
  /** How long the target must be left alone. */
  readonly waitMs?: number | undefined
  /** The target will never take anything again. */
  readonly final?: boolean
}

export interface OutboxOptions<Item> {
  /** The transport's type, for errors. */
  readonly type: string
  /** Where items go. It is released if they are not delivered by the deadline of a shutdown, and closed in the end. */
  readonly target?: { release(): void; close(): Promise<void> } | undefined
  /** How many items go out together. */
  readonly maxItems: number
  /** How long an item waits for company. */
  readonly windowMs: number
  /** How long the target is left alone after each attempt. */
  readonly paceMs: number
  /** @param attempt 1 for the first */
  readonly send: (items: readonly Item[], attempt: number) => Promise<Outcome>
}

interface Queued<Item> {
  readonly item: Item
  readonly arrivedMs: number
  readonly delivered: () => void
  readonly failed: (error: KitTelemetryError) => void
}

/** Whoever asks to be left alone for longer loses what is waiting. */
const MAX_WAIT_MS = 600_000

/** Nobody is left alone for longer, whatever was asked. */
const MAX_PAUSE_MS = 86_400_000

/**
 * Sends items to one target, in their order and one request at a time, never before the moment the target asked for.
 * Its timers keep no process alive.
 */
export class Outbox<Item> {
  readonly #options: OutboxOptions<Item>
  /** Requests belong to no event's async context: they carry several, and outlive the work those came from. */
  readonly #context = new AsyncResource('KitTelemetryOutbox')
  readonly #queue: Queued<Item>[] = []
  #running = false
  #closed: string | undefined
  #flushing = 0
  #freeAtMs = 0
  #last: Promise<void> = Promise.resolve()
  #wake: () => void = () => {}

  constructor(options: OutboxOptions<Item>) {
    this.#options = options
  }

  /**
   * Resolves when the item is delivered.
   * @throws {KitTelemetryError} `TELEMETRY_TRANSPORT_FAILED`, by rejecting, when it has failed for good
   */
  add(item: Item): Promise<void> {
    const settled = new Promise<void>((delivered, failed) => {
      if (this.#closed !== undefined) failed(this.#failure(this.#closed, 1))
      else this.#queue.push({ item, arrivedMs: performance.now(), delivered, failed })
    })
    // Whoever added it hears of the failure; this one is for who only waits.
    const last = settled.catch(() => {})
    if (this.#closed !== undefined) return settled
    this.#last = last
    if (!this.#running) {
      this.#running = true
      this.#context.runInAsyncScope(() => void this.#run())
    } else if (this.#queue.length >= this.#options.maxItems) {
      this.#wake()
    }
    return settled
  }

  /** Sends what was added, without waiting for company; resolves when all of it is delivered or has failed. */
  async flush(): Promise<void> {
    this.#flushing++
    this.#wake()
    await this.#last
    this.#flushing--
  }

  /**
   * As `flush`; what is added from now on fails. If a flush is under way, as when the deadline of a manager has passed,
   * sending goes on, but does not keep the process alive any longer.
   */
  async close(): Promise<void> {
    this.#closed ??= 'it is shut down'
    const { target } = this.#options
    if (this.#flushing > 0) target?.release()
    await this.flush()
    await target?.close()
  }

  /** Never rejects. */
  async #run(): Promise<void> {
    // The time of the first request is not the emitting code's to spend.
    await new Promise((resolve) => setImmediate(resolve))
    while (this.#queue.length > 0) {
      await this.#company()
      const soon = await this.#turn()
      const items = this.#queue.splice(0, soon ? this.#options.maxItems : this.#queue.length)
      if (soon) await this.#send(items)
      else this.#fail(items, this.#tooLong())
    }
    this.#running = false
  }

  /** Waits until enough items are there, the oldest has waited long enough, or somebody flushes. */
  async #company(): Promise<void> {
    const { maxItems, windowMs } = this.#options
    const untilMs = (this.#queue[0]?.arrivedMs ?? 0) + windowMs
    while (this.#queue.length < maxItems && this.#flushing === 0) {
      const waitMs = untilMs - performance.now()
      if (waitMs <= 0) return
      await new Promise<void>((resolve) => {
        const timer = setTimeout(resolve, Math.ceil(waitMs)).unref()
        this.#wake = () => {
          clearTimeout(timer)
          resolve()
        }
      })
    }
  }

  /** Waits until the target may be sent to. @returns false, at once, when that is too far off */
  async #turn(): Promise<boolean> {
    for (;;) {
      const waitMs = this.#freeAtMs - performance.now()
      if (waitMs <= 0) return true
      if (waitMs > MAX_WAIT_MS) return false
      await new Promise((resolve) => setTimeout(resolve, Math.ceil(waitMs)).unref())
    }
  }

  async #send(queued: readonly Queued<Item>[]): Promise<void> {
    const items = queued.map(({ item }) => item)
    for (let attempt = 1; ; attempt++) {
      const { failed, status, again, waitMs = 0, final } = await this.#attempt(items, attempt)
      const pauseMs = Math.min(Math.max(waitMs, this.#options.paceMs), MAX_PAUSE_MS)
      this.#freeAtMs = performance.now() + pauseMs
      if (failed === undefined) {
        for (const { delivered } of queued) delivered()
        return
      }
      if (final) this.#closed = `nothing more is sent, since ${failed}`
      if (!again || !(await this.#turn())) {
        const last = attempt === 1 ? failed : `${failed} in the last of ${attempt} attempts`
        const reason = again ? `${last}, and ${this.#tooLong()}` : last
        this.#fail(queued, reason, { attempts: attempt, ...(status === undefined ? {} : { status }) })
        if (final) this.#fail(this.#queue.splice(0), failed)
        return
      }
    }
  }

  async #attempt(items: readonly Item[], attempt: number): Promise<Outcome> {
    try {
      return await this.#options.send(items, attempt)
    } catch {
      return { failed: 'what was to be sent could not be written' }
    }
  }

  #tooLong(): string {
    const seconds = Math.ceil((this.#freeAtMs - performance.now()) / 1000)
    return `the target asked to be left alone for another ${seconds} s`
  }

  #fail(queued: readonly Queued<Item>[], reason: string, facts: Readonly<Record<string, number>> = {}): void {
    const error = this.#failure(reason, queued.length, facts)
    for (const { failed } of queued) failed(error)
  }

  #failure(reason: string, events: number, facts: Readonly<Record<string, number>> = {}): KitTelemetryError {
    const lost = events === 1 ? '1 event is lost' : `${events} events are lost`
    return new KitTelemetryError(
      'TELEMETRY_TRANSPORT_FAILED',
      `transport ${JSON.stringify(this.#options.type)}: ${reason}; ${lost}`,
      { details: { events, ...facts } },
    )
  }
}
