import { type LongTimer, setLongTimeout } from '../../timers.ts'

/** Begins something that calls `done` once when it is over. @returns cancels the call */
export type Beginning = (done: () => void) => () => void

/** A moment after which nothing is waited for. Its timer does not keep the process alive by itself. */
export class Deadline {
  readonly #timer: LongTimer
  readonly #listeners = new Set<() => void>()
  #hasPassed = false

  constructor(ms: number) {
    this.#timer = setLongTimeout(() => {
      this.#hasPassed = true
      for (const listener of this.#listeners) listener()
      this.#listeners.clear()
    }, ms)
  }

  /** Resolves when what begins is over, or when the deadline has passed. */
  wait(begin: Beginning): Promise<void> {
    if (this.#hasPassed) return Promise.resolve()
    return new Promise((resolve) => {
      let cancel = () => {}
      const end = () => {
        cancel()
        this.#listeners.delete(end)
        resolve()
      }
      this.#listeners.add(end)
      cancel = begin(end)
    })
  }

  /** @returns a signal that aborts when the deadline has passed */
  signal(): AbortSignal {
    const controller = new AbortController()
    if (this.#hasPassed) controller.abort()
    else this.#listeners.add(() => controller.abort())
    return controller.signal
  }

  /** Keeps the process alive until the deadline has passed or is cleared. */
  hold(): void {
    this.#timer.ref()
  }

  clear(): void {
    this.#timer.clear()
    this.#listeners.clear()
  }
}

/**
 * A promise that keeps the process alive while it is awaited, and only then: an application that ends with
 * `await telemetry.shutdown()` gets to what comes after it, and one that does not await is not held up.
 */
class AwaitedWithin extends Promise<undefined> {
  #deadline: Deadline | undefined

  static override get [Symbol.species](): PromiseConstructor {
    return Promise
  }

  static of(settled: Promise<undefined>, deadline: Deadline): AwaitedWithin {
    const promise = new AwaitedWithin((resolve, reject) => settled.then(resolve, reject))
    promise.#deadline = deadline
    return promise
  }

  // biome-ignore lint/suspicious/noThenProperty: `await` on a subclass calls this, which shows that somebody waits
  override then<A = undefined, B = never>(
    onFulfilled?: ((value: undefined) => A | PromiseLike<A>) | null,
    onRejected?: ((reason: unknown) => B | PromiseLike<B>) | null,
  ): Promise<A | B> {
    this.#deadline?.hold()
    return super.then(onFulfilled, onRejected)
  }
}

/** Resolves when what begins is over, after `ms` milliseconds at the latest. Never rejects. */
export function settledWithin(ms: number, begin: Beginning): Promise<void> {
  const deadline = new Deadline(ms)
  return heldBy(deadline, deadline.wait(begin))
}

/** Resolves when `work` has settled; it must keep to the deadline itself. Never rejects. */
export function workWithin(ms: number, work: (deadline: Deadline) => Promise<unknown>): Promise<void> {
  const deadline = new Deadline(ms)
  return heldBy(deadline, work(deadline))
}

function heldBy(deadline: Deadline, work: Promise<unknown>): Promise<void> {
  const clear = () => deadline.clear() as undefined
  return AwaitedWithin.of(work.then(clear, clear), deadline)
}

/** Waits for a promise to settle. Once canceled, it keeps nothing but itself. */
export function settlingOf(work: PromiseLike<unknown>): Beginning {
  return (done) => {
    let waiting: (() => void) | undefined = done
    const settle = () => waiting?.()
    work.then(settle, settle)
    return () => {
      waiting = undefined
    }
  }
}
