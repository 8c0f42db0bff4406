import { isRecord } from '../../src/base/options/value-kinds.ts'
import { tryOrUndefined } from '../../src/base/try-or-undefined.ts'
import type { JsonObject } from './values.ts'

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
  const bytes = Buffer.from(part ?? '', 'base64url')
  const value: unknown = tryOrUndefined(() =>
    JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(bytes)),
  )
  return isRecord(value) ? value : undefined
}
