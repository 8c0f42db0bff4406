import { wholeSeconds } from '../../../oauth/rate-limiter.ts'
import { WindowCounter } from '../../../oauth/window-counter.ts'
import type { CallLimit, CountedCall } from '../../router/limits.ts'
import { type CallerKey, callerKey } from './caller-key.ts'
import { callsReached, type LimitReached } from './limit-reached.ts'

/** The maximum number of counts of each kind in memory: those of users and clients, and those of addresses. */
const MAX_COUNTS = 100_000

/**
 * The counts of all limits of an adapter in memory. Addresses are kept apart from users and clients, so that a flood from many
 * addresses does not drop the counts of users.
 */
export class CallCounts {
  readonly #identities = new WindowCounter(MAX_COUNTS)
  readonly #addresses = new WindowCounter(MAX_COUNTS)

  /** Counts a call. @param prefix distinguishes the limits */
  add(
    prefix: string,
    { key, isAddress }: Pick<CallerKey, 'key' | 'isAddress'>,
    durationMs: number,
  ): { points: number; leftMs: number } {
    const counter = isAddress ? this.#addresses : this.#identities
    return counter.add(`${prefix} ${key}`, durationMs)
  }

  /** The number of counts that are kept. */
  get size(): number {
    return this.#identities.size + this.#addresses.size
  }
}

/** One limit for calls. */
export interface CallCounter {
  /** Counts a call. Returns the limit if the call exceeds it. */
  count(call: CountedCall): LimitReached | undefined | Promise<LimitReached | undefined>
}

/** A limit whose counts are in memory. */
export class MemoryCallCounter implements CallCounter {
  readonly #limit: CallLimit
  readonly #tool: string | undefined
  readonly #counts: CallCounts

  /** @param tool the tool that the limit belongs to. Undefined for the limit of the adapter. */
  constructor(limit: CallLimit, tool: string | undefined, counts: CallCounts) {
    this.#limit = limit
    this.#tool = tool
    this.#counts = counts
  }

  count({ exchange }: CountedCall): LimitReached | undefined {
    const { max, perSeconds, by } = this.#limit
    const caller = callerKey(exchange, by)
    const { points, leftMs } = this.#counts.add(this.#tool ?? '', caller, perSeconds * 1000)
    return points <= max
      ? undefined
      : callsReached(this.#limit, this.#tool, caller, points, wholeSeconds(leftMs))
  }
}
