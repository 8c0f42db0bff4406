import type { McpRequest } from './mcp-request.ts'

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

/**
 * Returns the part of a message that the headers of revision 2026-07-28 describe: `Mcp-Method`, and `Mcp-Name`, which mirrors
 * a name or a URI.
 */
export function mirroredMessage(request: Pick<McpRequest, 'header'>): {
  readonly method: string | undefined
  readonly params: { readonly name: string | undefined; readonly uri: string | undefined }
} {
  const name = decodedHeader(request.header('mcp-name'))
  return { method: request.header('mcp-method'), params: { name, uri: name } }
}

/** Decodes a header value. A value that is not plain ASCII is sent as `=?base64?…?=`. */
export function decodedHeader(value: string | undefined): string | undefined {
  const encoded = /^=\?base64\?([A-Za-z0-9+/=]*)\?=$/.exec(value ?? '')?.[1]
  return encoded === undefined ? value : Buffer.from(encoded, 'base64').toString('utf8')
}
