import { createHash, hkdfSync, randomBytes } from 'node:crypto'
import { type AuthInfo, tokenIssuer } from '../../oauth/auth-info.ts'
import { tryOrUndefined } from '../../try-or-undefined.ts'

/** Seconds that a client may take to answer. */
const LIFETIME_SECONDS = 3600

/**
 * Seals what a handler keeps between the rounds of one call (multi-round-trip requests of 2026-07-28), as it
 * travels through the client: a JWE (RFC 7516, `dir` and `A256GCM`) that the client can neither read nor change,
 * for one hour, one user, one client and one operation. It may be presented more than once within its hour.
 */
export class RequestStates {
  readonly #key: Uint8Array

  /** @param secret shared by all nodes of a server; default a random one, which other nodes do not know. */
  constructor(secret: string | Uint8Array | undefined) {
    const material = secret ?? randomBytes(32)
    this.#key = new Uint8Array(hkdfSync('sha256', material, '', 'mcp-gatekit requestState', 32))
  }

  /** @throws when `state` is no JSON value. */
  async seal(state: unknown, holder: string): Promise<string> {
    const { EncryptJWT } = await import('jose')
    return await new EncryptJWT({ state })
      .setProtectedHeader({ alg: 'dir', enc: 'A256GCM' })
      .setSubject(holder)
      .setExpirationTime(Math.floor(Date.now() / 1000) + LIFETIME_SECONDS)
      .encrypt(this.#key)
  }

  /** What was sealed for this very holder. @throws for anything else. */
  async open(sealed: string, holder: string): Promise<unknown> {
    const { jwtDecrypt } = await import('jose')
    const { payload } = await jwtDecrypt(sealed, this.#key, {
      subject: holder,
      requiredClaims: ['exp', 'sub'],
      keyManagementAlgorithms: ['dir'],
      contentEncryptionAlgorithms: ['A256GCM'],
    })
    return payload.state
  }
}

/** Who calls what: the same words for two calls only if it is the same user through the same client. */
export function holderOf(auth: AuthInfo | undefined, ...operation: string[]): string {
  return JSON.stringify([auth?.clientId, ownerOf(auth), ...operation])
}

/**
 * The owner of what is kept between requests: the user behind a token, or the client it was given to if no user is behind
 * it, together with the token's issuer, as two issuers may have a subject of one name. The token itself if the verifier
 * named neither, or a user that neither `id` nor `sub` identifies.
 */
export function ownerOf(auth: AuthInfo | undefined): string {
  if (auth === undefined) return ''
  const { clientId, user, token } = auth
  const identity = user === undefined && clientId !== '' ? [clientId] : identityOf(user)
  return identity === undefined
    ? createHash('sha256').update(token).digest('base64')
    : JSON.stringify([tokenIssuer(auth) ?? null, ...identity])
}

/** Identifies a user. The type counts too. Returns undefined for a user whose members cannot be read. */
function identityOf(user: unknown): readonly unknown[] | undefined {
  // Half an identity could be another user's.
  return tryOrUndefined(() => {
    const { id, sub } = Object(user ?? undefined) as { id?: unknown; sub?: unknown }
    const known = typeof user === 'object' ? (id ?? sub) : user
    const text = String(known)
    if (known === undefined || known === null || text.startsWith('[object ')) return undefined
    return [typeof known, text]
  })
}
