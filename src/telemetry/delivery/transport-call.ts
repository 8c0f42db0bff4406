import { PendingWork } from './pending-work.ts'

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
