import type { EventStore, TakenDelivery } from '../store.ts'
import type { HostLimits } from './host-limits.ts'

/** The maximum number of deliveries that are taken at once. */
const MAX_TAKEN = 32

/** The longest wait before the store is asked again. */
const IDLE_MS = 10_000

/** The wait if none of the deliveries that were taken could begin. */
const NO_ROOM_MS = 250

/** The wait after an error of the store. */
const STORE_AWAY_MS = 1_000

/** The time that deliveries may take to end after they were aborted. */
const ABORT_MS = 1_000

/** The parts of a {@link DeliveryLoop}. */
export interface DeliveryLoopParts {
  readonly store: Pick<EventStore, 'take' | 'watch'>
  readonly leaseMs: number
  readonly limits: Pick<HostLimits, 'free' | 'busy'>
  /** Sends a delivery and settles it, or postpones it if too many were taken. Takes its place before it returns. */
  readonly deliver: (delivery: TakenDelivery) => Promise<void>
}

/** Takes due deliveries from the store while it is open. Waiting does not keep the process alive. */
export class DeliveryLoop {
  readonly #parts: DeliveryLoopParts
  readonly #running = new Set<Promise<void>>()
  #isOpen = true
  #loop: Promise<void> | undefined
  /** `true` if something has happened since the store was asked. */
  #isWoken = false
  /** `true` while the end of a delivery makes room for others. */
  #isFull = false
  #endSleep: (() => void) | undefined
  #unwatch: (() => void) | undefined

  constructor(parts: DeliveryLoopParts) {
    this.#parts = parts
  }

  start(): void {
    if (!this.#isOpen || this.#loop !== undefined) return
    this.#unwatch = this.#parts.store.watch(() => this.wake())
    this.#loop = this.#run()
  }

  /**
   * Takes no more deliveries, and waits for those that run. Never rejects.
   * @param timeoutMs the time after which `abort` is called to end them
   */
  async stop(timeoutMs: number, abort: () => void): Promise<void> {
    this.#isOpen = false
    this.#unwatch?.()
    this.wake()
    const timers: NodeJS.Timeout[] = []
    const late = new Promise<void>((resolve) => {
      timers.push(setTimeout(abort, timeoutMs), setTimeout(resolve, timeoutMs + ABORT_MS))
    })
    // A store that is away may never answer.
    await Promise.race([this.#settled(), late])
    for (const timer of timers) clearTimeout(timer)
    abort()
  }

  async #settled(): Promise<void> {
    await this.#loop
    await Promise.all(this.#running)
  }

  async #run(): Promise<void> {
    while (this.#isOpen) {
      this.#isWoken = false
      await this.#next()
    }
  }

  /** Begins what is due, and waits until there may be more. Never rejects. */
  async #next(): Promise<void> {
    const { store, leaseMs, limits, deliver } = this.#parts
    const max = Math.min(MAX_TAKEN, limits.free)
    const { busy } = limits
    this.#isFull = max <= 0 || busy.hosts.length + busy.owners.length > 0
    if (max <= 0) return this.#sleep(IDLE_MS)
    try {
      const { deliveries, nextInMs } = await store.take({ leaseMs, max, busy })
      const before = limits.free
      for (const delivery of deliveries) this.#track(deliver(delivery))
      if (deliveries.length > 0 && limits.free === before) await this.#pause(NO_ROOM_MS)
      else if (deliveries.length < max) await this.#sleep(Math.min(nextInMs, IDLE_MS))
    } catch {
      await this.#pause(STORE_AWAY_MS)
    }
  }

  #track(delivered: Promise<void>): void {
    const running = delivered
      .catch(() => undefined)
      .then(() => {
        this.#running.delete(running)
        if (this.#isFull) this.wake()
      })
    this.#running.add(running)
  }

  /** Asks the store again at once. */
  wake(): void {
    this.#isWoken = true
    this.#endSleep?.()
  }

  /** Waits, or returns early for a signal. */
  async #sleep(ms: number): Promise<void> {
    if (this.#isWoken) return
    let timer: NodeJS.Timeout | undefined
    await new Promise<void>((resolve) => {
      this.#endSleep = resolve
      timer = setTimeout(resolve, ms).unref()
    })
    clearTimeout(timer)
    this.#endSleep = undefined
  }

  /** Waits, however many signals arrive, but not after the end. */
  async #pause(ms: number): Promise<void> {
    const endMs = performance.now() + ms
    for (let leftMs = ms; this.#isOpen && leftMs > 0; leftMs = endMs - performance.now()) {
      this.#isWoken = false
      await this.#sleep(leftMs)
    }
  }
}
