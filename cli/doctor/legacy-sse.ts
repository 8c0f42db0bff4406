import type { Examination } from './examination.ts'
import { type Finding, fail } from './finding.ts'

/** The transport that revision 2025-03-26 replaced. */
const NAME = 'the HTTP+SSE transport of revision 2024-11-05'

/** Returns `true` if a GET opens the event stream of that transport, whose first event is named `endpoint`. */
async function opensLegacyStream(examination: Examination, token: string | undefined): Promise<boolean> {
  // A server that does not respond does not open a stream.
  const response = await examination
    .send('GET', { headers: { accept: 'text/event-stream' }, token, readsFirstEvent: true })
    .catch(() => undefined)
  if (response?.mediaType !== 'text/event-stream') return false
  return response.body
    .slice(0, 4_096)
    .split('\n')
    .some((line) => line.startsWith('event:') && line.slice('event:'.length).trim() === 'endpoint')
}

/** Returns the finding for a server that supports only the old transport, or `undefined`. @param status that of a POST */
export async function legacySse(
  examination: Examination,
  status: number,
  token?: string,
): Promise<Finding | undefined> {
  if (status < 400 || status >= 500 || status === 429) return undefined
  if (!(await opensLegacyStream(examination, token))) return undefined
  return fail(
    `${status} for a POST; a GET opens ${NAME} (event: endpoint)`,
    `serve Streamable HTTP, which replaced it: many clients no longer support ${NAME} (SDK: StreamableHTTPServerTransport or createMcpHandler; mcp-gatekit: mcpServer). If the server has both, use the URL of Streamable HTTP, often /mcp instead of /sse`,
  )
}
