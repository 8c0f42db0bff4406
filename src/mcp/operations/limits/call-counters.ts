import {
  LimiterGuard,
  type RateLimiterLike,
  waitingMs,
  wholeSeconds,
} from '../../../oauth/limits/rate-limiter.ts'
import { WindowCounter } from '../../../oauth/limits/window-counter.ts'
import type { CallLimit, ConcurrencyLimit, CountedCall, Reach } from '../../router/limits.ts'
import { type CallerKey, callerKey } from './caller-key.ts'
import { LimitReached } from './limit-reached.ts'

/** The maximum number of counts of each kind in memory: those of users and clients, and those of addresses. */
const MAX_COUNTS = 100_000

/** The minimum time between two events about a store that fails. */
const REPORT_INTERVAL_MS = 10_000

/** Counts a call. Returns the limit if the call exceeds it. */
export type CallCounter = (call: CountedCall) => LimitReached | undefined | Promise<LimitReached | undefined>

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

/** Returns a counter in memory. @param tool the tool that the limit belongs to. Undefined for the limit of the adapter. */
export function memoryCounter(limit: CallLimit, tool: string | undefined, counts: CallCounts): CallCounter {
  return ({ exchange }) => {
    const caller = callerKey(exchange, limit.by)
    const { points: actual, leftMs } = counts.add(tool ?? '', caller, limit.perSeconds * 1000)
    if (actual <= limit.max) return undefined
    const retryAfterSeconds = wholeSeconds(leftMs)
    return new LimitReached('calls', { ...limit, ...caller, tool, actual, retryAfterSeconds })
  }
}

/** A store of limits, which all limits that use it share. */
export class LimitStoreState {
  readonly guard: LimiterGuard = new LimiterGuard()
  #reportedAtMs = Number.NEGATIVE_INFINITY

  /** Emits an event, unless there was one recently. */
  report({ exchange, timed }: CountedCall, thrown: unknown): void {
    const nowMs = performance.now()
    if (nowMs - this.#reportedAtMs < REPORT_INTERVAL_MS) return
    this.#reportedAtMs = nowMs
    exchange.telemetry.record('limit.unavailable', timed, { failure: { thrown } })
  }
}

/** Returns a counter in a store that nodes share. If the store fails or takes too long, calls pass. */
export function storedCounter(
  limit: CallLimit,
  tool: string | undefined,
  limiter: RateLimiterLike,
  store: LimitStoreState,
): CallCounter {
  return async (call) => {
    try {
      const caller = callerKey(call.exchange, limit.by)
      const rejection = await store.guard.consume(limiter, caller.key)
      const ms = waitingMs(rejection)
      if (ms === undefined) return undefined
      const { consumedPoints } = rejection as { consumedPoints?: unknown }
      const actual = typeof consumedPoints === 'number' ? consumedPoints : limit.max + 1
      const retryAfterSeconds = wholeSeconds(ms)
      return new LimitReached('calls', { ...limit, ...caller, tool, actual, retryAfterSeconds })
    } catch (thrown) {
      store.report(call, thrown)
      return undefined
    }
  }
}

/** Counts the calls in progress of each caller. A caller without any uses no memory. */
export class RunningCalls {
  readonly #limit: ConcurrencyLimit & Pick<Reach, 'tool'>
  readonly #running = new Map<string, number>()

  /** @param tool the tool that the limit belongs to. Undefined for the limit of the adapter. */
  constructor(limit: ConcurrencyLimit, tool: string | undefined) {
    this.#limit = { ...limit, tool }
  }

  /** The number of callers with calls in progress. */
  get callers(): number {
    return this.#running.size
  }

  /** Begins a call. @returns a function that ends it and may be called once @throws the limit that the call exceeds */
  begin({ exchange }: CountedCall): () => void {
    const { max, by } = this.#limit
    const { key, scope } = callerKey(exchange, by)
    const before = this.#running.get(key) ?? 0
    // The end of the calls in progress cannot be predicted.
    if (before >= max)
      throw new LimitReached('concurrency', { ...this.#limit, scope, actual: max + 1, retryAfterSeconds: 1 })
    this.#running.set(key, before + 1)
    return () => {
      const left = (this.#running.get(key) as number) - 1
      if (left === 0) this.#running.delete(key)
      else this.#running.set(key, left)
    }
  }
}
