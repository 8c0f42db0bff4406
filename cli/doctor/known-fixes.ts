/** The fixes for causes that servers state, each with their words. */
const FIXES: Readonly<Record<string, RegExp>> = {
  'allow the host of this URL, and the origins of its web pages, at the server (mcp-gatekit: allowedHosts, allowedOrigins), or let the proxy send the Host that the server expects':
    /\b(?:host|origin) (?:header )?(?:is )?not allowed\b|\binvalid (?:host|origin)\b/i,
  'let no middleware read the body before the MCP endpoint: move body parsers such as express.json() behind it, or pass the parsed body to the transport':
    /\bbody (?:was|has been|is) (?:already |not )?(?:read|valid JSON)\b|\bparse error\b|\bstream is not readable\b/i,
  'accept an initialize request without Mcp-Session-Id: pass the parsed body to the transport, and let proxies forward this header in both directions, to the same process':
    /\bmcp-session-id\b|\bsession id\b|\bnot initialized\b/i,
  'create a transport for each session, or for each request without sessions': /\balready initialized\b/i,
  'let every proxy forward the Accept header unchanged': /\bnot acceptable\b|\bmust accept\b/i,
}

/** Returns the fix for the words of a server in the text of a finding, or `undefined`. */
export function fixFor(seen: string): string | undefined {
  const words = seen.split(': "').slice(1).join()
  return Object.keys(FIXES).find((fix) => FIXES[fix]?.test(words))
}
