import { createHash, hkdfSync, randomBytes } from 'node:crypto'
import { type AuthInfo, tokenIssuer } from '../../oauth/auth-info.ts'
import { tryOrUndefined } from '../../try-or-undefined.ts'

/** The time that a client has for its answer, in seconds. */
const LIFETIME_SECONDS = 3600

/**
 * Encrypts the state that a handler keeps between the rounds of one call (multi-round-trip requests of 2026-07-28). The client
 * holds the state as a JWE (RFC 7516, `dir` and `A256GCM`), which it cannot read or change. The state is valid for one hour,
 * one user, one client, and one operation. The client may send it more than once in this time.
 */
export class RequestStates {
  readonly #key: Uint8Array

  /** @param secret the secret that all nodes of a server share. Defaults to a random one, which other nodes do not have. */
  constructor(secret: string | Uint8Array | undefined) {
    const material = secret ?? randomBytes(32)
    this.#key = new Uint8Array(hkdfSync('sha256', material, '', 'mcp-gatekit requestState', 32))
  }

  /** @throws if `state` is not a JSON value. */
  async seal(state: unknown, holder: string): Promise<string> {
    const { EncryptJWT } = await import('jose')
    return await new EncryptJWT({ state })
      .setProtectedHeader({ alg: 'dir', enc: 'A256GCM' })
      .setSubject(holder)
      .setExpirationTime(Math.floor(Date.now() / 1000) + LIFETIME_SECONDS)
      .encrypt(this.#key)
  }

  /** Decrypts a state. @throws if it was not encrypted for this holder. */
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

/** Returns a key of the user, the client, and the operation of a call. */
export function holderOf(auth: AuthInfo | undefined, ...operation: string[]): string {
  return JSON.stringify([auth?.clientId, ownerOf(auth), ...operation])
}

/**
 * Returns the owner of state that is kept between requests: the user of a token or, for a token without a user, its client,
 * together with the issuer of the token. If the verifier names neither, or a user without `id` and `sub`, the owner is the
 * token itself (its hash).
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
  // An identity that was read only in part could be that of another user.
  return tryOrUndefined(() => {
    const { id, sub } = Object(user ?? undefined) as { id?: unknown; sub?: unknown }
    const known = typeof user === 'object' ? (id ?? sub) : user
    const text = String(known)
    if (known === undefined || known === null || text.startsWith('[object ')) return undefined
    return [typeof known, text]
  })
}
