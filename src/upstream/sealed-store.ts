import { createHmac, hkdfSync } from 'node:crypto'
import { StoreGuard } from '../oauth/store-guard.ts'
import type { UpstreamTokenStore } from './options.ts'
import type { UpstreamAccessToken } from './token-endpoint.ts'

const PREFIX = 'mcp-gatekit:upstream:'

/**
 * Keeps tokens in a store that the nodes of a server share. The store sees neither tokens nor users: values are JWEs (RFC 7516,
 * `dir` and `A256GCM`), and keys are HMACs. If the store fails or returns something else, it counts as empty.
 */
export class SealedStore {
  readonly #store: UpstreamTokenStore
  readonly #encryptionKey: Uint8Array
  readonly #nameKey: Uint8Array
  readonly #guard: StoreGuard

  constructor(store: UpstreamTokenStore, secret: string, timeoutMs: number) {
    this.#store = store
    this.#encryptionKey = keyFrom(secret, 'mcp-gatekit upstream encryption')
    this.#nameKey = keyFrom(secret, 'mcp-gatekit upstream names')
    this.#guard = new StoreGuard(timeoutMs)
  }

  /** Returns the token that was stored for an identity. */
  async get(identity: string): Promise<UpstreamAccessToken | undefined> {
    const name = this.#nameOf(identity)
    const sealed = await this.#ask(() => this.#store.get(name))
    if (typeof sealed !== 'string') return undefined
    const { jwtDecrypt } = await import('jose')
    try {
      const { payload } = await jwtDecrypt(sealed, this.#encryptionKey, {
        subject: name,
        requiredClaims: ['exp', 'sub'],
        keyManagementAlgorithms: ['dir'],
        contentEncryptionAlgorithms: ['A256GCM'],
      })
      const { token, expiresAt } = payload as { token?: unknown; expiresAt?: unknown }
      return typeof token === 'string' && typeof expiresAt === 'number' ? { token, expiresAt } : undefined
    } catch {
      // The value has expired, or another secret encrypted it.
      await this.#ask(() => this.#store.delete(name))
      return undefined
    }
  }

  /** @param untilSeconds the time until which the token may be used, in seconds since 1970 */
  async set(identity: string, token: UpstreamAccessToken, untilSeconds: number): Promise<void> {
    const name = this.#nameOf(identity)
    const { EncryptJWT } = await import('jose')
    const sealed = await new EncryptJWT({ ...token })
      .setProtectedHeader({ alg: 'dir', enc: 'A256GCM' })
      .setSubject(name)
      .setExpirationTime(Math.floor(untilSeconds))
      .encrypt(this.#encryptionKey)
    const ttlMs = Math.floor(untilSeconds * 1000 - Date.now())
    if (ttlMs > 0) await this.#ask(() => this.#store.set(name, sealed, { ttlMs }), sealed.length)
  }

  #nameOf(identity: string): string {
    return PREFIX + createHmac('sha256', this.#nameKey).update(identity).digest('base64url')
  }

  /** Returns undefined if the store fails or does not answer. */
  async #ask<T>(command: () => Promise<T>, bytes?: number): Promise<T | undefined> {
    return await this.#guard.ask(command, bytes).catch(() => undefined)
  }
}

function keyFrom(secret: string, purpose: string): Uint8Array {
  return new Uint8Array(hkdfSync('sha256', secret, '', purpose, 32))
}
