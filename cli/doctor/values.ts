import { isLoopbackHostname } from '../../src/options/option-checks.ts'
import { isRecord } from '../../src/options/value-kinds.ts'

export type JsonObject = Readonly<Record<string, unknown>>

/** Returns a member of a value that may be an object. */
export function memberOf(value: unknown, name: string): unknown {
  return typeof value === 'object' && value !== null && Object.hasOwn(value, name)
    ? (value as JsonObject)[name]
    : undefined
}

/** Returns a member that is an array of strings, or `undefined` if it is not. */
export function textsOf(document: JsonObject | undefined, member: string): readonly string[] | undefined {
  const value = document?.[member]
  return Array.isArray(value) && value.every((entry): entry is string => typeof entry === 'string')
    ? value
    : undefined
}

/** Returns a URL, or `undefined` if the value is not a string with an absolute URL. */
export function urlOf(value: unknown): URL | undefined {
  return typeof value === 'string' && URL.canParse(value) ? new URL(value) : undefined
}

/**
 * Describes the difference between two URLs that look alike, such as `only the slash at the end differs`. Returns `undefined`
 * if they differ in more than the scheme, the name of this machine, and the slash at the end.
 */
export function nearMiss(received: string, expected: string): string | undefined {
  if (received === expected || !URL.canParse(received) || !URL.canParse(expected)) return undefined
  const [one, other] = [new URL(received), new URL(expected)]
  const areLoopback = isLoopbackHostname(one.hostname) && isLoopbackHostname(other.hostname)
  if (one.hostname !== other.hostname && !areLoopback) return undefined
  const hasSamePort = one.port === other.port || one.protocol !== other.protocol
  if (!hasSamePort || one.search !== other.search) return undefined
  if (withoutSlash(one.pathname) !== withoutSlash(other.pathname)) return undefined
  const [scheme, wanted] = [one, other].map(({ protocol }) => protocol.slice(0, -1))
  const parts = [
    ...(one.protocol === other.protocol ? [] : [`the scheme (${scheme} against ${wanted})`]),
    ...(one.hostname === other.hostname ? [] : [`the host name (${one.hostname} against ${other.hostname})`]),
    ...(received.endsWith('/') === expected.endsWith('/') ? [] : ['the slash at the end']),
  ]
  if (parts.length === 0) return 'only the spelling differs'
  return `only ${parts.join(' and ')} ${parts.length === 1 ? 'differs' : 'differ'}`
}

/** Returns `true` if both are the same origin without a path, with or without a slash at the end. */
export function isSameOrigin(one: string, other: string): boolean {
  return URL.canParse(one) && withoutSlash(one) === withoutSlash(other) && new URL(one).pathname === '/'
}

/** Removes one slash at the end. */
export function withoutSlash(url: string): string {
  return url.endsWith('/') ? url.slice(0, -1) : url
}

/** The content of an access token. The signature is not verified. */
export type DecodedToken =
  | { readonly kind: 'jwt'; readonly header: JsonObject; readonly claims: JsonObject }
  /**
   * Only the authorization server or the resource server can read an `opaque` or `encrypted` token. `garbage` looks like a JWT
   * but cannot be decoded. `problem` contains no part of the token.
   */
  | { readonly kind: 'opaque' | 'encrypted' | 'garbage'; readonly problem: string }

/** Decodes an access token that may be a JWT (RFC 7519 §3). */
export function decodeToken(token: string): DecodedToken {
  const garbage = (problem: string): DecodedToken => ({ kind: 'garbage', problem })
  const parts = token.split('.', 6)
  const header = objectIn(parts[0])
  // The header of a JWT begins with `{"`, which is `ey` in base64url.
  if (header === undefined && !token.startsWith('ey'))
    return { kind: 'opaque', problem: 'is opaque (not a JWT)' }
  if (header === undefined) return garbage('begins like a JWT, but its header is not JSON in base64url')
  if (parts.length === 5 && header.enc !== undefined)
    return { kind: 'encrypted', problem: 'is encrypted (JWE)' }
  if (parts.length !== 3)
    return garbage(
      `begins like a JWT, but has ${parts.length === 6 ? 'more than 5' : parts.length} of 3 parts`,
    )
  const claims = objectIn(parts[1])
  if (claims === undefined)
    return garbage('begins like a JWT, but its payload is not a JSON object in base64url')
  const bytes = Buffer.from(parts[2] ?? '', 'base64url').length
  return isSignatureLength(bytes, header.alg)
    ? { kind: 'jwt', header, claims }
    : garbage(`is a JWT, but its signature has ${bytes} bytes, which is too short or too long`)
}

/** Returns `false` if no signature of the algorithm has this length (RFC 7518 §3, RFC 8037 §3.1). */
function isSignatureLength(bytes: number, alg: unknown): boolean {
  if (alg === 'none') return true
  if (alg === 'ES256' || alg === 'ES256K') return bytes === 64
  if (alg === 'ES384') return bytes === 96
  if (alg === 'ES512') return bytes === 132
  const name = typeof alg === 'string' ? alg.slice(0, 2) : ''
  return name === 'RS' || name === 'PS' ? bytes >= 128 && bytes % 64 === 0 : bytes > 0
}

function objectIn(part: string | undefined): JsonObject | undefined {
  try {
    const bytes = Buffer.from(part ?? '', 'base64url')
    const value: unknown = JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(bytes))
    return isRecord(value) ? value : undefined
  } catch {
    return undefined
  }
}
