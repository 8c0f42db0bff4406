import { isIP } from 'node:net'
import { boundedFetch } from '../../src/base/http/bounded-fetch.ts'
import { isLoopbackHostname } from '../../src/base/options/option-checks.ts'
import { OWN_USER_AGENT } from './observer/observed-request.ts'

/** The address that the user's server listens on. */
export interface Listening {
  readonly address: string
  readonly port: number
}

/** The part of the server's resource metadata that clients compare. */
export type ResourceMetadata = NonNullable<Awaited<ReturnType<typeof fetchResourceMetadata>>>

const TIMEOUT_MS = 2000
const MAX_BYTES = 65_536
const MAX_TEXT = 256
const MAX_TEXTS = 32

/** Fetches the metadata document of a server on this machine. Resolves with `undefined` if it has none. Never rejects. */
export async function fetchResourceMetadata(listening: Listening) {
  try {
    const init = { headers: { 'user-agent': OWN_USER_AGENT }, signal: AbortSignal.timeout(TIMEOUT_MS) }
    const url = `${originOf(listening)}/.well-known/oauth-protected-resource`
    const response = await boundedFetch(url, init, { maxBytes: MAX_BYTES })
    const document = response.status === 200 ? await response.json() : undefined
    const {
      resource,
      authorization_servers: servers,
      scopes_supported: scopes,
    } = document as Record<string, unknown>
    return {
      resource: typeof resource === 'string' ? resource.slice(0, MAX_TEXT) : undefined,
      authorizationServers: textsOf(servers),
      scopes: textsOf(scopes).filter((scope) => /^[\x21\x23-\x5B\x5D-\x7E]+$/.test(scope)),
    }
  } catch {
    return undefined
  }
}

function textsOf(value: unknown): readonly string[] {
  return (Array.isArray(value) ? value.slice(0, MAX_TEXTS) : [])
    .filter((text): text is string => typeof text === 'string')
    .map((text) => text.slice(0, MAX_TEXT))
}

/**
 * Returns the disagreements between the metadata, the listening address, and the authorization server of `dev`.
 * @param issuer `undefined` if that server is not running
 */
export function startupWarnings(
  { resource, authorizationServers }: ResourceMetadata,
  listening: Listening,
  issuer: string | undefined,
): readonly string[] {
  const warnings = [resourceWarning(resource, listening), issuerWarning(authorizationServers, issuer)]
  return warnings.filter((warning) => warning !== undefined)
}

function resourceWarning(resource: string | undefined, { address, port }: Listening): string | undefined {
  if (resource === undefined || !URL.canParse(resource)) return undefined
  const url = new URL(resource)
  const origin = originOf({ address, port })
  const fix = `Set resource to ${origin}${url.pathname === '/' ? '' : url.pathname}`
  if (!isLoopbackHostname(url.hostname))
    return `resource is ${resource}, which is not on this machine. Clients reject the metadata document of ${origin}. ${fix} during development.`
  if (Number(url.port || (url.protocol === 'https:' ? 443 : 80)) !== port)
    return `resource is ${resource}, but the server listens on port ${port}. Set resource and the port to the same value.`
  const isAny = address === '::' || address === '0.0.0.0'
  if (isAny || url.hostname === (isIP(address) === 6 ? `[${address}]` : address)) return undefined
  return `resource is ${resource}, but the server listens on ${address}. ${fix}, and use the same URL in the client.`
}

function issuerWarning(servers: readonly string[], issuer: string | undefined): string | undefined {
  if (issuer === undefined || servers.length === 0) return undefined
  if (servers.some((server) => withoutSlash(server) === issuer)) return undefined
  const other = servers.find((server) => isSameLoopback(server, issuer))
  const fix =
    other === undefined
      ? 'Read the environment variable MCP_GATEKIT_ISSUER in your server, or start dev with --no-auth.'
      : 'Clients and verifiers compare issuers as strings. Use the value of the environment variable MCP_GATEKIT_ISSUER.'
  return `issuer is ${other ?? servers.join(', ')}, but the authorization server of dev is ${issuer}. ${fix}`
}

function isSameLoopback(server: string, issuer: string): boolean {
  if (!URL.canParse(server)) return false
  const [a, b] = [new URL(server), new URL(issuer)]
  return isLoopbackHostname(a.hostname) && a.port === b.port
}

const withoutSlash = (url: string): string => (url.endsWith('/') ? url.slice(0, -1) : url)

/** Returns an origin at which the server can be reached. */
function originOf({ address, port }: Listening): string {
  const host = address === '::' || address === '0.0.0.0' ? '127.0.0.1' : address
  return `http://${isIP(host) === 6 ? `[${host}]` : host}:${port}`
}
