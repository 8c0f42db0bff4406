import { CORS_RESPONSE_HEADERS } from '../../base/http/cors-headers.ts'
import type { PlainResponse } from '../../base/http/plain-response.ts'
import { isLoopbackHostname, type OptionChecks } from '../../base/options/option-checks.ts'
import { type OptionRule, optional } from '../../base/options/option-rules.ts'
import type { ForbiddenSender } from '../../oauth/decision.ts'
import { jsonRpcError } from './json-rpc.ts'
import type { McpRequest } from './mcp-request.ts'

/** The part of a request that the checks read. Each member is read only if it matters. */
export type OriginRequest = Pick<McpRequest, 'header' | 'host' | 'origin' | 'listensOnLoopback'>

export interface OriginPolicyOptions {
  readonly allowedOrigins: '*' | ReadonlySet<string> | undefined
  readonly allowedHosts: ReadonlySet<string> | undefined
  readonly hasOAuth: boolean
}

/**
 * Returns the header for which a request is refused: checks `Origin` and `Host` against DNS rebinding, as the MCP specification requires. A request without
 * `Origin` is permitted. Without `allowedOrigins`, a loopback host permits only loopback origins. Any other host permits every
 * origin if OAuth is enabled, because browsers never send a bearer token by themselves, and otherwise only its own origin.
 */
export function forbiddenHeader(
  request: OriginRequest,
  options: OriginPolicyOptions,
): ForbiddenSender['reason'] | undefined {
  if (!permitsHost(request, options)) return 'host'
  return permitsOrigin(request, options) ? undefined : 'origin'
}

function permitsOrigin(request: OriginRequest, options: OriginPolicyOptions): boolean {
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

/** The response to a request whose `Origin` or `Host` is not allowed. */
export const FORBIDDEN_SENDER: PlainResponse = jsonRpcError(
  403,
  -32_000,
  'Forbidden: this Origin or Host is not allowed',
  { id: undefined },
)

/**
 * Returns the CORS headers of every response: any origin may read it or, with a list of `allowedOrigins`, exactly the origin
 * that has sent the request, if it is in the list.
 */
export function corsHeadersFor(
  request: Pick<OriginRequest, 'header'>,
  { allowedOrigins }: Pick<OriginPolicyOptions, 'allowedOrigins'>,
): Readonly<Record<string, string>> {
  if (allowedOrigins === undefined || allowedOrigins === '*') return CORS_RESPONSE_HEADERS
  const origin = parseOrigin(request.header('origin') ?? '')?.origin
  return origin === undefined || !allowedOrigins.has(origin)
    ? { Vary: 'Origin' }
    : { ...CORS_RESPONSE_HEADERS, 'Access-Control-Allow-Origin': origin, Vary: 'Origin' }
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

/**
 * The maximum length of a host: a DNS name has at most 253 characters, and a port at most 5. The URL parser takes quadratic time
 * for longer hosts.
 */
const MAX_HOST_LENGTH = 259

/** Returns the host name of a `Host` header without its port, with IPv6 addresses in brackets. */
function hostnameOf(host: string | undefined): string | undefined {
  if (host === undefined || host.length > MAX_HOST_LENGTH) return undefined
  return URL.canParse(`http://${host}`) ? new URL(`http://${host}`).hostname : undefined
}

/** Parses an http(s) origin in the form that browsers send (RFC 6454 §7). Returns undefined for `null` and everything else. */
function parseOrigin(value: string): URL | undefined {
  if (value.length > 'https://'.length + MAX_HOST_LENGTH) return undefined
  if (!/^https?:\/\/[^/?#@\s]+$/i.test(value) || !URL.canParse(value)) return undefined
  return new URL(value)
}

/** Returns the rules of the options `allowedOrigins` and `allowedHosts`. */
export function originRules(checks: OptionChecks): {
  readonly allowedOrigins: OptionRule<OriginPolicyOptions['allowedOrigins']>
  readonly allowedHosts: OptionRule<OriginPolicyOptions['allowedHosts']>
} {
  return {
    allowedOrigins: optional((_option, value) => checkAllowedOrigins(checks, value)),
    allowedHosts: optional((_option, value) => checkAllowedHosts(checks, value)),
  }
}

/** Checks the option `allowedOrigins`. */
export function checkAllowedOrigins(
  { invalidOption, items }: OptionChecks,
  value: unknown,
): '*' | ReadonlySet<string> {
  if (value === '*') return value
  const expected = `must contain only origins (scheme, host, and port) such as 'https://app.example.com'`
  const origins = items(
    `must be '*' or an array of origins such as ['https://app.example.com']`,
    (option, entry) => {
      const origin = typeof entry === 'string' ? parseOrigin(entry) : undefined
      if (origin === undefined) throw invalidOption(option, expected, entry)
      return origin.origin
    },
  )
  return new Set(origins('allowedOrigins', value, {}))
}

/** Checks the option `allowedHosts`: host names without a port. */
function checkAllowedHosts({ invalidOption }: OptionChecks, value: unknown): ReadonlySet<string> {
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
