import { performance } from 'node:perf_hooks'
import { VerifierUnavailableError } from './errors.ts'

/** The maximum time between two checks of what is due, and thus for which an idle timer keeps the process alive. */
const TICK_MS = 100

/** A promise that has not settled. It is an entry of a linked list, in which adding and removing take no memory. */
class Pending {
  earlier: Pending | undefined
  later: Pending | undefined
  isSettled = false
  readonly name: string
  readonly dueAtMs: number
  readonly onRejected: (error: unknown) => void

  constructor(name: string, dueAtMs: number, onRejected: (error: unknown) => void) {
    this.name = name
    this.dueAtMs = dueAtMs
    this.onRejected = onRejected
  }
}

/**
 * Rejects promises that take longer than a shared timeout. Since the timeout is the same for all, they are due in the order
 * in which they were added. One timer serves all of them. Most promises settle before its next tick, and cost no more than
 * an entry of the list.
 */
export class Deadlines {
  readonly #timeoutMs: number
  #earliest: Pending | undefined
  #latest: Pending | undefined
  #timer: NodeJS.Timeout | undefined
  /** `true` if a promise was added since the last tick. */
  #isUsed = false
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
    return new Promise((resolve, reject) => this.watch(promise, name, resolve, reject))
  }

  /** Like `within`, but without another promise: calls one of the two functions, once. Neither may throw. */
  watch(
    promise: PromiseLike<unknown>,
    name: string,
    onFulfilled: (value: unknown) => void,
    onRejected: (error: unknown) => void,
  ): void {
    const pending = new Pending(name, performance.now() + this.#timeoutMs, onRejected)
    this.#add(pending)
    // A thenable that is not a promise may throw, or resolve to another promise.
    Promise.resolve(promise).then(
      (value) => {
        if (this.#settle(pending)) onFulfilled(value)
      },
      (error) => {
        if (this.#settle(pending)) onRejected(error)
      },
    )
  }

  #add(pending: Pending): void {
    this.#isUsed = true
    pending.earlier = this.#latest
    if (this.#latest === undefined) this.#earliest = pending
    else this.#latest.later = pending
    this.#latest = pending
    if (this.#timer === undefined) this.#startTimer(this.#timeoutMs)
  }

  /** Removes a promise from the list. Returns `false` if it was removed before. */
  #settle(pending: Pending): boolean {
    if (pending.isSettled) return false
    pending.isSettled = true
    const { earlier, later } = pending
    if (earlier === undefined) this.#earliest = later
    else earlier.later = later
    if (later === undefined) this.#latest = earlier
    else later.earlier = earlier
    return true
  }

  #startTimer(ms: number): void {
    this.#timer = setTimeout(() => this.#tick(), Math.min(ms, TICK_MS))
  }

  #tick(): void {
    this.#timer = undefined
    for (let first = this.#earliest; first !== undefined; first = this.#earliest) {
      const leftMs = first.dueAtMs - performance.now()
      if (leftMs > 0) {
        this.#startTimer(leftMs)
        return
      }
      this.#settle(first)
      first.onRejected(this.#errorOf(`${first.name} did not settle within ${this.#timeoutMs} ms`))
    }
    // Not later than a promise that is added now is due.
    if (this.#isUsed) this.#startTimer(this.#timeoutMs)
    this.#isUsed = false
  }
}
