import { generateKeyPairSync, randomUUID } from 'node:crypto'
import { base64url, SignJWT } from 'jose'

/** The claims of a forged token. */
export interface ForgedClaims {
  readonly issuer: string
  readonly audience: string
  readonly scope: string | undefined
  /** The lifetime in seconds. Negative for an expired token. */
  readonly expiresIn: number
}

/** Returns a random string that no authorization server has issued. */
export function randomToken(): string {
  return `doctor-${randomUUID()}`
}

/** Returns a JWT (RFC 9068) with plausible claims, signed with a random key. */
export async function forgedToken(claims: ForgedClaims): Promise<string> {
  const { privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' })
  const header = { typ: 'at+jwt', alg: 'ES256', kid: randomUUID() }
  return await new SignJWT(claimsOf(claims)).setProtectedHeader(header).sign(privateKey)
}

/** Returns a JWT with plausible claims, the algorithm `none`, and no signature. */
export function unsignedToken(claims: ForgedClaims): string {
  return [{ typ: 'at+jwt', alg: 'none' }, claimsOf(claims), '']
    .map((part) => part && base64url.encode(JSON.stringify(part)))
    .join('.')
}

function claimsOf({ issuer, audience, scope, expiresIn }: ForgedClaims): Record<string, unknown> {
  const now = Math.floor(Date.now() / 1000)
  return {
    iss: issuer,
    aud: audience,
    sub: 'mcp-gatekit-doctor',
    client_id: 'mcp-gatekit-doctor',
    iat: Math.min(now, now + expiresIn - 60),
    exp: now + expiresIn,
    jti: randomUUID(),
    ...(scope !== undefined && { scope }),
  }
}
