import { types } from '../../base/built-in-kinds.ts'

const RFC_3339 = /^(\d{4})-(\d\d)-(\d\d)[Tt](\d\d):(\d\d):(\d\d)(?:\.(\d+))?(?:[Zz]|([+-])(\d\d):(\d\d))$/

let cachedMs = Number.NaN
let cachedTime = ''

/** Returns the time `ms` milliseconds after 1970 in ISO 8601, UTC, with milliseconds. The latest result is cached. */
export function isoTime(ms: number): string {
  if (ms !== cachedMs) {
    cachedMs = ms
    cachedTime = new Date(ms).toISOString()
  }
  return cachedTime
}

/**
 * Reads a `Date`, or an RFC 3339 date-time: date, time with seconds, and zone. Digits beyond the millisecond are ignored.
 * @returns the same moment in ISO 8601, UTC, with milliseconds, or `undefined` if it is invalid or outside the years 0 to
 * 9999.
 */
export function readTime(time: unknown): string | undefined {
  const text = types.isDate(time) ? dateText(time) : time
  const parts = typeof text === 'string' ? RFC_3339.exec(text) : null
  if (parts === null) return undefined
  const [year, month, day, hour, minute, second] = parts.slice(1, 7).map(Number) as [
    number,
    number,
    number,
    number,
    number,
    number,
  ]
  const offsetHours = Number(parts[9] ?? 0)
  const offsetMinutes = Number(parts[10] ?? 0)
  if (hour > 23 || minute > 59 || second > 60 || offsetHours > 23 || offsetMinutes > 59) return undefined
  const date = new Date(0)
  date.setUTCFullYear(year, month - 1, day)
  if (date.getUTCMonth() !== month - 1 || date.getUTCDate() !== day) return undefined
  const offset = (parts[8] === '-' ? -1 : 1) * (offsetHours * 60 + offsetMinutes)
  // A leap second (60) becomes the first second of the next minute.
  date.setUTCHours(hour, minute - offset, second, Number((parts[7] ?? '').slice(0, 3).padEnd(3, '0')))
  const iso = date.toISOString()
  return iso.length === 24 ? iso : undefined
}

/** Returns a date in ISO 8601, or `Invalid Date`. */
export function dateText(date: Date): string {
  return Number.isNaN(Date.prototype.getTime.call(date))
    ? 'Invalid Date'
    : Date.prototype.toISOString.call(date)
}
