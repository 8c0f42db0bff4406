import { generateKeyPairSync, randomUUID, sign } from 'node:crypto'

/** What a forged token claims. */
export interface ForgedClaims {
  readonly issuer: string
  readonly audience: string
  readonly scope: string | undefined
  /** Seconds from now; negative for one that has expired. */
  readonly expiresIn: number
}

/** A text that is no token of anybody. */
export function randomToken(): string {
  return `doctor-${randomUUID()}`
}

/** A JWT (RFC 9068) with all the right claims, signed with a key that nobody knows. */
export function forgedToken(claims: ForgedClaims): string {
  const { privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' })
  const content = `${encode({ typ: 'at+jwt', alg: 'ES256', kid: randomUUID() })}.${encode(claimsOf(claims))}`
  const signature = sign('sha256', Buffer.from(content), { key: privateKey, dsaEncoding: 'ieee-p1363' })
  return `${content}.${signature.toString('base64url')}`
}

/** The same, which says that it needs no signature and has none. */
export function unsignedToken(claims: ForgedClaims): string {
  return `${encode({ typ: 'at+jwt', alg: 'none' })}.${encode(claimsOf(claims))}.`
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

function encode(value: unknown): string {
  return Buffer.from(JSON.stringify(value)).toString('base64url')
}
