import { performance } from 'node:perf_hooks'
import { VerifierUnavailableError } from './errors.ts'

interface Waiting {
  readonly who: string
  readonly dueAtMs: number
  readonly giveUp: (error: VerifierUnavailableError) => void
}

/**
 * Gives what is asked of others a time to answer in. All have the same, so that the one who has waited longest is due
 * first: one timer does for all, and in most requests none is set or cleared.
 */
export class Deadlines {
  readonly #timeoutMs: number
  /** In the order in which they are due. */
  readonly #waiting = new Set<Waiting>()
  #timer: NodeJS.Timeout | undefined

  constructor(timeoutMs: number) {
    this.#timeoutMs = timeoutMs
  }

  /**
   * As `asked`, in time.
   * @param who is asked, for the error.
   * @throws {VerifierUnavailableError} when it has not been settled in time.
   */
  within(asked: PromiseLike<unknown>, who: string): Promise<unknown> {
    return new Promise((resolve, reject) => {
      const waiting: Waiting = { who, dueAtMs: performance.now() + this.#timeoutMs, giveUp: reject }
      this.#waiting.add(waiting)
      if (this.#timer === undefined) this.#wakeIn(this.#timeoutMs)
      // A thenable that is no promise may throw, or give another promise in its turn.
      Promise.resolve(asked).then(
        (value) => {
          this.#waiting.delete(waiting)
          resolve(value)
        },
        (error) => {
          this.#waiting.delete(waiting)
          reject(error)
        },
      )
    })
  }

  #wakeIn(ms: number): void {
    this.#timer = setTimeout(() => this.#giveUpOnThoseDue(), ms).unref()
  }

  #giveUpOnThoseDue(): void {
    this.#timer = undefined
    for (const waiting of this.#waiting) {
      const leftMs = waiting.dueAtMs - performance.now()
      if (leftMs > 0) {
        this.#wakeIn(leftMs)
        return
      }
      this.#waiting.delete(waiting)
      const { who, giveUp } = waiting
      giveUp(new VerifierUnavailableError(`${who} has not answered within ${this.#timeoutMs} ms`))
    }
  }
}
