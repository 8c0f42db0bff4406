/** A caller that waits, as a node of a ring. */
interface Waiter {
  resolve: () => void
  previous: Waiter
  next: Waiter
}

/** The callers that wait for one generation. Adding, removing, and joining two lists take constant time. */
class Waiters {
  readonly #ring: Waiter = newRing()

  /** @returns removes the caller again */
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
  /** Pieces that have not settled. */
  count: number
}

interface LinkedGeneration extends Generation {
  readonly waiters: Waiters
  previous: LinkedGeneration | undefined
  next: LinkedGeneration | undefined
}

/**
 * Counts pieces of work, and reports when everything that was added before a given moment has settled. Pieces may settle
 * in any order. Each call takes constant time, and the memory is linear in the pieces that have not settled plus the
 * callers that wait.
 */
export class PendingWork {
  #count = 0
  /** Takes what is added now. */
  #open: LinkedGeneration = newGeneration()
  /** The latest of the generations before. Each of them has pieces that have not settled. */
  #newest: LinkedGeneration | undefined

  /** The number of pieces that have not settled. */
  get count(): number {
    return this.#count
  }

  /** Adds a piece of work. @returns what `settle` takes once it has settled */
  add(): Generation {
    this.#count++
    this.#open.count++
    return this.#open
  }

  /** Counts a piece as settled. @param generation what `add` returned for it */
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
   * Calls `resolve` once everything that has been added so far has settled: at once if it has. `resolve` must not throw.
   * @returns cancels the call
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
