import { generateKeyPairSync, randomUUID, sign } from 'node:crypto'

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
export function forgedToken(claims: ForgedClaims): string {
  const { privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' })
  const content = `${encode({ typ: 'at+jwt', alg: 'ES256', kid: randomUUID() })}.${encode(claimsOf(claims))}`
  const signature = sign('sha256', Buffer.from(content), { key: privateKey, dsaEncoding: 'ieee-p1363' })
  return `${content}.${signature.toString('base64url')}`
}

/** Returns a JWT with plausible claims, the algorithm `none`, and no signature. */
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
