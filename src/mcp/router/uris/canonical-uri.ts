/** The maximum length of a URI that is matched. A router does not accept resources with longer URIs. */
export const MAX_URI_LENGTH = 8_192

/** The maximum number of times that a URI is parsed until it no longer changes. Two are enough for all known URIs. */
const MAX_ROUNDS = 4

/**
 * The maximum length of a host that is not ASCII or that is percent-encoded, together with credentials and port. The URL
 * parser takes quadratic time for such hosts. Names in the DNS are shorter.
 */
const MAX_ENCODED_AUTHORITY = 100

/** Finds the authority of a URI whose scheme has domain names, as the URL parser does. */
const AUTHORITY = /^[\0-\x20]*(?:(?:https?|wss?|ftp):[/\\]*|file:[/\\]{2})([^/\\?#]*)/i

const CONTROL_CHARACTER = /\p{Cc}/u
const UNRESERVED = /[A-Za-z0-9._~-]/
const HEX_DIGIT = /[0-9A-Fa-f]/

/**
 * Returns the canonical form of a URI, in which URIs are compared: the output of the WHATWG URL parser, with percent-encoded
 * unreserved characters decoded and with hex digits in upper case. The result is ASCII. Its canonical form is itself.
 * @returns `undefined` for a string that is not an absolute URI, that contains a control character, or whose host is too
 * long to be encoded.
 */
export function canonicalUri(uri: string): string | undefined {
  return hasControlCharacter(uri) ? undefined : parsedUri(uri)
}

export function hasControlCharacter(text: string): boolean {
  return CONTROL_CHARACTER.test(text)
}

/**
 * Returns the canonical form of `uri` as the URL parser reads it. The parser ignores tabs and newlines and encodes other
 * control characters.
 */
export function parsedUri(uri: string): string | undefined {
  let current = uri
  for (let round = 0; round < MAX_ROUNDS; round++) {
    if (hasLongEncodedAuthority(current) || !URL.canParse(current)) return undefined
    const { href } = new URL(current)
    const decoded = href.includes('%') ? withUnreservedDecoded(href) : href
    if (decoded === href) return href
    current = decoded
  }
  return undefined
}

function hasLongEncodedAuthority(uri: string): boolean {
  const [, authority = ''] = AUTHORITY.exec(uri.replace(/[\t\n\r]/g, '')) ?? []
  return authority.length > MAX_ENCODED_AUTHORITY && /[^\0-\x7F]|%/.test(authority)
}

/** Decodes percent-encoded unreserved characters and writes all other hex digits in upper case. */
function withUnreservedDecoded(uri: string): string {
  let written = ''
  let from = 0
  for (const { 0: triplet, index } of uri.matchAll(/%[0-9A-Fa-f]{2}/g)) {
    written += uri.slice(from, index)
    const character = String.fromCharCode(Number.parseInt(triplet.slice(1), 16))
    const decodes = UNRESERVED.test(character) && !completesTriplet(written, character)
    written += decodes ? character : triplet.toUpperCase()
    from = index + triplet.length
  }
  return written + uri.slice(from)
}

/** Returns `true` if `character` after `text` would become part of a percent-encoding that the URI does not contain. */
function completesTriplet(text: string, character: string): boolean {
  return HEX_DIGIT.test(character) && /%[0-9A-Fa-f]?$/.test(text.slice(-2))
}

/** Decodes every percent-encoding of `uri` once, as UTF-8. Leaves a `%` without two hex digits as it is. */
export function decodedOnce(uri: string): string {
  return uri.replace(/(?:%[0-9A-Fa-f]{2})+/g, (run) =>
    Buffer.from(run.replaceAll('%', ''), 'hex').toString('utf8'),
  )
}
