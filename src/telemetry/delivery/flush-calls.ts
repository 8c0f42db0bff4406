import { PendingWork } from './pending-work.ts'

/** The maximum number of concurrent calls. Further callers share the next call. */
const MAX_CALLS = 8

/** One call of a transport's `flush`. */
class FlushCall {
  readonly #work = new PendingWork()
  readonly #call = this.#work.add()
  readonly #deadline = new AbortController()
  #callers = 0

  /** Aborts when no caller waits any longer. */
  get deadline(): AbortSignal {
    return this.#deadline.signal
  }

  settle(): void {
    this.#work.settle(this.#call)
  }

  /** @returns a function that must be called when the caller waits no longer. */
  whenSettled(done: () => void): () => void {
    this.#callers++
    const cancel = this.#work.whenSettled(done)
    return () => {
      cancel()
      if (--this.#callers === 0) this.#deadline.abort()
    }
  }
}

/** The calls of a transport's `flush`. */
export class FlushCalls {
  readonly #flush: (deadline: AbortSignal) => Promise<void>
  #running = 0
  /** The call that starts when one of them ends, or when `startNext` is called. */
  #next: FlushCall | undefined

  /** @param flush calls the transport. Never rejects. `deadline` aborts when no caller waits any longer. */
  constructor(flush: (deadline: AbortSignal) => Promise<void>) {
    this.#flush = flush
  }

  /**
   * Calls `done` when a call that starts now or later has settled.
   * @param mayStart whether a call may start now.
   * @returns a function that must be called when the caller waits no longer.
   */
  add(done: () => void, mayStart: boolean): () => void {
    if (!mayStart || this.#running >= MAX_CALLS) {
      this.#next ??= new FlushCall()
      return this.#next.whenSettled(done)
    }
    const call = new FlushCall()
    const leave = call.whenSettled(done)
    this.#start(call)
    return leave
  }

  /** Starts the next call if there are callers for one. */
  startNext(): void {
    const next = this.#next
    this.#next = undefined
    if (next !== undefined) this.#start(next)
  }

  /** Settles the next call without calling the transport. */
  skipNext(): void {
    this.#next?.settle()
    this.#next = undefined
  }

  #start(call: FlushCall): void {
    this.#running++
    void this.#flush(call.deadline).then(() => {
      this.#running--
      call.settle()
      this.startNext()
    })
  }
}
