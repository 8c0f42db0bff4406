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
