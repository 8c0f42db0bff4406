/** The wait before the second attempt, the factor for each further one, and the longest wait. */
const FIRST_MS = 5_000
const FACTOR = 3
const LONGEST_MS = 3_600_000

/** The longest wait that an endpoint can ask for with `Retry-After`. */
const LONGEST_ASKED_MS = 3_600_000

/** The maximum number of attempts for one message. They take about three hours. */
export const MAX_ATTEMPTS = 10

/**
 * Returns the time to wait after a failed attempt, in milliseconds: longer after each one, with jitter so that the messages of an
 * outage do not arrive together, and at least the time that the endpoint asks for. Returns `undefined` after the last attempt.
 * @param attempts the number of attempts so far, from 1
 * @param askedMs the time of `Retry-After`
 */
export function retryDelayMs(
  attempts: number,
  askedMs: number | undefined,
  random: () => number = Math.random,
): number | undefined {
  if (attempts >= MAX_ATTEMPTS) return undefined
  const fullMs = Math.min(LONGEST_MS, FIRST_MS * FACTOR ** (attempts - 1))
  const jitteredMs = fullMs * (0.5 + random() / 2)
  return Math.round(Math.max(jitteredMs, Math.min(askedMs ?? 0, LONGEST_ASKED_MS)))
}
