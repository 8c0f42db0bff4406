import type { ConcurrencyLimit, CountedCall } from '../../router/limits.ts'
import { callerKey } from './caller-key.ts'
import { concurrencyReached, type LimitReached } from './limit-reached.ts'

/** Counts the calls in progress of each caller. A caller without any uses no memory. */
export class RunningCalls {
  readonly #limit: ConcurrencyLimit
  readonly #tool: string | undefined
  readonly #running = new Map<string, number>()

  /** @param tool the tool that the limit belongs to. Undefined for the limit of the adapter. */
  constructor(limit: ConcurrencyLimit, tool: string | undefined) {
    this.#limit = limit
    this.#tool = tool
  }

  /** The number of callers with calls in progress. */
  get callers(): number {
    return this.#running.size
  }

  /** Begins a call. @returns a function that ends it and may be called once, or the limit that the call exceeds */
  begin({ exchange }: CountedCall): (() => void) | LimitReached {
    const caller = callerKey(exchange, this.#limit.by)
    const { key } = caller
    const before = this.#running.get(key) ?? 0
    if (before >= this.#limit.max) return concurrencyReached(this.#limit, this.#tool, caller)
    this.#running.set(key, before + 1)
    return () => {
      const left = (this.#running.get(key) as number) - 1
      if (left === 0) this.#running.delete(key)
      else this.#running.set(key, left)
    }
  }
}
