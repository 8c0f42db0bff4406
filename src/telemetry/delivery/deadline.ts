import { type LongTimer, setLongTimeout } from '../../timers.ts'

/** Starts an operation that calls `done` once when it ends. @returns a function that cancels the call. */
export type Beginning = (done: () => void) => () => void

/** A moment after which waiting ends. Its timer does not keep the process alive unless `hold` is called. */
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

  /** Resolves when the operation ends, or at the deadline. */
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

  /** Returns a signal that aborts at the deadline. */
  signal(): AbortSignal {
    const controller = new AbortController()
    if (this.#hasPassed) controller.abort()
    else this.#listeners.add(() => controller.abort())
    return controller.signal
  }

  /** Keeps the process alive until the deadline, or until it is cleared. */
  hold(): void {
    this.#timer.ref()
  }

  clear(): void {
    this.#timer.clear()
    this.#listeners.clear()
  }
}

/**
 * A promise that keeps the process alive only while it is awaited. An application that ends with
 * `await telemetry.shutdown()` continues after it, and an application that does not await it can exit.
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

  // biome-ignore lint/suspicious/noThenProperty: `await` on a subclass calls this method
  override then<A = undefined, B = never>(
    onFulfilled?: ((value: undefined) => A | PromiseLike<A>) | null,
    onRejected?: ((reason: unknown) => B | PromiseLike<B>) | null,
  ): Promise<A | B> {
    this.#deadline?.hold()
    return super.then(onFulfilled, onRejected)
  }
}

/** Resolves when the operation ends, but after `ms` milliseconds at the latest. Never rejects. */
export function settledWithin(ms: number, begin: Beginning): Promise<void> {
  const deadline = new Deadline(ms)
  return heldBy(deadline, deadline.wait(begin))
}

/** Resolves when `work` has settled, which must itself end at the deadline. Never rejects. */
export function workWithin(ms: number, work: (deadline: Deadline) => Promise<unknown>): Promise<void> {
  const deadline = new Deadline(ms)
  return heldBy(deadline, work(deadline))
}

function heldBy(deadline: Deadline, work: Promise<unknown>): Promise<void> {
  const clear = () => deadline.clear() as undefined
  return AwaitedWithin.of(work.then(clear, clear), deadline)
}

/** Waits for a promise to settle. Once canceled, it no longer refers to `done`. */
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
