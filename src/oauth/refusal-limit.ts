import { isOptionsObject, optionChecksOf } from '../options/option-checks.ts'
import type { RateLimiterLike } from './rate-limiter.ts'
import { RefusalCounter } from './refusal-counter.ts'

const { checkKnownMembers, checkWholeNumber, invalidKind } = optionChecksOf('oauth')

/** So many refusals in so many seconds, counted in this process. */
export interface RefusalLimit {
  /** How many refusals an address may cause in that time. */
  readonly points: number
  /** Seconds of that time, from the first refusal. */
  readonly durationSeconds: number
}

/** A limiter that takes longer counts for nothing. */
const DEADLINE_MS = 500

/**
 * Counts refusals per client address. Whatever goes wrong in it, the refusal is answered as it would be without;
 * so is one whose sender has no known address.
 */
export class RefusalLimiter {
  readonly #limiter: RateLimiterLike

  private constructor(limiter: RateLimiterLike) {
    this.#limiter = limiter
  }

  /** @throws {KitMcpConfigError} naming the option. */
  static from(value: unknown): RefusalLimiter {
    if (typeof (value as { consume?: unknown } | null)?.consume === 'function') {
      return new RefusalLimiter(value as RateLimiterLike)
    }
    if (!isOptionsObject(value)) {
      throw invalidKind(
        'rateLimit',
        'must be { points, durationSeconds }, or a limiter of rate-limiter-flexible',
        value,
      )
    }
    checkKnownMembers('rateLimit', value, ['points', 'durationSeconds'])
    const given = value as Partial<RefusalLimit>
    const points = checkWholeNumber('rateLimit.points', given.points, 1)
    const duration = checkWholeNumber('rateLimit.durationSeconds', given.durationSeconds, 1)
    const counter = new RefusalCounter(points, duration)
    return new RefusalLimiter(counter)
  }

  /**
   * Counts one refusal.
   * @param key the client, as `clientKey` names it; without one, nothing is counted.
   * @returns seconds until the next refusal is answered as such, if this one is too many.
   */
  async count(key: string | undefined): Promise<number | undefined> {
    if (key === undefined) return undefined
    let timer: NodeJS.Timeout | undefined
    const deadline = new Promise<undefined>((resolve) => {
      timer = setTimeout(() => resolve(undefined), DEADLINE_MS)
    })
    try {
      return await Promise.race([this.#consume(key), deadline])
    } finally {
      clearTimeout(timer)
    }
  }

  async #consume(key: string): Promise<number | undefined> {
    try {
      await this.#limiter.consume(key, 1)
      return undefined
    } catch (reason) {
      return secondsLeft(reason)
    }
  }
}

/** A union of limiters rejects with an object of such answers. */
function secondsLeft(reason: unknown): number | undefined {
  if (typeof reason !== 'object' || reason === null || reason instanceof Error) return undefined
  const waits = [reason, ...Object.values(reason)]
    .map((one) => (one as { msBeforeNext?: unknown } | null)?.msBeforeNext)
    .filter((wait): wait is number => typeof wait === 'number' && Number.isFinite(wait))
  return waits.length === 0 ? undefined : Math.max(1, Math.ceil(Math.max(...waits) / 1000))
}
