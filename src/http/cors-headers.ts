/** Methods of an MCP route (Streamable HTTP). */
export const CORS_METHODS: readonly string[] = ['GET', 'POST', 'DELETE', 'OPTIONS']

/** Request headers of MCP clients, named one by one: `*` does not cover `Authorization`. */
const REQUEST_HEADERS = [
  'Authorization',
  'Content-Type',
  'Accept',
  'MCP-Protocol-Version',
  'Mcp-Session-Id',
  'Mcp-Method',
  'Mcp-Name',
  'Last-Event-ID',
  'DPoP',
  'traceparent',
  'tracestate',
  'baggage',
]

/** Response headers that a page may read. */
export const CORS_EXPOSED_HEADERS: readonly string[] = [
  'WWW-Authenticate',
  'Mcp-Session-Id',
  'MCP-Protocol-Version',
  'Retry-After',
]

/** Tools name `Mcp-Param-*` headers, so a preflight allows each that it asks for. */
const MCP_PARAM = /^mcp-param-[!#$%&'*+\-.^_`|~0-9a-z]+$/i

/** The most `Mcp-Param-*` headers that one preflight allows. */
const MAX_PARAMS = 100

/** The request headers to allow, given what the preflight asks for. */
export function corsRequestHeaders(asked: string | undefined): readonly string[] {
  if (asked === undefined || !/mcp-param-/i.test(asked)) return REQUEST_HEADERS
  const parameters = new Map<string, string>()
  for (const part of asked.split(',')) {
    const name = part.trim()
    if (MCP_PARAM.test(name)) parameters.set(name.toLowerCase(), name)
    if (parameters.size === MAX_PARAMS) break
  }
  return [...REQUEST_HEADERS, ...parameters.values()]
}

/** What every response of an MCP route carries when any origin may read it. */
export const CORS_RESPONSE_HEADERS: Readonly<Record<string, string>> = {
  'Access-Control-Allow-Origin': '*',
  'Access-Control-Expose-Headers': CORS_EXPOSED_HEADERS.join(','),
}

/** The headers of the answer to a preflight that asks for these request headers. */
export function preflightHeaders(asked: string | undefined, allowsAnyOrigin = true): Record<string, string> {
  return {
    ...(allowsAnyOrigin && CORS_RESPONSE_HEADERS),
    'Access-Control-Allow-Methods': CORS_METHODS.join(','),
    'Access-Control-Allow-Headers': corsRequestHeaders(asked).join(','),
    Vary: 'Access-Control-Request-Headers',
  }
}
