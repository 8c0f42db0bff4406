import { VERSION } from '../../src/base/version.ts'

/** The newest revision with an `initialize` handshake. */
export const NEWEST_LEGACY = '2025-11-25'

/** The revisions with a handshake over Streamable HTTP, oldest first. */
export const LEGACY_REVISIONS: readonly string[] = ['2025-03-26', '2025-06-18', NEWEST_LEGACY]

/** The revision without a handshake. */
export const MODERN_REVISION = '2026-07-28'

const CLIENT = { name: 'mcp-gatekit-doctor', version: VERSION }

/** A message with the headers that its revision requires. */
export interface McpMessage {
  readonly headers: Readonly<Record<string, string>>
  readonly body: string
}

function messageOf(headers: McpMessage['headers'], message: object): McpMessage {
  const common = { 'content-type': 'application/json', accept: 'application/json, text/event-stream' }
  return { headers: { ...common, ...headers }, body: JSON.stringify({ jsonrpc: '2.0', ...message }) }
}

/** Returns the handshake, which needs no version header. */
export function initialize(revision: string): McpMessage {
  const params = { protocolVersion: revision, capabilities: {}, clientInfo: CLIENT }
  return messageOf({}, { id: 1, method: 'initialize', params })
}

/** Returns a request after the handshake. */
export function legacyMessage(
  revision: string,
  method: string,
  params: object,
  sessionId?: string,
): McpMessage {
  return messageOf(legacyHeaders(revision, sessionId), { id: 1, method, params })
}

/** Returns the notification that ends the handshake. */
export function initialized(revision: string, sessionId: string | undefined): McpMessage {
  return messageOf(legacyHeaders(revision, sessionId), { method: 'notifications/initialized' })
}

function legacyHeaders(revision: string, sessionId: string | undefined): McpMessage['headers'] {
  return { 'mcp-protocol-version': revision, ...(sessionId !== undefined && { 'mcp-session-id': sessionId }) }
}

/** Returns a request of 2026-07-28, with its metadata and the headers that repeat it. */
export function modernMessage(method: string, params: Readonly<Record<string, unknown>> = {}): McpMessage {
  const name = typeof params.name === 'string' && { 'mcp-name': headerText(params.name) }
  const envelope = {
    'io.modelcontextprotocol/protocolVersion': MODERN_REVISION,
    'io.modelcontextprotocol/clientCapabilities': {},
    'io.modelcontextprotocol/clientInfo': CLIENT,
  }
  return messageOf(
    { 'mcp-protocol-version': MODERN_REVISION, 'mcp-method': method, ...name },
    { id: 1, method, params: { ...params, _meta: envelope } },
  )
}

/** Encodes a header value that is not plain ASCII as `=?base64?…?=`. */
function headerText(text: string): string {
  if (/^[\x21-\x7E](?:[\x20-\x7E]*[\x21-\x7E])?$/.test(text) && !text.startsWith('=?')) return text
  return `=?base64?${Buffer.from(text, 'utf8').toString('base64')}?=`
}
