import { LimiterGuard, type RateLimiterLike, waitingMs, wholeSeconds } from '../../../oauth/rate-limiter.ts'
import type { CallLimit, LimitedCall } from '../../router/limits.ts'
import type { CallCounter } from './call-counts.ts'
import { callerKey } from './caller-key.ts'
import { callsReached, type LimitReached } from './limit-reached.ts'

/** The minimum time between two events about a store that fails. */
const REPORT_INTERVAL_MS = 10_000

/** A store of limits, which all limits that use it share. */
export class LimitStoreState {
  readonly guard: LimiterGuard = new LimiterGuard()
  #reportedAtMs = Number.NEGATIVE_INFINITY

  /** Emits an event, unless there was one recently. */
  report({ exchange, timed }: LimitedCall, thrown: unknown): void {
    const nowMs = performance.now()
    if (nowMs - this.#reportedAtMs < REPORT_INTERVAL_MS) return
    this.#reportedAtMs = nowMs
    exchange.telemetry.record('limit.unavailable', timed, { failure: { thrown } })
  }
}

/** A limit whose counts are in a store that nodes share. If the store fails or takes too long, calls pass. */
export class StoredCallCounter implements CallCounter {
  readonly #limit: CallLimit
  readonly #tool: string | undefined
  readonly #limiter: RateLimiterLike
  readonly #store: LimitStoreState

  /** @param tool the tool that the limit belongs to. Undefined for the limit of the adapter. */
  constructor(limit: CallLimit, tool: string | undefined, limiter: RateLimiterLike, store: LimitStoreState) {
    this.#limit = limit
    this.#tool = tool
    this.#limiter = limiter
    this.#store = store
  }

  async count(call: LimitedCall): Promise<LimitReached | undefined> {
    try {
      const caller = callerKey(call.exchange, this.#limit.by)
      const rejection = await this.#store.guard.consume(this.#limiter, caller.key)
      const ms = waitingMs(rejection)
      if (ms === undefined) return undefined
      const { consumedPoints } = rejection as { consumedPoints?: unknown }
      const actual = typeof consumedPoints === 'number' ? consumedPoints : this.#limit.max + 1
      return callsReached(this.#limit, this.#tool, caller, actual, wholeSeconds(ms))
    } catch (thrown) {
      this.#store.report(call, thrown)
      return undefined
    }
  }
}
