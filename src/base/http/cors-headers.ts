/** The methods of an MCP route (Streamable HTTP). */
export const CORS_METHODS: readonly string[] = ['GET', 'POST', 'DELETE', 'OPTIONS']

/** The request headers of MCP clients. They are listed because `*` does not include `Authorization`. */
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

/** The response headers that web pages may read. */
export const CORS_EXPOSED_HEADERS: readonly string[] = [
  'WWW-Authenticate',
  'Mcp-Session-Id',
  'MCP-Protocol-Version',
  'Retry-After',
]

/**
 * `Mcp-Param-*` headers depend on the tools, so a preflight response allows each one that is requested. A name has at most 1,024
 * characters.
 */
const MCP_PARAM = /^mcp-param-[!#$%&'*+\-.^_`|~0-9a-z]{1,1014}$/i

/** The maximum number of `Mcp-Param-*` headers that a preflight response allows. */
const MAX_PARAMS = 100

/** Returns the request headers to allow, for the `Access-Control-Request-Headers` of a preflight. */
export function corsRequestHeaders(requested: string | undefined): readonly string[] {
  if (requested === undefined || !/mcp-param-/i.test(requested)) return REQUEST_HEADERS
  const parameters = new Map<string, string>()
  for (const part of requested.split(',')) {
    const name = part.trim()
    if (MCP_PARAM.test(name)) parameters.set(name.toLowerCase(), name)
    if (parameters.size === MAX_PARAMS) break
  }
  return [...REQUEST_HEADERS, ...parameters.values()]
}

/** The headers of every response of an MCP route that any origin may read. */
export const CORS_RESPONSE_HEADERS: Readonly<Record<string, string>> = {
  'Access-Control-Allow-Origin': '*',
  'Access-Control-Expose-Headers': CORS_EXPOSED_HEADERS.join(','),
}

/**
 * Returns the headers of a preflight response, for the `Access-Control-Request-Headers` of the preflight.
 * @param everyResponse the CORS headers of every response, unless they are set elsewhere
 */
export function preflightHeaders(
  requested: string | undefined,
  everyResponse: Readonly<Record<string, string>> = CORS_RESPONSE_HEADERS,
): Record<string, string> {
  return {
    ...everyResponse,
    'Access-Control-Allow-Methods': CORS_METHODS.join(','),
    'Access-Control-Allow-Headers': corsRequestHeaders(requested).join(','),
    Vary: 'Access-Control-Request-Headers',
  }
}
