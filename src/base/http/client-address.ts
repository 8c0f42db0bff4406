import { isIP, isIPv4 } from 'node:net'
import { copyText } from '../runtime.ts'

/**
 * Returns the key by which a client is counted: its IPv4 address, or the /64 of its IPv6 address, because a client usually
 * controls a whole /64. Returns `undefined` if `address` is not an IP address.
 */
export function clientKey(address: string | undefined): string | undefined {
  const plain = address === undefined ? '' : bareAddress(address)
  if (isIP(plain) === 0) return undefined
  // The address may be a substring of a long header, which must not stay in memory with the key.
  if (isIPv4(plain)) return copyText(plain)
  const groups = groupsOf(plain)
  const mapped = groups.slice(0, 5).every((group) => group === 0) && groups[5] === 0xffff
  if (mapped)
    return groups
      .slice(6)
      .flatMap((group) => [group >> 8, group & 255])
      .join('.')
  return `${groups
    .slice(0, 4)
    .map((group) => group.toString(16))
    .join(':')}::/64`
}

/**
 * Returns the first of `addresses` that is an IP address. `req.ip` of Express may be any string that a client has sent in
 * `X-Forwarded-For`.
 */
export function firstIpAddress(...addresses: readonly unknown[]): string | undefined {
  return addresses.find(
    (address): address is string => typeof address === 'string' && isIP(bareAddress(address)) !== 0,
  )
}

/** The maximum length of an address: an IPv6 address with brackets, a zone, and a port. */
const MAX_LENGTH = 128

/** Returns an address without brackets, the zone, and the port that some proxies write into `X-Forwarded-For`. */
function bareAddress(address: string): string {
  if (address.length > MAX_LENGTH) return ''
  const [, inBrackets, beforePort] =
    /^\[([^\]]+)\](?::\d+)?$|^(\d+\.\d+\.\d+\.\d+):\d+$/.exec(address.trim()) ?? []
  return (inBrackets ?? beforePort ?? address.trim()).split('%', 1)[0] as string
}

/** Returns the eight groups of an IPv6 address. */
function groupsOf(address: string): number[] {
  const [head = '', tail] = new URL(`http://[${address}]`).hostname.slice(1, -1).split('::')
  const numbers = (part: string): number[] =>
    part === '' ? [] : part.split(':').map((group) => Number.parseInt(group, 16))
  const [front, back] = [numbers(head), numbers(tail ?? '')]
  return [...front, ...new Array<number>(8 - front.length - back.length).fill(0), ...back]
}
