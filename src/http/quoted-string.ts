/** What cannot be carried in a quoted string of a header: control characters and everything outside ASCII. */
const UNCARRIABLE = /[^\x20-\x7E]/

/** Whether `value` can be sent as a quoted string (RFC 9110 §5.6.4) that every client reads alike. */
export function isQuotable(value: string): boolean {
  return !UNCARRIABLE.test(value)
}

/** `value` as a quoted string of RFC 9110 §5.6.4. */
export function quoted(value: string): string {
  return `"${value.replace(/["\\]/g, '\\$&')}"`
}
