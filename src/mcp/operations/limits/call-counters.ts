import {
  LimiterGuard,
  type RateLimiterLike,
  waitingMs,
  wholeSeconds,
} from '../../../oauth/limits/rate-limiter.ts'
import { WindowCounter } from '../../../oauth/limits/window-counter.ts'
import type { CallLimit, ConcurrencyLimit, CountedCall } from '../../router/limits.ts'
import { type CallerKey, callerKey } from './caller-key.ts'
import { LimitReached } from './limit-reached.ts'

/** The maximum number of counts of each kind in memory: those of users and clients, and those of addresses. */
const MAX_COUNTS = 100_000

/** The minimum time between two events about a store that fails. */
const REPORT_INTERVAL_MS = 10_000

/** The seconds after which a client may try again if too many calls are in progress. Their end cannot be predicted. */
const RETRY_CONCURRENCY_SECONDS = 1

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
    const { points, leftMs } = counts.add(tool ?? '', caller, limit.perSeconds * 1000)
    return points <= limit.max ? undefined : callsReached(limit, tool, caller, points, leftMs)
  }
}

function callsReached(
  { max, perSeconds }: CallLimit,
  tool: string | undefined,
  { scope }: CallerKey,
  actual: number,
  leftMs: number,
): LimitReached {
  const retryAfterSeconds = wholeSeconds(leftMs)
  return new LimitReached('calls', { tool, max, actual, perSeconds, scope, retryAfterSeconds })
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
      return callsReached(limit, tool, caller, actual, ms)
    } catch (thrown) {
      store.report(call, thrown)
      return undefined
    }
  }
}

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

  /** Begins a call. @returns a function that ends it and may be called once @throws the limit that the call exceeds */
  begin({ exchange }: CountedCall): () => void {
    const { max, by } = this.#limit
    const { key, scope } = callerKey(exchange, by)
    const before = this.#running.get(key) ?? 0
    if (before >= max)
      throw new LimitReached('concurrency', {
        tool: this.#tool,
        max,
        actual: max + 1,
        scope,
        retryAfterSeconds: RETRY_CONCURRENCY_SECONDS,
      })
    this.#running.set(key, before + 1)
    return () => {
      const left = (this.#running.get(key) as number) - 1
      if (left === 0) this.#running.delete(key)
      else this.#running.set(key, left)
    }
  }
}
