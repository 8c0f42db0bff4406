import { isLoopbackHostname, optionChecksOf } from '../../options/option-checks.ts'
import type { McpRequest } from './mcp-request.ts'

const { invalidKind, invalidOption } = optionChecksOf('createMcpAdapter')

/** What the checks look at; a member is read only when it decides. */
export type OriginRequest = Pick<McpRequest, 'header' | 'host' | 'origin' | 'listensOnLoopback'>

export interface OriginPolicyOptions {
  readonly allowedOrigins: '*' | ReadonlySet<string> | undefined
  readonly allowedHosts: ReadonlySet<string> | undefined
  readonly hasOAuth: boolean
}

/**
 * The guard against DNS rebinding that the MCP specification asks for: whether the request's `Origin`
 * and `Host` may be served. A request without `Origin` passes. Without `allowedOrigins`, a loopback
 * host is for loopback origins only; any other host is for every origin when OAuth is on, as a bearer
 * token is never sent by itself, and for the server's own origin when it is off.
 */
export function permitsOrigin(request: OriginRequest, options: OriginPolicyOptions): boolean {
  if (!permitsHost(request, options)) return false
  const originHeader = request.header('origin')
  if (originHeader === undefined) return true
  const origin = parseOrigin(originHeader)
  if (origin === undefined) return false
  if (options.allowedOrigins !== undefined) {
    return options.allowedOrigins === '*' || options.allowedOrigins.has(origin.origin)
  }
  if (isLoopbackHostname(hostnameOf(request.host) ?? '')) return isLoopbackHostname(origin.hostname)
  return options.hasOAuth || origin.origin === request.origin
}

function permitsHost(
  { host, listensOnLoopback }: OriginRequest,
  { allowedHosts }: OriginPolicyOptions,
): boolean {
  if (allowedHosts === undefined && !listensOnLoopback) return true
  const hostname = hostnameOf(host)
  if (hostname === undefined) return false
  return allowedHosts === undefined ? isLoopbackHostname(hostname) : allowedHosts.has(hostname)
}

/** A host name of DNS has at most 253 characters, and a port at most 5. The URL parser takes quadratic time for longer ones. */
const MAX_HOST_LENGTH = 259

/** Returns the host name of a `Host` header without its port, with IPv6 addresses in brackets. */
function hostnameOf(host: string | undefined): string | undefined {
  if (host === undefined || host.length > MAX_HOST_LENGTH) return undefined
  // The usual hosts do not need the URL parser.
  if (/^(?:localhost|127\.0\.0\.1)(?::\d{1,5})?$/.test(host)) return host.split(':', 1)[0]
  return URL.canParse(`http://${host}`) ? new URL(`http://${host}`).hostname : undefined
}

/** Parses an http(s) origin in the form that browsers send (RFC 6454 §7). Returns undefined for `null` and everything else. */
function parseOrigin(value: string): URL | undefined {
  if (value.length > 'https://'.length + MAX_HOST_LENGTH) return undefined
  if (!/^https?:\/\/[^/?#@\s]+$/i.test(value) || !URL.canParse(value)) return undefined
  return new URL(value)
}

/** `allowedOrigins`, checked: `'*'`, or a list of origins. */
export function checkAllowedOrigins(value: unknown): '*' | ReadonlySet<string> {
  if (value === '*') return value
  if (!Array.isArray(value)) {
    throw invalidKind(
      'allowedOrigins',
      `must be '*' or an array of origins such as ['https://app.example.com']`,
      value,
    )
  }
  return new Set(
    value.map((entry) => {
      const origin = typeof entry === 'string' ? parseOrigin(entry) : undefined
      if (origin === undefined) {
        throw invalidOption(
          'allowedOrigins',
          `must hold origins only: scheme, host and port, such as 'https://app.example.com'`,
          entry,
        )
      }
      return origin.origin
    }),
  )
}

/** `allowedHosts`, checked: host names without a port. */
export function checkAllowedHosts(value: unknown): ReadonlySet<string> {
  const expected = `must be an array of host names without a port, such as ['mcp.example.com']`
  if (!Array.isArray(value) || value.length === 0) throw invalidOption('allowedHosts', expected, value)
  return new Set(
    value.map((entry) => {
      if (typeof entry !== 'string' || !URL.canParse(`http://${entry}`))
        throw invalidOption('allowedHosts', expected, entry)
      const url = new URL(`http://${entry}`)
      if (url.host !== entry.toLowerCase() || url.port !== '')
        throw invalidOption('allowedHosts', expected, entry)
      return url.hostname
    }),
  )
}
