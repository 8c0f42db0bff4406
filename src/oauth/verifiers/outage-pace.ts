/** The time from a failed attempt to the next one, and the maximum time that an attempt delays others. */
const PAUSE_MS = 1_000

/** Fetches the keys of one issuer. It is the same function at every call, and rejects when it fails. */
export type Attempt<T> = () => Promise<T>

/**
 * Limits the attempts to fetch keys, for all issuers of a verifier together, or for each issuer if a function accepts them. While attempts fail, at most one starts per
 * second. Postponed attempts are made in order, when the next key is needed, so that each issuer gets its turn.
 */
export class OutagePace {
  #pausedUntilMs = Number.NEGATIVE_INFINITY
  /** Settles when the latest attempt has ended, or has lasted so long that another one may start. */
  #latest: Promise<void> | undefined
  /** The postponed attempts, the oldest first. */
  readonly #postponed = new Set<Attempt<unknown>>()

  /** `true` if no attempt may start now. */
  get isPaused(): boolean {
    return performance.now() < this.#pausedUntilMs
  }

  /** Returns `true` if no attempt may start now. The attempt is then postponed. */
  postpones(attempt: Attempt<unknown>): boolean {
    if (!this.isPaused) return false
    this.#postponed.add(attempt)
    return true
  }

  /** Makes an attempt. Returns `undefined` if it was postponed. */
  async make<T>(attempt: Attempt<T>): Promise<T | undefined> {
    while (!this.postpones(attempt)) {
      const [first] = this.#postponed
      if (this.#latest === undefined && first !== undefined && first !== attempt) {
        // Its failure is reported to the requests that needed it.
        this.#start(first).catch(() => undefined)
      }
      if (this.#latest === undefined) return await this.#start(attempt)
      this.#postponed.delete(attempt)
      await this.#latest
    }
    return undefined
  }

  #start<T>(attempt: Attempt<T>): Promise<T> {
    this.#postponed.delete(attempt)
    const made = attempt()
    let timer: NodeJS.Timeout | undefined
    const over = new Promise<void>((resolve) => {
      timer = setTimeout(resolve, PAUSE_MS)
      made.then(
        () => resolve(),
        () => {
          this.#pausedUntilMs = performance.now() + PAUSE_MS
          resolve()
        },
      )
    }).finally(() => {
      clearTimeout(timer)
      if (this.#latest === over) this.#latest = undefined
    })
    this.#latest = over
    return made
  }
}
