import type { ServerResponse } from 'node:http'

/** Responses whose CORS headers `mcpCors` has decided about, be it that there are none. */
const decided = new WeakSet<ServerResponse>()

export function decideCors(res: ServerResponse): void {
  decided.add(res)
}

/** Whether something in front has decided: `mcpCors`, or another middleware, which leaves one of these headers also for an origin that it refuses. */
export function isCorsDecided(res: ServerResponse): boolean {
  return (
    decided.has(res) ||
    res.hasHeader('Access-Control-Allow-Origin') ||
    /\borigin\b/i.test(String(res.getHeader('Vary') ?? ''))
  )
}
