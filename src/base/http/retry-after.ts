/**
 * The three forms of an HTTP date (RFC 9110, section 5.6.7): `Sun, 06 Nov 1994 08:49:37 GMT`, `Sunday, 06-Nov-94 08:49:37 GMT`, and
 * `Sun Nov  6 08:49:37 1994`. `Date.parse()` reads all of them, and other text as well.
 */
const HTTP_DATE = /^(?:mon|tue|wed|thu|fri|sat|sun)[a-z]{0,6},? [a-z\d][\w: -]{10,30}\d(?: gmt| utc)?$/i

/** The longest `Retry-After` of an authorization server that is passed on. */
const MAX_PASSED_ON_MS = 3_600_000

/** The two headers of a response that determine how long to wait. */
export interface RetryAfterHeaders {
  readonly retryAfter: string | null | undefined
  /** The response's `Date`. A date in `Retry-After` is measured against it, since the two clocks may differ. */
  readonly date: string | null | undefined
}

/**
 * Returns how long `Retry-After` asks to wait, in milliseconds from 0 to `Number.MAX_SAFE_INTEGER`. Returns `undefined`
 * if the header is missing, or is neither a number of seconds nor an HTTP date.
 * @param nowMs the moment against which a date is measured if the response has no `Date`
 */
export function retryAfterMs(
  { retryAfter, date }: RetryAfterHeaders,
  nowMs: number = Date.now(),
): number | undefined {
  const value = retryAfter?.trim() ?? ''
  if (/^\d+(?:\.\d+)?$/.test(value)) return Math.min(Number(value) * 1000, Number.MAX_SAFE_INTEGER)
  const untilMs = readHttpDate(value)
  return untilMs === undefined ? undefined : Math.max(0, untilMs - (readHttpDate(date ?? '') ?? nowMs))
}

/**
 * Returns the `Retry-After` of a response as an option of an error, in seconds. Returns no member if the header is missing,
 * is not valid, does not ask to wait, or asks to wait for more than an hour.
 */
export function retryAfterOption(headers: Headers): { retryAfterSeconds?: number } {
  const ms = retryAfterMs({ retryAfter: headers.get('retry-after'), date: headers.get('date') })
  return ms !== undefined && ms > 0 && ms <= MAX_PASSED_ON_MS ? { retryAfterSeconds: ms / 1000 } : {}
}

/** Reads an HTTP date as GMT. Returns milliseconds since 1970, or `undefined` if `value` is not an HTTP date. */
function readHttpDate(value: string): number | undefined {
  const date = value.trim()
  const ms = HTTP_DATE.test(date) ? Date.parse(/(?:gmt|utc)$/i.test(date) ? date : `${date} GMT`) : Number.NaN
  return Number.isNaN(ms) ? undefined : ms
}
