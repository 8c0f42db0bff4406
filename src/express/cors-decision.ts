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

/** Sets headers, and adds to `Vary`. */
export function addHeaders(res: ServerResponse, headers: Readonly<Record<string, string>>): void {
  for (const name of Object.keys(headers)) {
    if (name === 'Vary') res.appendHeader(name, headers[name] as string)
    else res.setHeader(name, headers[name] as string)
  }
}

/**
 * Returns `true` if `mcpCors` or another middleware has handled CORS. Such middleware sets one of these headers even for an
 * origin that it denies.
 */
export function isCorsDecided(res: ServerResponse): boolean {
  return (
    decided.has(res) ||
    res.hasHeader('Access-Control-Allow-Origin') ||
    /\borigin\b/i.test(String(res.getHeader('Vary') ?? ''))
  )
}
