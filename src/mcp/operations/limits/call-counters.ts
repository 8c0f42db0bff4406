import {
  LimiterGuard,
  type RateLimiterLike,
  waitingMs,
  wholeSeconds,
} from '../../../oauth/limits/rate-limiter.ts'
import { WindowCounter } from '../../../oauth/limits/window-counter.ts'
import type { CallLimit, ConcurrencyLimit, CountedCall } from '../../router/limits.ts'
import { OwnerSlots } from '../../wire/owner-slots.ts'
import { type CallerKey, callerKey } from './caller-key.ts'
import { LimitReached } from './limit-reached.ts'

/** The maximum number of counts of each kind in memory: those of users and clients, and those of addresses. */
const MAX_COUNTS = 100_000

/** The minimum time between two events about a store that fails. */
const REPORT_INTERVAL_MS = 10_000

/**
 * Begins a call within one limit. Returns a function that ends it, if the limit is about calls in progress. It may be called once.
 * @throws the limit that the call exceeds
 */
export type BeginCall = (call: CountedCall) => (() => void) | undefined | Promise<undefined>

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

/** Counts calls in memory. @param tool the tool that the limit belongs to. Undefined for the limit of the adapter. */
export function countedInMemory(limit: CallLimit, tool: string | undefined, counts: CallCounts): BeginCall {
  return ({ exchange }) => {
    const caller = callerKey(exchange, limit.by)
    const { points: actual, leftMs } = counts.add(tool ?? '', caller, limit.perSeconds * 1000)
    if (actual <= limit.max) return undefined
    const retryAfterSeconds = wholeSeconds(leftMs)
    throw new LimitReached('calls', { ...limit, ...caller, tool, actual, retryAfterSeconds })
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

/** Counts calls in a store that nodes share. If the store fails or takes too long, calls pass. */
export function countedInStore(
  limit: CallLimit,
  tool: string | undefined,
  limiter: RateLimiterLike,
  store: LimitStoreState,
): BeginCall {
  return async (call) => {
    const caller = callerKey(call.exchange, limit.by)
    const rejection = await store.guard.consume(limiter, caller.key).catch((thrown: unknown) => {
      store.report(call, thrown)
    })
    const ms = waitingMs(rejection)
    if (ms === undefined) return undefined
    const { consumedPoints } = rejection as { consumedPoints?: unknown }
    const actual = typeof consumedPoints === 'number' ? consumedPoints : limit.max + 1
    const retryAfterSeconds = wholeSeconds(ms)
    throw new LimitReached('calls', { ...limit, ...caller, tool, actual, retryAfterSeconds })
  }
}

/** Counts the calls in progress of each caller. @param tool as for `countedInMemory` */
export function inProgress(limit: ConcurrencyLimit, tool: string | undefined): BeginCall {
  const slots = new OwnerSlots({ max: Number.POSITIVE_INFINITY, maxPerOwner: limit.max })
  return ({ exchange }) => {
    const { key, scope } = callerKey(exchange, limit.by)
    if (slots.exhausted(key) === undefined) return slots.take(key)
    // The end of the calls in progress cannot be predicted.
    const reach = { ...limit, tool, scope, actual: limit.max + 1, retryAfterSeconds: 1 }
    throw new LimitReached('concurrency', reach)
  }
}
