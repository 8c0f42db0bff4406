/** A waiting caller, as a node of a ring. */
interface Waiter {
  resolve: () => void
  previous: Waiter
  next: Waiter
}

/** The callers that wait for one generation. Adding, removing, and joining take constant time. */
class Waiters {
  readonly #ring: Waiter = newRing()

  /** @returns a function that removes the caller. */
  add(resolve: () => void): () => void {
    const last = this.#ring.previous
    const waiter: Waiter = { resolve, previous: last, next: this.#ring }
    last.next = waiter
    this.#ring.previous = waiter
    return () => {
      waiter.previous.next = waiter.next
      waiter.next.previous = waiter.previous
      waiter.previous = waiter
      waiter.next = waiter
    }
  }

  /** Moves every caller of `others` to the end of this list. */
  join(others: Waiters): void {
    const { next: first, previous: last } = others.#ring
    if (first === others.#ring) return
    const end = this.#ring.previous
    end.next = first
    first.previous = end
    last.next = this.#ring
    this.#ring.previous = last
    others.#ring.next = others.#ring
    others.#ring.previous = others.#ring
  }

  resolveAll(): void {
    for (let first = this.#ring.next; first !== this.#ring; first = this.#ring.next) {
      this.#ring.next = first.next
      first.next.previous = this.#ring
      first.next = first
      first.previous = first
      first.resolve()
    }
  }
}

function newRing(): Waiter {
  const ring = { resolve: () => {} } as Waiter
  ring.previous = ring
  ring.next = ring
  return ring
}

/** The pieces of work that were added between two calls of `whenSettled`. */
export interface Generation {
  /** The number of pieces that have not settled. */
  count: number
}

interface LinkedGeneration extends Generation {
  readonly waiters: Waiters
  previous: LinkedGeneration | undefined
  next: LinkedGeneration | undefined
}

/**
 * Counts pieces of work, and calls back when all pieces that were added before a given moment have settled. Pieces may
 * settle in any order. Each call takes constant time. The memory is linear in the number of unsettled pieces and waiting
 * callers.
 */
export class PendingWork {
  #count = 0
  /** The generation of new pieces. */
  #open: LinkedGeneration = newGeneration()
  /** The latest of the earlier generations. Each of them has unsettled pieces. */
  #newest: LinkedGeneration | undefined

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
    const { previous, next, waiters } = generation as LinkedGeneration
    if (next === undefined) this.#newest = previous
    else next.previous = previous
    if (previous === undefined) {
      waiters.resolveAll()
    } else {
      previous.next = next
      previous.waiters.join(waiters)
    }
  }

  /**
   * Calls `resolve` when all current pieces have settled, or at once if there are none. `resolve` must not throw.
   * @returns a function that cancels the call.
   */
  whenSettled(resolve: () => void): () => void {
    if (this.#open.count > 0) this.#close()
    if (this.#newest === undefined) {
      resolve()
      return () => {}
    }
    return this.#newest.waiters.add(resolve)
  }

  #close(): void {
    const closed = this.#open
    closed.previous = this.#newest
    if (this.#newest !== undefined) this.#newest.next = closed
    this.#newest = closed
    this.#open = newGeneration()
  }
}

function newGeneration(): LinkedGeneration {
  return { count: 0, waiters: new Waiters(), previous: undefined, next: undefined }
}
