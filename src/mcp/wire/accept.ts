/** The media types of responses to a POST of a 2025 revision. */
export const SERVED_TYPES: readonly string[] = ['application/json', 'text/event-stream']

/**
 * Returns `true` if an `Accept` header permits a media type, as no header does (RFC 9110 §12.5.1). The most specific range decides.
 * @param type in lower case
 */
export function accepts(accept: string = '*/*', type: string): boolean {
  const ranges = [type, `${type.split('/', 1)[0]}/*`, '*/*']
  let rank = ranges.length
  let isAccepted = false
  for (const item of accept.toLowerCase().split(',')) {
    const [range = '', ...parameters] = item.split(';').map((part) => part.trim())
    const found = ranges.indexOf(range)
    if (found < 0 || found > rank) continue
    const isRefused = parameters.some((parameter) => /^q=0(?:\.0*)?$/.test(parameter))
    isAccepted = !isRefused || (found === rank && isAccepted)
    rank = found
  }
  return isAccepted
}
