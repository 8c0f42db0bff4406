import type { ServerResponse } from 'node:http'

/** The responses whose CORS headers were set by `mcpCors`, even if it set none. */
const decided = new WeakSet<ServerResponse>()

export function decideCors(res: ServerResponse): void {
  decided.add(res)
}

/**
 * Lets exactly the allowed origins read a response. A middleware in front that lets every origin read it, such as `mcpCors()`,
 * is overruled; one that has decided about origins itself is not.
 * @param headers the CORS headers of a server with `allowedOrigins`
 */
export function restrictCors(res: ServerResponse, headers: Readonly<Record<string, string>>): void {
  if (res.getHeader('Access-Control-Allow-Origin') === '*') res.removeHeader('Access-Control-Allow-Origin')
  else if (isCorsDecided(res)) return
  addHeaders(res, headers)
}

/** Sets headers, and adds to those that are lists. */
export function addHeaders(res: ServerResponse, headers: Readonly<Record<string, string>>): void {
  for (const name of Object.keys(headers)) setOrAppend(res, name, headers[name] as string)
}

/** The headers with lists, to which values are appended. */
const LISTS: ReadonlySet<string> = new Set(['Vary', 'Access-Control-Expose-Headers'])

export function setOrAppend(res: ServerResponse, name: string, value: string): void {
  const before = LISTS.has(name) ? res.getHeader(name) : undefined
  const values = before === undefined ? value : new Set(`${before},${value}`.split(/, */))
  res.setHeader(name, typeof values === 'string' ? values : [...values].join(', '))
}

/**
 * Returns `true` if `mcpCors` or another middleware has handled CORS. Such middleware sets one of these headers even for an
 * origin that it denies.
 */
export function isCorsDecided(res: ServerResponse): boolean {
  if (decided.has(res) || res.hasHeader('Access-Control-Allow-Origin')) return true
  const vary = res.getHeader('Vary')
  return vary !== undefined && /\borigin\b/i.test(String(vary))
}
