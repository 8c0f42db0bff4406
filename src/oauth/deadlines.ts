import { performance } from 'node:perf_hooks'
import { VerifierUnavailableError } from './errors.ts'

interface Pending {
  readonly name: string
  readonly dueAtMs: number
  readonly reject: (error: Error) => void
}

/**
 * Rejects promises that take longer than a shared timeout. Since the timeout is the same for all, they are due in the order
 * in which they were added. One timer serves all of them, and most requests neither set nor clear one.
 */
export class Deadlines {
  readonly #timeoutMs: number
  /** In the order in which they are due. */
  readonly #pending = new Set<Pending>()
  #timer: NodeJS.Timeout | undefined
  readonly #errorOf: (message: string) => Error

  /** @param errorOf creates the error for a promise that takes too long. Defaults to a `VerifierUnavailableError`. */
  constructor(
    timeoutMs: number,
    errorOf: (message: string) => Error = (message) => new VerifierUnavailableError(message),
  ) {
    this.#timeoutMs = timeoutMs
    this.#errorOf = errorOf
  }

  /**
   * Settles like `promise`, or rejects if it does not settle in time.
   * @param name the function that returned the promise, for the error
   * @throws the error of `errorOf` if the timeout expires.
   */
  within(promise: PromiseLike<unknown>, name: string): Promise<unknown> {
    return new Promise((resolve, reject) => {
      const pending: Pending = { name, dueAtMs: performance.now() + this.#timeoutMs, reject }
      this.#pending.add(pending)
      if (this.#timer === undefined) this.#startTimer(this.#timeoutMs)
      else if (this.#pending.size === 1) this.#timer.ref()
      // A thenable that is not a promise may throw, or resolve to another promise.
      Promise.resolve(promise).then(
        (value) => {
          this.#remove(pending)
          resolve(value)
        },
        (error) => {
          this.#remove(pending)
          reject(error)
        },
      )
    })
  }

  /** The timer keeps running for later promises, but does not keep the process alive if nothing is pending. */
  #remove(pending: Pending): void {
    this.#pending.delete(pending)
    if (this.#pending.size === 0) this.#timer?.unref()
  }

  #startTimer(ms: number): void {
    this.#timer = setTimeout(() => this.#rejectDue(), ms)
  }

  #rejectDue(): void {
    this.#timer = undefined
    for (const pending of this.#pending) {
      const leftMs = pending.dueAtMs - performance.now()
      if (leftMs > 0) {
        this.#startTimer(leftMs)
        return
      }
      this.#pending.delete(pending)
      const { name, reject } = pending
      reject(this.#errorOf(`${name} did not settle within ${this.#timeoutMs} ms`))
    }
  }
}
