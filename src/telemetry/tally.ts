/** Counts events under way, and tells when none is left. */
export class Tally {
  #count = 0
  #waiting: (() => void)[] = []

  get count(): number {
    return this.#count
  }

  add(): void {
    this.#count++
  }

  done(): void {
    if (--this.#count > 0) return
    const waiting = this.#waiting
    this.#waiting = []
    for (const resolve of waiting) resolve()
  }

  /** Resolves as soon as nothing is under way. */
  idle(): Promise<void> {
    return this.#count === 0 ? Promise.resolve() : new Promise((resolve) => this.#waiting.push(resolve))
  }
}

/** Longest delay a Node timer takes. */
const MAX_TIMER_MS = 2 ** 31 - 1

/** A moment after which nobody waits any longer. Its timer does not keep the process alive by itself. */
export class Deadline {
  readonly #passed: Promise<void>
  readonly #timer: NodeJS.Timeout

  constructor(ms: number) {
    let pass = () => {}
    this.#passed = new Promise((resolve) => {
      pass = resolve
    })
    this.#timer = setTimeout(pass, Math.min(Math.max(ms, 0), MAX_TIMER_MS))
    this.#timer.unref()
  }

  /** Resolves when `work` has settled or the deadline has passed; never rejects. */
  async wait(work: Promise<unknown>): Promise<void> {
    await Promise.race([work.then(undefined, () => {}), this.#passed])
  }

  /** Keeps the process alive until the deadline has passed or is cleared. */
  hold(): void {
    this.#timer.ref()
  }

  clear(): void {
    clearTimeout(this.#timer)
  }
}

/**
 * A promise that keeps the process alive while somebody waits for it, and only then: an application that ends with
 * `await telemetry.shutdown()` shall get to what comes after it, one that does not wait shall not be held up.
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

  // biome-ignore lint/suspicious/noThenProperty: `await` on a subclass calls this, which is how it shows that somebody waits
  override then<A = undefined, B = never>(
    onFulfilled?: ((value: undefined) => A | PromiseLike<A>) | null,
    onRejected?: ((reason: unknown) => B | PromiseLike<B>) | null,
  ): Promise<A | B> {
    this.#deadline?.hold()
    return super.then(onFulfilled, onRejected)
  }
}

/** Resolves when `work` has settled, after `ms` milliseconds at the latest; never rejects. */
export function settledWithin(
  ms: number,
  work: Promise<unknown> | ((deadline: Deadline) => Promise<unknown>),
): Promise<void> {
  const deadline = new Deadline(ms)
  const settled = deadline.wait(typeof work === 'function' ? work(deadline) : work)
  return AwaitedWithin.of(
    settled.then(() => deadline.clear() as undefined),
    deadline,
  )
}
