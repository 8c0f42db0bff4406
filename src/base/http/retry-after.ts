const DAY = '(?:mon|tue|wed|thu|fri|sat|sun)'
const LONG_DAY = '(?:mon|tues|wednes|thurs|fri|satur|sun)day'
const MONTH = '(?<month>jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)'
// A minute may have a leap second.
const TIME = '(?<minute>\\d{2}:\\d{2}):(?<second>[0-5]\\d|60)'

/** The three forms of an HTTP date (RFC 9110, section 5.6.7). */
const HTTP_DATES = [
  // IMF-fixdate: Sun, 06 Nov 1994 08:49:37 GMT
  `${DAY}, (?<day>\\d{2}) ${MONTH} (?<year>\\d{4}) ${TIME} (?:gmt|utc)`,
  // RFC 850: Sunday, 06-Nov-94 08:49:37 GMT
  `${LONG_DAY}, (?<day>\\d{2})-${MONTH}-(?<year>\\d{2}) ${TIME} (?:gmt|utc)`,
  // asctime: Sun Nov  6 08:49:37 1994
  `${DAY} ${MONTH} (?<day>[ \\d]\\d) ${TIME} (?<year>\\d{4})`,
].map((form) => new RegExp(`^${form}$`, 'i'))

/** The maximum length of a header value. */
const MAX_LENGTH = 64

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
  const untilMs = readHttpDate(value, nowMs)
  return untilMs === undefined ? undefined : Math.max(0, untilMs - (readHttpDate(date ?? '', nowMs) ?? nowMs))
}

/**
 * Returns the `Retry-After` of a response as an option of an error, in seconds. Returns no member if the header is missing,
 * is not valid, does not ask to wait, or asks to wait for more than an hour.
 */
export function retryAfterOption(headers: Headers): { retryAfterSeconds?: number } {
  const ms = retryAfterMs({ retryAfter: headers.get('retry-after'), date: headers.get('date') })
  return ms !== undefined && ms > 0 && ms <= MAX_PASSED_ON_MS ? { retryAfterSeconds: ms / 1000 } : {}
}

/**
 * Reads an HTTP date of any of the three forms as GMT. Returns milliseconds since 1970, or `undefined` if `value` is not
 * an HTTP date.
 * @param nowMs decides the century of a year of two digits
 */
export function readHttpDate(value: string, nowMs: number = Date.now()): number | undefined {
  const trimmed = value.length > MAX_LENGTH ? '' : value.trim()
  for (const form of HTTP_DATES) {
    const { day, month, year = '', minute, second } = form.exec(trimmed)?.groups ?? {}
    const fullYear = year.length === 2 ? yearOf(Number(year), nowMs) : year
    const ms = Date.parse(`${day} ${month} ${fullYear} ${minute}:00 GMT`)
    if (new Date(ms).getUTCDate() === Number(day)) return ms + Number(second) * 1000
  }
  return undefined
}

/** Returns the year of two digits. One that would be more than 50 years ahead belongs to the past (RFC 9110, section 5.6.7). */
function yearOf(digits: number, nowMs: number): number {
  const latest = new Date(nowMs).getUTCFullYear() + 50
  return latest - ((latest - digits) % 100)
}
