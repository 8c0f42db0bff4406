/** The number of characters of an unknown word after which it is a token. */
const MIN_TOKEN = 16

/** The maximum number of characters of the scheme, and of what is between it and the token. */
const MAX_SCHEME = 32

/** The number of characters of a token that decide, such as those of Basic credentials in which the colon is searched. */
const MAX_USER = 256

/** The first parameter of a challenge, such as `Bearer realm="mcp"`. */
const PARAMETER =
  /^(?:acr_values|algs|authorization_uri|charset|error(?:_description|_uri)?|max_age|nonce|realm|resource_metadata|scope)=$/i

/** A header or member before the scheme, also in JSON and in a query. */
const HEADER = /authorization[\\"']*\s?(?:=>|[:=]|%3A)(?:[\s+]|%20)?[\\"'[]*$/i

/**
 * A token. It matches only at its `lastIndex`. The characters `+`, `/`, `=`, and `~` may be escaped as in URLs and JSON.
 */
const TOKEN = /(?:[\w.~+/=-]|\\{1,4}\/|(?:%|\\{1,4}u00)(?:2B|2F|3D|7E))+/iy

/**
 * Returns the end of the credentials of an `Authorization` header, unless the scheme is a part of a sentence. The beginning of
 * the token decides, so that a string of many schemes is not read to its end for each of them.
 */
export function endOfCredentials(text: string, start: number): number | undefined {
  const [prefix, scheme] = /^([a-z]+)(?:[ \t+]|%20)+/i.exec(
    text.slice(start, start + MAX_SCHEME),
  ) as RegExpExecArray
  const tokenStart = start + prefix.length
  TOKEN.lastIndex = 0
  const [value] = TOKEN.exec(text.slice(tokenStart, tokenStart + MAX_USER)) ?? []
  if (value === undefined) return undefined
  const isSecret = (scheme as string).toLowerCase() === 'basic' ? isUserAndPassword(value) : isToken(value)
  if (!isSecret && !HEADER.test(text.slice(Math.max(0, start - MAX_SCHEME), start))) return undefined
  TOKEN.lastIndex = tokenStart
  TOKEN.test(text)
  return TOKEN.lastIndex
}

/** Returns `true` for a string that a sentence is unlikely to contain after `Bearer`. */
function isToken(value: string): boolean {
  if (PARAMETER.test(value)) return false
  return value.length >= MIN_TOKEN || /[\d_~+/=%\\]|[^.]\.+[^.]/.test(value)
}

/** Returns `true` for the Base64 form of a name, a colon, and a password. A single word is a part of a sentence. */
function isUserAndPassword(value: string): boolean {
  const [encoded] = /^[A-Za-z0-9+/]*/.exec(value) as RegExpExecArray
  if (/^[A-Za-z]?[a-z]*$/.test(encoded)) return false
  // One character more than a multiple of four does not stand for a byte.
  return /^\P{Cc}*:/u.test(atob(encoded.length % 4 === 1 ? encoded.slice(0, -1) : encoded))
}
