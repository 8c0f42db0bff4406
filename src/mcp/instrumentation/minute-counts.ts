import { performance } from 'node:perf_hooks'

const PERIOD_MS = 60_000
/** Beyond it, the first count ends early. */
const MAX_KEYS = 10_000

interface Counted {
  readonly openedAt: number
  readonly timer: ReturnType<typeof setTimeout>
  readonly report: (count: number) => void
  count: number
}

/** Counts what happens in a minute, by key. A minute begins with the first time. Its number is reported when it ends. */
export class MinuteCounts {
  readonly #byKey = new Map<string, Counted>()

  /** Returns the number of times in this minute. @param report of the first time, receives the number in the end */
  add(key: string, report: (count: number) => void): number {
    const open = this.#byKey.get(key)
    // Some runtimes cancel the timers of a request when it ends.
    if (open !== undefined && performance.now() - open.openedAt < PERIOD_MS) return ++open.count
    this.#close(key)
    const [first] = this.#byKey.keys()
    if (first !== undefined && this.#byKey.size >= MAX_KEYS) this.#close(first)
    const timer = setTimeout(() => this.#close(key), PERIOD_MS)
    timer.unref?.()
    this.#byKey.set(key, { openedAt: performance.now(), timer, report, count: 1 })
    return 1
  }

  /** Reports all numbers. */
  end(): void {
    for (const key of this.#byKey.keys()) this.#close(key)
  }

  #close(key: string): void {
    const counted = this.#byKey.get(key)
    if (counted === undefined) return
    this.#byKey.delete(key)
    clearTimeout(counted.timer)
    counted.report(counted.count)
  }
}
