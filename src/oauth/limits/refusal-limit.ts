import { isOptionsObject, optionChecksOf } from '../../base/options/option-checks.ts'
import type { RulesFor } from '../../base/options/option-rules.ts'
import { LimiterGuard, type RateLimiterLike, waitingMs, wholeSeconds } from './rate-limiter.ts'
import { WindowCounter } from './window-counter.ts'

const { invalidKind, readMembers, wholeNumber } = optionChecksOf('oauth')

/** A limit for the refusals of a client address, counted in this process. */
export interface RefusalLimit {
  /** The number of refusals that an address may cause in `durationSeconds`. */
  readonly points: number
  /** The length of the period in seconds. It begins with the first refusal. */
  readonly durationSeconds: number
}

const RULES = { points: wholeNumber(1), durationSeconds: wholeNumber(1) } satisfies RulesFor<RefusalLimit>

/**
 * The maximum number of clients that are counted. Beyond it, the entry that was not used for the longest time is
 * dropped.
 */
const MAX_CLIENTS = 100_000

/** Counts refusals in this process. Its memory is bounded, because an attacker can use any number of addresses. */
function refusalCounter({ points, durationSeconds }: RefusalLimit): RateLimiterLike {
  const clients = new WindowCounter(MAX_CLIENTS)
  return {
    async consume(key) {
      const counted = clients.add(key, durationSeconds * 1000)
      if (counted.points > points) throw { msBeforeNext: counted.leftMs }
    },
  }
}

/**
 * Counts refusals per client address. If the limiter fails or takes too long, or the address is not known, the response is the same as
 * without a limit.
 * @throws {KitMcpConfigError} if the option `rateLimit` is invalid.
 */
export function refusalLimiter(value: unknown) {
  const guard = new LimiterGuard()
  const limiter = limiterFrom(value)
  return {
    /**
     * Counts one refusal.
     * @param key the key of the client, by `clientKey`.
     * @returns the seconds until the limit resets, if it is exceeded
     */
    async count(key: string): Promise<number | undefined> {
      try {
        const ms = waitingMs(await guard.consume(limiter, key))
        return ms === undefined ? undefined : wholeSeconds(ms)
      } catch {
        return undefined
      }
    },
  }
}

function limiterFrom(value: unknown): RateLimiterLike {
  if (typeof (value as { consume?: unknown } | null)?.consume === 'function') return value as RateLimiterLike
  const expected = 'must be { points, durationSeconds } or a limiter of rate-limiter-flexible'
  if (!isOptionsObject(value)) throw invalidKind('rateLimit', expected, value)
  return refusalCounter(readMembers('rateLimit', value, RULES))
}
