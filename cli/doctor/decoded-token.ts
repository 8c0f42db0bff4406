import { memberOf } from './conversation.ts'

type JsonObject = Readonly<Record<string, unknown>>

/** The content of an access token. The signature is not verified. */
export type DecodedToken =
  | { readonly kind: 'jwt'; readonly header: JsonObject; readonly claims: JsonObject }
  /** Only the authorization server can read it, or the resource server. */
  | { readonly kind: 'opaque' }
  | { readonly kind: 'encrypted' }
  /** The token looks like a JWT but cannot be decoded. `problem` contains no part of it. */
  | { readonly kind: 'garbage'; readonly problem: string }

/** Decodes an access token that may be a JWT (RFC 7519 §3). */
export function decodeToken(token: string): DecodedToken {
  const [first, second, ...others] = token.split('.', 6)
  const parts = token.split('.', 6).length
  const header = objectIn(first)
  // The header of a JWT begins with `{"`, which is `ey` in base64url.
  if (header === undefined && !token.startsWith('ey')) return { kind: 'opaque' }
  if (header === undefined)
    return { kind: 'garbage', problem: 'begins like a JWT, but its header is not JSON in base64url' }
  if (parts === 5 && memberOf(header, 'enc') !== undefined) return { kind: 'encrypted' }
  if (parts !== 3)
    return {
      kind: 'garbage',
      problem: `begins like a JWT, but has ${parts === 6 ? 'more than 5' : parts} of 3 parts`,
    }
  const claims = objectIn(second)
  if (claims === undefined)
    return {
      kind: 'garbage',
      problem: 'begins like a JWT, but its payload is not a JSON object in base64url',
    }
  const bytes = Buffer.from(others[0] ?? '', 'base64url').length
  if (!isSignatureLength(bytes, header.alg))
    return {
      kind: 'garbage',
      problem: `is a JWT, but its signature has ${bytes} bytes, which is too short or too long`,
    }
  return { kind: 'jwt', header, claims }
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
    return typeof value === 'object' && value !== null && !Array.isArray(value)
      ? (value as JsonObject)
      : undefined
  } catch {
    return undefined
  }
}
