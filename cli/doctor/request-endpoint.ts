import type { EndpointRequest } from '../clients/profiles.ts'
import type { Examination } from './examination.ts'
import type { HttpExchange } from './http-exchange.ts'
import { initialize, modernMessage, NEWEST_LEGACY } from './messages.ts'

/**
 * Sends a request of a client to the MCP endpoint, or to another spelling of its URL.
 * @throws {NoResponseError} or, after a 429, {InconclusiveError}
 */
export async function requestEndpoint(
  examination: Examination,
  { method, message, userAgent, accept, protocolVersion }: EndpointRequest,
  url: URL = examination.url,
): Promise<HttpExchange> {
  const discovers = message === 'server/discover'
  const sent = discovers ? modernMessage('server/discover') : initialize(NEWEST_LEGACY)
  const headers = {
    ...(method === 'POST' && sent.headers),
    ...(accept !== undefined && { accept }),
    ...(userAgent !== undefined && { 'user-agent': userAgent }),
    ...(protocolVersion !== undefined && { 'mcp-protocol-version': protocolVersion }),
  }
  const body = method === 'POST' ? sent.body : undefined
  return examination.keep(await examination.fetchPlain(method, url, { headers, body }))
}
