import type { EventStore } from './store.ts'

/** A wait for the next event of a type. */
export interface EventWait {
  /** Resolves after an event since the beginning of the wait, after `ms`, when `signal` aborts, or at `close`. */
  until(ms: number, signal: AbortSignal): Promise<void>
  end(): void
}

/** The waits of the open streams of a node. There is one for each stream. */
export class EventWaits {
  readonly #store: Pick<EventStore, 'watch'>
  readonly #waking = new Map<string, Set<() => void>>()
  #unwatch: (() => void) | undefined

  constructor(store: Pick<EventStore, 'watch'>) {
    this.#store = store
  }

  begin(name: string): EventWait {
    this.#unwatch ??= this.#store.watch((changed) => this.#wake(changed))
    let wake: (() => void) | undefined
    let isWoken = false
    const onEvent = (): void => {
      isWoken = true
      wake?.()
    }
    const waking = this.#waking.get(name) ?? new Set()
    this.#waking.set(name, waking.add(onEvent))
    return {
      until: (ms, signal) =>
        new Promise((resolve) => {
          const done = (): void => {
            clearTimeout(timer)
            signal.removeEventListener('abort', done)
            resolve()
          }
          const timer = setTimeout(done, Math.max(ms, 0))
          signal.addEventListener('abort', done)
          wake = done
          if (isWoken || signal.aborted) done()
        }),
      end: () => {
        waking.delete(onEvent)
        if (waking.size === 0 && this.#waking.get(name) === waking) this.#waking.delete(name)
        if (this.#waking.size === 0) this.close()
      },
    }
  }

  /** Ends all waits. */
  close(): void {
    this.#unwatch?.()
    this.#unwatch = undefined
    this.#wake(undefined)
  }

  #wake(name: string | undefined): void {
    const all = name === undefined ? [...this.#waking.values()] : [this.#waking.get(name) ?? new Set()]
    for (const waking of all) for (const wake of [...waking]) wake()
  }
}
