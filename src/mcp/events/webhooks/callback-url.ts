import { isIP } from 'node:net'
import { addressIn, isPublicAddress } from '../../../base/http/safe-fetch.ts'

/** The maximum length of a callback URL. */
const MAX_LENGTH = 2_048

/** The first port that is not reserved for well-known services, which would receive the start of a TLS connection. */
const FIRST_FREE_PORT = 1_024

/** Returns `true` for an address of this machine. */
export function isLoopback(address: string): boolean {
  return address === '::1' || (isIP(address) === 4 && address.startsWith('127.'))
}

/**
 * Returns the reason why a URL cannot be a callback URL: it must use https, without credentials and a fragment, on port 443 or from
 * 1024 on, and have a public address if it names one. A host name is checked at each connection.
 * @param value the member `delivery.url` of a request.
 * @param isAllowed decides about a host that is an address. Tests replace it.
 * @param allowsLoopback permits http to addresses of this machine
 */
export function problemWithUrl(
  value: unknown,
  isAllowed: (address: string) => boolean = isPublicAddress,
  allowsLoopback = false,
): string | undefined {
  if (typeof value !== 'string') return 'must be a string'
  const url = value.length <= MAX_LENGTH && URL.canParse(value) ? new URL(value) : undefined
  // The normal form can be longer, because it encodes characters.
  if (value.length > MAX_LENGTH || (url?.href.length ?? 0) > MAX_LENGTH)
    return `must have at most ${MAX_LENGTH} characters`
  const address = url && addressIn(url)
  const isLocal = allowsLoopback && url?.protocol === 'http:' && isLoopback(address ?? '')
  if (url === undefined || (url.protocol !== 'https:' && !isLocal)) return 'must be an https URL'
  if (url.username !== '' || url.password !== '') return 'must not contain credentials'
  // The parser drops an empty fragment from `hash`, and keeps it in `href`.
  if (url.href.includes('#')) return 'must not have a fragment'
  if ((url.port !== '' || isLocal) && Number(url.port) < FIRST_FREE_PORT)
    return `must use port 443 or a port from ${FIRST_FREE_PORT} on`
  return address !== undefined && !isLocal && !isAllowed(address) ? 'must have a public address' : undefined
}
