import { setLongTimeout } from '../../base/timers.ts'
import type { EventOutcome } from './transport.ts'

/** The pieces of work that were added between two calls of `settled`. */
export interface Generation {
  readonly number: number
  /** The number of pieces that have not settled. */
  count: number
}

/**
 * Counts pieces of work, and resolves promises when all pieces that were added before them have settled. Pieces may
 * settle in any order. Each call takes constant time on average. The memory is linear in the number of unsettled pieces and
 * waiting callers.
 */
export class PendingWork {
  #count = 0
  /** The generation of new pieces. */
  #open: Generation = { number: 0, count: 0 }
  /** The numbers of the earlier generations that have unsettled pieces. */
  readonly #unsettled = new Set<number>()
  /** The lowest of these numbers, or that of the open generation. */
  #lowest = 0
  /** The waiting callers, by the number of the latest generation that they wait for. */
  readonly #callers = new Map<number, Set<() => void>>()

  /** The number of pieces that have not settled. */
  get count(): number {
    return this.#count
  }

  /** Adds a piece of work. @returns the argument for `settle`. */
  add(): Generation {
    this.#count++
    this.#open.count++
    return this.#open
  }

  /** Counts a piece as settled. @param generation the result of `add`. */
  settle(generation: Generation): void {
    this.#count--
    if (--generation.count > 0 || generation === this.#open) return
    this.#unsettled.delete(generation.number)
    while (this.#lowest < this.#open.number && !this.#unsettled.has(this.#lowest)) {
      for (const end of this.#callers.get(this.#lowest++) ?? []) end()
    }
  }

  /** Resolves when all current pieces have settled, or when the deadline aborts. */
  settled(deadline?: AbortSignal): Promise<void> {
    if (this.#open.count > 0) {
      this.#unsettled.add(this.#open.number)
      this.#open = { number: this.#open.number + 1, count: 0 }
    }
    if (this.#unsettled.size === 0 || deadline?.aborted === true) return Promise.resolve()
    const latest = this.#open.number - 1
    const callers = this.#callers.get(latest) ?? new Set()
    this.#callers.set(latest, callers)
    return new Promise((resolve) => {
      const end = () => {
        deadline?.removeEventListener('abort', end)
        if (callers.delete(end) && callers.size === 0) this.#callers.delete(latest)
        resolve()
      }
      callers.add(end)
      deadline?.addEventListener('abort', end)
    })
  }
}

/** A pending event of a transport, which reports its outcome. */
export class CountedEvent implements EventOutcome {
  readonly #channel: Settling
  readonly #work: PendingWork
  readonly #generation: Generation
  readonly #session: PendingWork | undefined
  readonly #sessionGeneration: Generation | undefined
  /** Its size in memory. */
  readonly bytes: number

  /** @param session the pending events of its session. */
  constructor(channel: Settling, work: PendingWork, session: PendingWork | undefined, bytes: number) {
    this.bytes = bytes
    this.#channel = channel
    this.#work = work
    this.#generation = work.add()
    this.#session = session
    this.#sessionGeneration = session?.add()
  }

  /** Ends its counting as pending. */
  release(): void {
    this.#work.settle(this.#generation)
    if (this.#sessionGeneration !== undefined) this.#session?.settle(this.#sessionGeneration)
  }

  delivered(): void {
    this.#channel.settle(this)
  }

  /** The failure is reported later, because loggers may emit events, and a transport may be in the middle of its work. */
  failed(cause: unknown): void {
    queueMicrotask(() => this.#channel.settle(this, { cause }))
  }
}

/** Counts an event that has settled. */
interface Settling {
  settle(event: CountedEvent, failure?: { readonly cause: unknown }): void
}

/** One call of a transport's `flush` or `shutdown`, and the callers that wait for it. */
export class TransportCall {
  readonly #work = new PendingWork()
  readonly #call = this.#work.add()
  readonly #deadline = new AbortController()
  #callers = 0

  /** Aborts when no caller waits any longer. */
  get deadline(): AbortSignal {
    return this.#deadline.signal
  }

  /** Resolves at the end of the call, or when the caller's deadline aborts. */
  async ended(deadline: AbortSignal): Promise<void> {
    this.#callers++
    await this.#work.settled(deadline)
    if (--this.#callers === 0) this.#deadline.abort()
  }

  end(): void {
    this.#work.settle(this.#call)
  }
}

/**
 * Runs `work` with a deadline, which aborts after `ms` milliseconds. `work` must then end. Never rejects. The promise keeps the
 * process alive only while it is awaited. An application that ends with `await telemetry.shutdown()` continues after it, and an
 * application that does not await it can exit.
 */
export function withDeadline(ms: number, work: (deadline: AbortSignal) => Promise<unknown>): Promise<void> {
  const deadline = new AbortController()
  const timer = setLongTimeout(() => deadline.abort(), ms)
  const clear = () => timer.clear()
  const promise = work(deadline.signal).then(clear, clear)
  const then = (...handlers: Parameters<typeof promise.then>) => {
    timer.ref()
    return Promise.prototype.then.apply(promise, handlers)
  }
  // `await` calls `then` only if the constructor of the promise is not `Promise`.
  // biome-ignore lint/suspicious/noThenProperty: the promise needs it
  return Object.defineProperties(promise, { constructor: { value: undefined }, then: { value: then } })
}

/** Resolves to the result of `call`, or to `late` if it takes longer. The timer does not keep the process alive. */
export function orAfter(ms: number, late: unknown, call: () => unknown): Promise<unknown> {
  return new Promise((resolve, reject) => {
    const timer = setLongTimeout(() => resolve(late), ms)
    const called = (async () => await call())()
    called.then(resolve, reject).finally(() => timer.clear())
  })
}

/** The default timeout of `flush` and `shutdown`, in milliseconds. */
const DEFAULT_TIMEOUT_MS = 30_000

/** Returns the timeout. Invalid timeouts fall back to the default. */
export function readTimeout(options: { readonly timeoutMs?: unknown }): number {
  const timeoutMs: unknown = options?.timeoutMs
  return typeof timeoutMs === 'number' && !Number.isNaN(timeoutMs) ? timeoutMs : DEFAULT_TIMEOUT_MS
}
