import { LRUCache } from 'lru-cache'

const PERIOD_MS = 60_000
const MAX_ADDRESSES = 10_000

interface Repeated {
  count: number
  readonly report: (count: number) => void
}

/**
 * The refusals of addresses beyond their limit. The first one of a minute is an event, and the others are counted, so that a flood
 * of requests is not a flood of events. Beyond the maximum of addresses, a count is reported early.
 */
export class RepeatedRefusals {
  readonly #addresses = new LRUCache<string, Repeated>({
    max: MAX_ADDRESSES,
    ttl: PERIOD_MS,
    ttlAutopurge: true,
    dispose: ({ count, report }) => {
      if (count > 0) report(count)
    },
  })

  readonly #watchEnd: (end: () => void) => void
  #isWatching = false

  /** @param watchEnd receives the function that reports all counts, with the first refusal. */
  constructor(watchEnd: (end: () => void) => void) {
    this.#watchEnd = watchEnd
  }

  /** Returns `true` for the first refusal of an address in a minute. @param report receives the number of the others. */
  isFirst(address: string, report: (count: number) => void): boolean {
    if (!this.#isWatching) this.#watchEnd(() => this.#addresses.clear())
    this.#isWatching = true
    const known = this.#addresses.get(address)
    if (known === undefined) this.#addresses.set(address, { count: 0, report })
    else known.count++
    return known === undefined
  }
}
