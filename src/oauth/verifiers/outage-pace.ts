/** The time from a failed attempt to the next one, and the longest time that one attempt keeps others waiting. */
const PAUSE_MS = 1_000

/** Fetches the keys of one issuer. It is the same function at every call, and rejects when it fails. */
export type Attempt<T> = () => Promise<T>

/**
 * The pace of the attempts to fetch keys that one verifier makes for all its issuers. While attempts fail, one starts
 * per second at most. No issuer starves: attempts that were turned away are made in turn, by whoever asks next.
 */
export class OutagePace {
  #pausedUntilMs = Number.NEGATIVE_INFINITY
  /** Settled when the latest attempt is over, or has lasted so long that another one may start. */
  #latest: Promise<void> | undefined
  /** The attempts that were turned away, the one that has waited the longest first. */
  readonly #turnedAway = new Set<Attempt<unknown>>()

  /** Returns `true` if no attempt may start now. Then the attempt is made later, when its turn comes. */
  turnsAway(attempt: Attempt<unknown>): boolean {
    if (performance.now() >= this.#pausedUntilMs) return false
    this.#turnedAway.add(attempt)
    return true
  }

  /** Makes an attempt. Returns `undefined` if it was turned away. */
  async make<T>(attempt: Attempt<T>): Promise<T | undefined> {
    while (!this.turnsAway(attempt)) {
      const [first] = this.#turnedAway
      if (this.#latest === undefined && first !== undefined && first !== attempt) {
        // Whether it fails is for those to know who asked for it.
        this.#start(first).catch(() => undefined)
      }
      if (this.#latest === undefined) return await this.#start(attempt)
      this.#turnedAway.delete(attempt)
      await this.#latest
    }
    return undefined
  }

  #start<T>(attempt: Attempt<T>): Promise<T> {
    this.#turnedAway.delete(attempt)
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
