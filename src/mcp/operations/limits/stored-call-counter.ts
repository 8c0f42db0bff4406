import { type RateLimiterLike, waitingMs, wholeSeconds } from '../../../oauth/rate-limiter.ts'
import type { CallLimit, LimitedCall } from '../../router/limits.ts'
import type { CallCounter } from './call-counts.ts'
import { type CallerKey, callerKey } from './caller-key.ts'
import { callsReached, type LimitReached } from './limit-reached.ts'

/** The maximum time that a store may take. After it, calls pass. */
const DEADLINE_MS = 500

/** The time in which a store is not asked after it has not responded in time. */
const PAUSE_MS = 1_000

/** The minimum time between two events about a store that fails. */
const REPORT_INTERVAL_MS = 10_000

/** The failures of a store. All limits that use the store share them. */
export class StoreHealth {
  /** Undefined while the store responds. */
  #pausedUntilMs: number | undefined
  #reportedAtMs = Number.NEGATIVE_INFINITY

  /**
   * Returns `true` if a call may ask the store. While the store hangs, one call per second asks it. The others pass: they
   * neither wait, nor accumulate in the queue of a client.
   */
  mayAsk(): boolean {
    if (this.#pausedUntilMs === undefined) return true
    const nowMs = performance.now()
    if (nowMs < this.#pausedUntilMs) return false
    this.#pausedUntilMs = nowMs + PAUSE_MS
    return true
  }

  /** Records whether the store has responded in time. */
  responded(isInTime: boolean): void {
    this.#pausedUntilMs = isInTime ? undefined : performance.now() + PAUSE_MS
  }

  /** Emits an event, unless there was one recently. */
  report({ exchange, timed }: LimitedCall, thrown: unknown): void {
    const nowMs = performance.now()
    if (nowMs - this.#reportedAtMs < REPORT_INTERVAL_MS) return
    this.#reportedAtMs = nowMs
    exchange.telemetry.limitUnavailable(timed, { thrown })
  }
}

/** A limit whose counts are in a store that nodes share. If the store fails, calls pass. */
export class StoredCallCounter implements CallCounter {
  readonly #limit: CallLimit
  readonly #tool: string | undefined
  readonly #limiter: RateLimiterLike
  readonly #health: StoreHealth

  /** @param tool the tool that the limit belongs to. Undefined for the limit of the adapter. */
  constructor(limit: CallLimit, tool: string | undefined, limiter: RateLimiterLike, health: StoreHealth) {
    this.#limit = limit
    this.#tool = tool
    this.#limiter = limiter
    this.#health = health
  }

  async count(call: LimitedCall): Promise<LimitReached | undefined> {
    if (!this.#health.mayAsk()) return undefined
    let timer: NodeJS.Timeout | undefined
    const late = new Promise<never>((_resolve, reject) => {
      timer = setTimeout(() => {
        this.#health.responded(false)
        reject(new DOMException(`The store did not respond within ${DEADLINE_MS} ms`, 'TimeoutError'))
      }, DEADLINE_MS)
    })
    try {
      const caller = callerKey(call.exchange, this.#limit.by)
      const reached = await Promise.race([this.#consume(caller), late])
      this.#health.responded(true)
      return reached
    } catch (thrown) {
      this.#health.report(call, thrown)
      return undefined
    } finally {
      clearTimeout(timer)
    }
  }

  /** @throws the error of the limiter if it cannot count */
  async #consume(caller: CallerKey): Promise<LimitReached | undefined> {
    try {
      await this.#limiter.consume(caller.key, 1)
      return undefined
    } catch (rejection) {
      const ms = waitingMs(rejection)
      if (ms === undefined) throw rejection
      const { consumedPoints } = rejection as { consumedPoints?: unknown }
      const actual = typeof consumedPoints === 'number' ? consumedPoints : this.#limit.max + 1
      return callsReached(this.#limit, this.#tool, caller, actual, wholeSeconds(ms))
    }
  }
}
