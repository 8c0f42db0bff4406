/** The characters that a quoted string of a header cannot contain: control characters and those outside ASCII. */
const NOT_QUOTABLE = /[^\x20-\x7E]/

/** Returns `true` if `value` can be sent as a quoted string (RFC 9110 §5.6.4) that all clients read in the same way. */
export function isQuotable(value: string): boolean {
  return !NOT_QUOTABLE.test(value)
}

/** Returns `value` as a quoted string (RFC 9110 §5.6.4). */
export function quoted(value: string): string {
  return `"${value.replace(/["\\]/g, '\\$&')}"`
}
