import type { EndpointRequest } from '../clients/profiles.ts'
import type { Examination } from './examination.ts'
import { InconclusiveError } from './finding.ts'
import { type HttpExchange, sendRequest } from './http-exchange.ts'
import { initialize, modernMessage, NEWEST_LEGACY } from './messages.ts'

/** A request with the headers of a client. `doctor` adds none, so that `User-Agent` can be missing. */
export interface ClientRequest {
  readonly method: string
  readonly url: URL
  readonly headers: Readonly<Record<string, string>>
  readonly body?: string | undefined
}

/** Sends a request with exactly the given headers, and no token. @throws {NoResponseError} */
export async function sendAsClient(
  examination: Examination,
  { method, url, headers, body }: ClientRequest,
): Promise<HttpExchange> {
  examination.requests++
  return await sendRequest({ method, url, headers, body, timeoutMs: examination.options.timeoutMs })
}

/**
 * Sends a request to the MCP endpoint, or to another spelling of its URL. Ends a session that it opens after the last check.
 * @throws {NoResponseError} or, after a 429, {InconclusiveError}
 */
export async function requestEndpoint(
  examination: Examination,
  { method, message, userAgent, accept, protocolVersion }: EndpointRequest,
  url: URL = examination.url,
): Promise<HttpExchange> {
  const { headers, body } =
    message === 'server/discover' ? modernMessage('server/discover') : initialize(NEWEST_LEGACY)
  const response = await sendAsClient(examination, {
    method,
    url,
    headers: {
      ...(method === 'POST' && headers),
      ...(accept !== undefined && { accept }),
      ...(userAgent !== undefined && { 'user-agent': userAgent }),
      ...(protocolVersion !== undefined && { 'mcp-protocol-version': protocolVersion }),
    },
    body: method === 'POST' ? body : undefined,
  })
  examination.exchanges.push(response)
  const sessionId = response.header('mcp-session-id')
  if (sessionId !== undefined)
    examination.closing.push(() => examination.send('DELETE', { 'mcp-session-id': sessionId }))
  if (response.status === 429)
    throw new InconclusiveError('the server responded with 429: see limit.rate, and run doctor again later')
  return response
}
