import { isIP, isIPv4 } from 'node:net'

/**
 * What one client is counted by: its IPv4 address, or the /64 of its IPv6 address, as whoever has one address of
 * such a network has them all. Undefined for what is no address.
 */
export function clientKey(address: string | undefined): string | undefined {
  // Some proxies write the port into X-Forwarded-For.
  const bare = address?.replace(/^(\d+\.\d+\.\d+\.\d+):\d+$/, '$1').replace(/^\[(.+)\](?::\d+)?$/, '$1') ?? ''
  const [plain = ''] = bare.split('%', 1)
  if (isIP(plain) === 0) return undefined
  if (isIPv4(plain)) return plain
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

/** The eight groups of an IPv6 address. */
function groupsOf(address: string): number[] {
  const [head = '', tail] = new URL(`http://[${address}]`).hostname.slice(1, -1).split('::')
  const numbers = (part: string): number[] =>
    part === '' ? [] : part.split(':').map((group) => Number.parseInt(group, 16))
  const [front, back] = [numbers(head), numbers(tail ?? '')]
  return [...front, ...new Array<number>(8 - front.length - back.length).fill(0), ...back]
}
