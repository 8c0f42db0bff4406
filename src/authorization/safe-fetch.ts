import { lookup as systemLookup } from 'node:dns'
import { type RequestOptions, request } from 'node:https'
import { BlockList, isIP, type LookupFunction } from 'node:net'

/** The maximum size of a document. */
const MAX_BYTES = 65_536

/** The maximum time for one document, including the connection. */
const TIMEOUT_MS = 5_000

/** Addresses that are not of the public internet (RFC 6890 and the registries of IANA). */
const SPECIAL_USE: readonly (readonly [network: string, prefix: number])[] = [
  ['0.0.0.0', 8],
  ['10.0.0.0', 8],
  ['100.64.0.0', 10],
  ['127.0.0.0', 8],
  ['169.254.0.0', 16],
  ['172.16.0.0', 12],
  ['192.0.0.0', 24],
  ['192.0.2.0', 24],
  ['192.31.196.0', 24],
  ['192.52.193.0', 24],
  ['192.88.99.0', 24],
  ['192.168.0.0', 16],
  ['192.175.48.0', 24],
  ['198.18.0.0', 15],
  ['198.51.100.0', 24],
  ['203.0.113.0', 24],
  ['224.0.0.0', 3],
]

const special = new BlockList()
for (const [network, prefix] of SPECIAL_USE) special.addSubnet(network, prefix, 'ipv4')

/** The only part of IPv6 that is assigned to the public internet, without its special parts. */
const publicIpv6 = new BlockList()
publicIpv6.addSubnet('2000::', 3, 'ipv6')
const specialIpv6 = new BlockList()
for (const [network, prefix] of [
  ['2001::', 23],
  ['2001:db8::', 32],
  ['2002::', 16],
  ['2620:4f:8000::', 48],
  ['3fff::', 20],
] as const)
  specialIpv6.addSubnet(network, prefix, 'ipv6')

/** Returns `true` for an address of the public internet. */
export function isPublicAddress(address: string): boolean {
  const family = isIP(address)
  if (family === 4) return !special.check(address, 'ipv4')
  return family === 6 && publicIpv6.check(address, 'ipv6') && !specialIpv6.check(address, 'ipv6')
}

/** The parts of {@link createSafeFetch} that tests replace. */
export interface SafeFetchSettings {
  readonly lookup?: LookupFunction
  readonly isAllowed?: (address: string) => boolean
  readonly ca?: string
}

/**
 * Creates a `fetch` for URLs that strangers name: https only, public addresses only, no redirects, at most 64 KiB in 5 s. A
 * host is resolved once, and the connection goes to the address that was checked.
 */
export function createSafeFetch({
  lookup = systemLookup as LookupFunction,
  isAllowed = isPublicAddress,
  ca,
}: SafeFetchSettings = {}): (url: string | URL, init?: RequestInit) => Promise<Response> {
  const checkedLookup: LookupFunction = (hostname, options, callback) => {
    lookup(hostname, { ...options, all: true }, (error, found) => {
      if (error !== null) return callback(error, '', 0)
      const all = Array.isArray(found) ? found : [{ address: found, family: isIP(found) }]
      // A host with one private address may be an attempt to reach it.
      const first = all[0]
      if (first === undefined || !all.every(({ address }) => isAllowed(address)))
        return callback(new Error('the host does not have a public address'), '', 0)
      if (options.all === true) callback(null, all)
      else callback(null, first.address, first.family)
    })
  }

  return async function safeFetch(input, init = {}) {
    const url = new URL(input)
    if (url.protocol !== 'https:') throw new Error('the URL is not an https URL')
    if (url.username !== '' || url.password !== '') throw new Error('the URL has credentials')
    // Addresses are not looked up. The parser has written all forms of an IPv4 address in its dotted form.
    const literal = url.hostname.replace(/^\[|\]$/g, '')
    if (isIP(literal) !== 0 && !isAllowed(literal)) throw new Error('the host does not have a public address')
    const signal = AbortSignal.any([AbortSignal.timeout(TIMEOUT_MS), ...(init.signal ? [init.signal] : [])])
    const options: RequestOptions = {
      method: 'GET',
      headers: { accept: 'application/json', 'user-agent': 'mcp-gatekit' },
      lookup: checkedLookup,
      agent: false,
      signal,
      ...(ca !== undefined && { ca }),
    }
    return await new Promise<Response>((resolve, reject) => {
      const outgoing = request(url, options, (incoming) => {
        const chunks: Buffer[] = []
        let size = 0
        incoming.on('error', reject)
        incoming.on('data', (chunk: Buffer) => {
          size += chunk.length
          if (size > MAX_BYTES) outgoing.destroy(new Error(`the document is larger than ${MAX_BYTES} bytes`))
          else chunks.push(chunk)
        })
        incoming.on('end', () => {
          const { statusCode = 500, headers } = incoming
          const kept = new Headers()
          for (const name of ['content-type', 'cache-control', 'expires']) {
            const value = headers[name]
            if (typeof value === 'string') kept.set(name, value)
          }
          const isEmpty = statusCode === 204 || statusCode === 304
          if (statusCode < 200 || statusCode > 599) reject(new Error('the status is not valid'))
          else
            resolve(
              new Response(isEmpty ? null : Buffer.concat(chunks), { status: statusCode, headers: kept }),
            )
        })
      })
      outgoing.on('error', reject)
      outgoing.end()
    })
  }
}
