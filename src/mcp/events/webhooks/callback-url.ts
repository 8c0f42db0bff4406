import { isIP } from 'node:net'
import { isPublicAddress } from '../../../http/safe-fetch.ts'

/** The maximum length of a callback URL. */
const MAX_LENGTH = 2_048

/** The first port that is not reserved for well-known services, which would receive the start of a TLS connection. */
const FIRST_FREE_PORT = 1_024

/** A callback URL that has the form of one, or the reason why it does not. */
export type CallbackUrl = { readonly url: string; readonly problem?: never } | { readonly problem: string }

/**
 * Checks the form of a callback URL: https, without credentials and a fragment, on port 443 or from 1024 on, and a public address
 * if it names one. A host name is checked at each connection.
 * @param value the member `delivery.url` of a request.
 * @param isAllowed decides about a host that is an address. Tests replace it.
 * @returns the URL in its normal form, so that each spelling names the same subscription.
 */
export function checkCallbackUrl(
  value: unknown,
  isAllowed: (address: string) => boolean = isPublicAddress,
): CallbackUrl {
  if (typeof value !== 'string') return { problem: 'must be a string' }
  if (value.length > MAX_LENGTH) return { problem: `must have at most ${MAX_LENGTH} characters` }
  const url = URL.canParse(value) ? new URL(value) : undefined
  if (url?.protocol !== 'https:') return { problem: 'must be an https URL' }
  if (url.username !== '' || url.password !== '') return { problem: 'must not contain credentials' }
  // The parser drops an empty fragment from `hash`, and keeps it in `href`.
  if (url.href.includes('#')) return { problem: 'must not have a fragment' }
  if (url.port !== '' && Number(url.port) < FIRST_FREE_PORT)
    return { problem: `must use port 443 or a port from ${FIRST_FREE_PORT} on` }
  const host = url.hostname.replace(/^\[|\]$/g, '')
  if (isIP(host) !== 0 && !isAllowed(host)) return { problem: 'must have a public address' }
  if (url.href.length > MAX_LENGTH) return { problem: `must have at most ${MAX_LENGTH} characters` }
  return { url: url.href }
}
