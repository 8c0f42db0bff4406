import { setLongTimeout } from '../../../timers.ts'

/**
 * Ends a stream when the token expires that opened it. Every stream that stays open uses this function.
 * @param expiresAt seconds since 1970. If undefined, the token does not expire.
 * @param end is called once, at that time.
 * @returns a function that stops the timer.
 */
export function endAtExpiry(expiresAt: number | undefined, end: () => void): () => void {
  if (expiresAt === undefined) return () => undefined
  const timer = setLongTimeout(end, expiresAt * 1000 - Date.now())
  return () => timer.clear()
}
