import type { ServerResponse } from 'node:http'

/** The responses whose CORS headers were set by `mcpCors`, even if it set none. */
const decided = new WeakSet<ServerResponse>()

export function decideCors(res: ServerResponse): void {
  decided.add(res)
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
