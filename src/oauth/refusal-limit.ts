import { isOptionsObject, optionChecksOf } from '../options/option-checks.ts'
import { LimiterGuard, type RateLimiterLike, waitingMs, wholeSeconds } from './rate-limiter.ts'
import { RefusalCounter } from './refusal-counter.ts'

const { checkKnownMembers, checkWholeNumber, invalidKind } = optionChecksOf('oauth')

/** A limit for the refusals of a client address, counted in this process. */
export interface RefusalLimit {
  /** The number of refusals that an address may cause in `durationSeconds`. */
  readonly points: number
  /** The length of the period in seconds. It begins with the first refusal. */
  readonly durationSeconds: number
}

/**
 * Counts refusals per client address. If the limiter fails or takes too long, or the address is not known, the response is the same as
 * without a limit.
 */
export class RefusalLimiter {
  readonly #limiter: RateLimiterLike
  readonly #guard = new LimiterGuard()

  private constructor(limiter: RateLimiterLike) {
    this.#limiter = limiter
  }

  /** @throws {KitMcpConfigError} if the option `rateLimit` is invalid. */
  static from(value: unknown): RefusalLimiter {
    if (typeof (value as { consume?: unknown } | null)?.consume === 'function') {
      return new RefusalLimiter(value as RateLimiterLike)
    }
    if (!isOptionsObject(value)) {
      throw invalidKind(
        'rateLimit',
        'must be { points, durationSeconds } or a limiter of rate-limiter-flexible',
        value,
      )
    }
    checkKnownMembers('rateLimit', value, ['points', 'durationSeconds'])
    const limit = value as Partial<RefusalLimit>
    const points = checkWholeNumber('rateLimit.points', limit.points, 1)
    const durationSeconds = checkWholeNumber('rateLimit.durationSeconds', limit.durationSeconds, 1)
    const counter = new RefusalCounter(points, durationSeconds)
    return new RefusalLimiter(counter)
  }

  /**
   * Counts one refusal.
   * @param key the key of the client, by `clientKey`.
   * @returns the seconds until the limit resets, if it is exceeded
   */
  async count(key: string): Promise<number | undefined> {
    try {
      const ms = waitingMs(await this.#guard.consume(this.#limiter, key))
      return ms === undefined ? undefined : wholeSeconds(ms)
    } catch {
      return undefined
    }
  }
}
