import { type LongTimer, setLongTimeout } from '../../timers.ts'

/** Starts an operation that calls `done` once when it ends. @returns a function that cancels the call. */
export type Beginning = (done: () => void) => () => void

/** Begins operations, and ends when all of them have ended. */
export function allOf(operations: readonly Beginning[]): Beginning {
  return (done) => {
    let left = operations.length
    if (left === 0) done()
    const cancels = operations.map((begin) =>
      begin(() => {
        left--
        if (left === 0) done()
      }),
    )
    return () => {
      for (const cancel of cancels) cancel()
    }
  }
}

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

/**
 * Clears the deadline at the end of `work`. The promise keeps the process alive only while it is awaited. An application that
 * ends with `await telemetry.shutdown()` continues after it, and an application that does not await it can exit.
 */
function heldBy(deadline: Deadline, work: Promise<unknown>): Promise<void> {
  const clear = () => deadline.clear()
  const promise = work.then(clear, clear)
  const then = (...handlers: Parameters<typeof promise.then>) => {
    deadline.hold()
    return Promise.prototype.then.apply(promise, handlers)
  }
  // `await` calls `then` only if the constructor of the promise is not `Promise`.
  // biome-ignore lint/suspicious/noThenProperty: the promise needs it
  return Object.defineProperties(promise, { constructor: { value: undefined }, then: { value: then } })
}
