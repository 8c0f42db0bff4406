/** The maximum depth of causes that are followed, and the maximum number of codes. */
const MAX_ERRORS = 16
const MAX_CODES = 3

type ErrorMembers = Partial<Record<'code' | 'name' | 'message' | 'cause' | 'errors', unknown>>

const CODE = /^[A-Z][A-Z\d_]{1,63}$/

/**
 * Returns the reason why a target could not be reached, as in ` (ECONNREFUSED)`, or an empty string if it is unknown. Reads
 * causes and aggregated errors. Uses only codes, because messages may contain an address.
 */
export function describeNetworkFailure(error: unknown): string {
  const named = networkFailureCodes(error)
  return named.length === 0 ? '' : ` (${named.slice(0, MAX_CODES).join(', ')})`
}

/** Returns the codes of a network failure, such as `ECONNREFUSED`, in the order in which they were found. */
export function networkFailureCodes(error: unknown): readonly string[] {
  const codes = new Set<string>()
  const errors: unknown[] = [error]
  for (let index = 0; index < errors.length && index < MAX_ERRORS; index++) {
    const { code, name, message, cause, errors: several } = Object(errors[index] ?? {}) as ErrorMembers
    if (typeof code === 'string' && CODE.test(code)) codes.add(code)
    // The Fetch Standard has a list of such ports.
    if (message === 'bad port') codes.add('fetch has refused the port')
    // It has no code in Node.js 24.
    if (name === 'HTTPParserError' && code === undefined) codes.add('the response is not HTTP')
    if (cause !== undefined) errors.push(cause)
    if (Array.isArray(several)) errors.push(...several.slice(0, MAX_ERRORS))
  }
  // The code of an error that wraps other errors is less specific than theirs.
  return [...codes].filter((code, index) => codes.size === 1 || index > 0 || !code.startsWith('UND_ERR'))
}
