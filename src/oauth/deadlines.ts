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
      else if (this.#waiting.size === 1) this.#timer.ref()
      // A thenable that is no promise may throw, or give another promise in its turn.
      Promise.resolve(asked).then(
        (value) => {
          this.#forget(waiting)
          resolve(value)
        },
        (error) => {
          this.#forget(waiting)
          reject(error)
        },
      )
    })
  }

  /** The timer goes on for those to come, but keeps no process alive for which nobody waits. */
  #forget(waiting: Waiting): void {
    this.#waiting.delete(waiting)
    if (this.#waiting.size === 0) this.#timer?.unref()
  }

  #wakeIn(ms: number): void {
    this.#timer = setTimeout(() => this.#giveUpOnThoseDue(), ms)
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
