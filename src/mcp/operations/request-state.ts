import { hkdfSync, randomBytes } from 'node:crypto'
import type { AuthInfo } from '../../oauth/auth-info.ts'
import { ownerOf } from '../../oauth/owner.ts'

/** The time that a client has for its answer by default, in seconds. */
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
  async seal(state: unknown, holder: string, lifetimeSeconds: number = LIFETIME_SECONDS): Promise<string> {
    const { EncryptJWT } = await import('jose')
    return await new EncryptJWT({ state })
      .setProtectedHeader({ alg: 'dir', enc: 'A256GCM' })
      .setSubject(holder)
      .setExpirationTime(Math.floor(Date.now() / 1000) + lifetimeSeconds)
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
