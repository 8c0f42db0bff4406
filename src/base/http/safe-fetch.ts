import { lookup as systemLookup } from 'node:dns'
import { request as httpRequest } from 'node:http'
import { request as httpsRequest } from 'node:https'
import { BlockList, isIP, type LookupFunction } from 'node:net'
import { boundedFetch, FetchRefusal, type OpenResponse } from './bounded-fetch.ts'
import { responseOf } from './response-of.ts'
import { abortedWithin } from './until-aborted.ts'

/** The default for the maximum size of a response body. */
const MAX_BYTES = 65_536

/** The default for the maximum time of one request, including the connection. */
const TIMEOUT_MS = 2_500

/** The headers of a response that are kept, and the maximum length of their values. */
const KEPT_HEADERS = ['content-type', 'cache-control', 'expires', 'retry-after', 'date']
const MAX_HEADER_LENGTH = 256

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

/** Returns the host of a URL if it is an address. The parser has written all forms of an IPv4 address in its dotted form. */
export function addressIn({ hostname }: URL): string | undefined {
  const host = hostname.replace(/^\[|\]$/g, '')
  return isIP(host) === 0 ? undefined : host
}

/** The parts of {@link createSafeFetch} that tests and development replace. */
export interface SafeFetchSettings {
  readonly lookup?: LookupFunction
  readonly isAllowed?: (address: string) => boolean
  readonly ca?: string
  readonly protocols?: readonly string[]
  readonly timeoutMs?: number
}

/** A request of {@link SafeFetch}. A request with a body is a POST, and all others are GET. */
export interface SafeRequest {
  readonly headers?: Readonly<Record<string, string>>
  readonly body?: string
  /** The maximum size of the response body, in bytes. Defaults to 64 KiB. With 0, the body is not read. */
  readonly maxBytes?: number
  /** Ends the request early. */
  readonly signal?: AbortSignal
}

/** A `fetch` for URLs that strangers name. */
export type SafeFetch = (url: string, request?: SafeRequest) => Promise<Response>

/**
 * Creates a `fetch` for URLs that strangers name: https only, public addresses only, no redirects, at most 64 KiB in 2.5 s unless
 * the caller sets other limits. A host is resolved once, and the connection goes to the address that was checked. A URL that is
 * not allowed, and a response that is too large, is a `FetchRefusal`.
 */
export function createSafeFetch({
  lookup = systemLookup as LookupFunction,
  isAllowed = isPublicAddress,
  protocols = ['https:'],
  ca,
  timeoutMs = TIMEOUT_MS,
}: SafeFetchSettings = {}): SafeFetch {
  const checkedLookup: LookupFunction = (hostname, options, callback) => {
    lookup(hostname, { ...options, all: true }, (error, found) => {
      if (error !== null) return callback(error, '', 0)
      const all = Array.isArray(found) ? found : [{ address: found, family: isIP(found) }]
      // A host with one private address may be an attempt to reach it.
      const first = all[0]
      if (first === undefined || !all.every(({ address }) => isAllowed(address)))
        return callback(notPublic(), '', 0)
      if (options.all === true) callback(null, all)
      else callback(null, first.address, first.family)
    })
  }

  const send = async (
    href: string,
    { headers, body, maxBytes }: SafeRequest,
    signal: AbortSignal,
  ): Promise<OpenResponse> => {
    const url = new URL(href)
    if (!protocols.includes(url.protocol)) throw new FetchRefusal('the URL is not an https URL')
    if (url.username !== '' || url.password !== '') throw new FetchRefusal('the URL has credentials')
    // Addresses are not looked up.
    const address = addressIn(url)
    if (address !== undefined && !isAllowed(address)) throw notPublic()
    const outgoing = (url.protocol === 'http:' ? httpRequest : httpsRequest)(url, {
      method: body === undefined ? 'GET' : 'POST',
      headers: { accept: 'application/json', 'user-agent': 'mcp-gatekit', ...headers },
      lookup: checkedLookup,
      agent: false,
      signal,
      ...(ca !== undefined && { ca }),
    })
    outgoing.end(body)
    const incoming = await responseOf(outgoing)
    const kept = KEPT_HEADERS.flatMap((name) => {
      const value = incoming.headers[name]
      return typeof value === 'string' && value.length <= MAX_HEADER_LENGTH ? [[name, value] as const] : []
    })
    return {
      status: incoming.statusCode ?? 0,
      headers: new Headers(Object.fromEntries(kept)),
      body: maxBytes === 0 ? null : incoming,
    }
  }

  return async (url, safeRequest = {}) => {
    const { maxBytes = MAX_BYTES, signal } = safeRequest
    const limit = abortedWithin(timeoutMs, ...(signal === undefined ? [] : [signal]))
    const limits = {
      maxBytes,
      send: (href: string, init: { signal: AbortSignal }) => send(href, safeRequest, init.signal),
    }
    return await boundedFetch(url, { signal: limit.signal }, limits).finally(() => limit.abort())
  }
}

const notPublic = (): FetchRefusal => new FetchRefusal('the host does not have a public address')
