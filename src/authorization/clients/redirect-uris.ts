/** A client that registers a redirect URI. */
export interface RedirectClient {
  /** The client id. */
  readonly clientId: string
  /** The name that the client gives itself. */
  readonly name: string | undefined
}

/** The longest redirect URI, in characters. */
const MAX_LENGTH = 2_000

/** Schemes that make a browser run or show what the URI contains. */
const FORBIDDEN_SCHEME =
  /^(?:about|blob|data|file|filesystem|ftp|javascript|mailto|vbscript|view-source|wss?):$/

/**
 * The beginnings of the redirect URIs with private schemes (RFC 8252 §7.1) that known MCP clients use: Cursor, Raycast, Warp, and
 * Cline in its editors. Other addresses of these schemes make the programs do something else, such as installing an extension.
 */
const CLIENT_URIS: readonly string[] = [
  'com.raycast:/oauth',
  'cursor://anysphere.cursor-mcp',
  'raycast://oauth',
  'warp://mcp',
  ...['cursor', 'vscode', 'vscode-insiders', 'windsurf'].map(
    (scheme) => `${scheme}://saoudrizwan.claude-dev/mcp-auth`,
  ),
]

const LOOPBACK_HOSTS: ReadonlySet<string> = new Set(['localhost', '127.0.0.1', '[::1]'])

/** Returns the reason why a redirect URI is never accepted, or `undefined`. */
export function redirectProblem(uri: string): string | undefined {
  if (uri.length > MAX_LENGTH) return `is longer than ${MAX_LENGTH} characters`
  if (!/^[\x21-\x7e]+$/.test(uri) || /["<>\\^`{|}]/.test(uri)) return 'has characters that a URI cannot have'
  const url = URL.canParse(uri) ? new URL(uri) : undefined
  if (url === undefined) return 'is not absolute'
  if (uri.includes('#')) return 'has a fragment'
  if (FORBIDDEN_SCHEME.test(url.protocol)) return 'has a forbidden scheme'
  if (url.username !== '' || url.password !== '') return 'has credentials'
  if (url.protocol === 'http:' || url.protocol === 'https:') {
    if (!/^https?:\/\//i.test(uri)) return 'is not absolute'
    if (!/^(?:[a-z0-9._-]+|\[[0-9a-f:]+\])$/.test(url.hostname))
      return 'has a host that is not a name or an address'
    if (url.protocol === 'http:' && !LOOPBACK_HOSTS.has(url.hostname))
      return 'uses http without a loopback host'
  } else if (!/^[a-z][a-z0-9+.-]*:\/[^?]/i.test(uri)) return 'has a private scheme without a path'
  return undefined
}

/** The default of `clients.redirectUris`, for URIs without a problem. */
export function isDefaultRedirectUri(uri: string): boolean {
  const { protocol, href } = new URL(uri)
  if (protocol === 'https:' || protocol === 'http:') return true
  return CLIENT_URIS.some((known) => href.startsWith(known) && /^(?:[/?]|$)/.test(href.slice(known.length)))
}

/** Returns `true` if any program on the user's machine may receive what is sent to a redirect URI. */
export function isLocalRedirect(uri: string): boolean {
  return new URL(uri).protocol !== 'https:'
}

/** Returns the host of a redirect URI, or the scheme of a private one, as people read it. */
export function redirectHost(uri: string): string {
  const { protocol, host } = new URL(uri)
  return protocol === 'https:' || protocol === 'http:' ? host : `${protocol}//${host}`
}

/** Returns the source of a redirect URI for the directive `form-action`, which browsers also apply to redirects. */
export function redirectSource(uri: string): string {
  const { protocol, origin, hostname } = new URL(uri)
  if (protocol !== 'https:' && protocol !== 'http:') return protocol
  // The Content Security Policy has no sources with an IPv6 address.
  return hostname.startsWith('[') ? protocol : origin
}
