import { isIP } from 'node:net'
import { boundedFetch } from '../../src/http/bounded-fetch.ts'
import { isLoopbackHostname } from '../../src/options/option-checks.ts'
import { OWN_USER_AGENT } from './observer/observed-request.ts'

/** The address that the user's server listens on. */
export interface Listening {
  readonly address: string
  readonly port: number
}

/** The part of the server's resource metadata that clients compare. */
export interface ResourceMetadata {
  readonly resource: string | undefined
  readonly authorizationServers: readonly string[]
}

const TIMEOUT_MS = 2000
const MAX_BYTES = 65_536
const MAX_TEXT = 256

/** Fetches the metadata document of a server on this machine. Resolves with `undefined` if it has none. Never rejects. */
export async function fetchResourceMetadata(listening: Listening): Promise<ResourceMetadata | undefined> {
  try {
    const init = { headers: { 'user-agent': OWN_USER_AGENT }, signal: AbortSignal.timeout(TIMEOUT_MS) }
    const url = `${originOf(listening)}/.well-known/oauth-protected-resource`
    const response = await boundedFetch(url, init, { maxBytes: MAX_BYTES })
    const document = response.status === 200 ? await response.json() : undefined
    const { resource, authorization_servers: servers } = document as Record<string, unknown>
    return {
      resource: typeof resource === 'string' ? resource.slice(0, MAX_TEXT) : undefined,
      authorizationServers: (Array.isArray(servers) ? servers.slice(0, 8) : [])
        .filter((server): server is string => typeof server === 'string')
        .map((server) => server.slice(0, MAX_TEXT)),
    }
  } catch {
    return undefined
  }
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
  return [...resourceWarnings(resource, listening), ...issuerWarnings(authorizationServers, issuer)]
}

function resourceWarnings(resource: string | undefined, { address, port }: Listening): readonly string[] {
  if (resource === undefined || !URL.canParse(resource)) return []
  const url = new URL(resource)
  const path = url.pathname === '/' ? '' : url.pathname
  if (!isLoopbackHostname(url.hostname)) {
    return [
      `resource is ${resource}, which is not on this machine. Clients reject the metadata document of ${originOf({ address, port })}. Set resource to ${originOf({ address, port })}${path} during development.`,
    ]
  }
  if (Number(url.port || (url.protocol === 'https:' ? 443 : 80)) !== port)
    return [
      `resource is ${resource}, but the server listens on port ${port}. Set resource and the port to the same value.`,
    ]
  const names = namesOf(address)
  if (names !== undefined && !names.includes(url.hostname)) {
    return [
      `resource is ${resource}, but the server listens on ${address}. Set resource to ${originOf({ address, port })}${path}, and use the same URL in the client.`,
    ]
  }
  return []
}

function issuerWarnings(servers: readonly string[], issuer: string | undefined): readonly string[] {
  if (
    issuer === undefined ||
    servers.length === 0 ||
    servers.some((server) => withoutSlash(server) === issuer)
  )
    return []
  const other = servers.find((server) => isSameLoopback(server, issuer))
  const given = other ?? servers.join(', ')
  const fix =
    other === undefined
      ? 'Read the environment variable MCP_GATEKIT_ISSUER in your server, or start dev with --no-auth.'
      : 'Clients and verifiers compare issuers as strings. Use the value of the environment variable MCP_GATEKIT_ISSUER.'
  return [`issuer is ${given}, but the authorization server of dev is ${issuer}. ${fix}`]
}

function isSameLoopback(server: string, issuer: string): boolean {
  if (!URL.canParse(server)) return false
  const [a, b] = [new URL(server), new URL(issuer)]
  return isLoopbackHostname(a.hostname) && a.port === b.port
}

const withoutSlash = (url: string): string => (url.endsWith('/') ? url.slice(0, -1) : url)

/** Returns the host names by which clients reach a loopback address. `undefined` for an address that has every name. */
function namesOf(address: string): readonly string[] | undefined {
  if (address === '::' || address === '0.0.0.0') return undefined
  return [isIP(address) === 6 ? `[${address}]` : address]
}

/** Returns an origin at which the server can be reached. */
function originOf({ address, port }: Listening): string {
  const host = address === '::' || address === '0.0.0.0' ? '127.0.0.1' : address
  return `http://${isIP(host) === 6 ? `[${host}]` : host}:${port}`
}
