import { createHash, hkdfSync } from 'node:crypto'
import { CompactEncrypt, compactDecrypt } from 'jose'
import { StoreGuard } from '../oauth/store-guard.ts'
import type { AuthorizationStore } from './store.ts'
import { TemporarilyUnavailableError } from './unavailable.ts'

/** The maximum time for one command of the store. */
const STORE_TIMEOUT_MS = 5_000

interface EncryptionKey {
  readonly kid: string
  readonly key: Uint8Array
}

/**
 * Encrypted records in a store. Each value is a JWE (RFC 7516, `dir` and `A256GCM`) that contains its own key, so that a value
 * cannot be moved to another key. The first secret encrypts; all secrets decrypt.
 */
export class Records {
  readonly #store: AuthorizationStore
  readonly #guard = new StoreGuard(STORE_TIMEOUT_MS)
  readonly #keys: readonly EncryptionKey[]
  readonly #onRead: (isReadable: boolean) => void

  /** @param onRead is called for each record that the store returns */
  constructor(
    store: AuthorizationStore,
    secrets: readonly string[],
    onRead: (isReadable: boolean) => void = () => undefined,
  ) {
    this.#store = store
    this.#onRead = onRead
    this.#keys = secrets.map((secret) => {
      const key = keyFrom(secret, 'mcp-gatekit authorization records')
      return { key, kid: createHash('sha256').update(key).digest('base64url').slice(0, 16) }
    })
  }

  async get(kind: string, id: string): Promise<unknown> {
    const name = nameOf(kind, id)
    return await this.#open(name, await this.#ask(() => this.#store.get(name)))
  }

  async set(kind: string, id: string, value: unknown, ttlSeconds: number): Promise<void> {
    const name = nameOf(kind, id)
    const sealed = await this.#seal(name, value)
    await this.#ask(() => this.#store.set(name, sealed, ttlSeconds * 1000), sealed.length)
  }

  /**
   * Stores a record if there is none. Resolves with `true` if it was stored, also if the reply of the store was lost.
   * @throws {TemporarilyUnavailableError} if it is not known to be stored. If it is stored later, it is removed again.
   */
  async add(kind: string, id: string, value: unknown, ttlSeconds: number): Promise<boolean> {
    const name = nameOf(kind, id)
    const sealed = await this.#seal(name, value)
    // No other call seals the same value.
    const isStored = async () => (await this.#store.get(name)) === sealed
    let isLate = false
    const adding = async (): Promise<boolean> => {
      try {
        // A client of Redis sends a command again if the connection was closed before the reply.
        return (await this.#store.add(name, sealed, ttlSeconds * 1000)) === true || (await isStored())
      } catch (error) {
        if (await isStored()) return true
        throw error
      } finally {
        if (isLate && (await isStored())) await this.#store.delete(name)
      }
    }
    try {
      return await this.#ask(adding, sealed.length)
    } catch (error) {
      isLate = true
      throw error
    }
  }

  /** Removes a record and resolves with it. Of several calls, one gets the record. */
  async take(kind: string, id: string): Promise<unknown> {
    const name = nameOf(kind, id)
    return await this.#open(name, await this.#ask(() => this.#store.take(name)))
  }

  async delete(kind: string, id: string): Promise<void> {
    await this.#ask(() => this.#store.delete(nameOf(kind, id)))
  }

  /** @throws {TemporarilyUnavailableError} if a command of the store fails, or the store does not answer. */
  async #ask<T>(command: () => Promise<T>, bytes?: number): Promise<T> {
    try {
      return await this.#guard.ask(command, bytes)
    } catch {
      throw new TemporarilyUnavailableError('The authorization server is temporarily unavailable')
    }
  }

  async #seal(name: string, value: unknown): Promise<string> {
    const { kid, key } = this.#keys[0] as EncryptionKey
    const plain = new TextEncoder().encode(JSON.stringify({ name, value }))
    return await new CompactEncrypt(plain)
      .setProtectedHeader({ alg: 'dir', enc: 'A256GCM', kid })
      .encrypt(key)
  }

  async #open(name: string, sealed: string | undefined): Promise<unknown> {
    if (typeof sealed !== 'string') return undefined
    try {
      const { plaintext } = await compactDecrypt(
        sealed,
        (header) => {
          const found = this.#keys.find(({ kid }) => kid === header.kid)
          if (found === undefined) throw new Error('unknown key')
          return found.key
        },
        { keyManagementAlgorithms: ['dir'], contentEncryptionAlgorithms: ['A256GCM'] },
      )
      const record = JSON.parse(new TextDecoder().decode(plaintext)) as { name?: unknown; value?: unknown }
      this.#onRead(true)
      return record.name === name ? record.value : undefined
    } catch {
      // Another secret encrypted the value, or it was changed.
      this.#onRead(false)
      return undefined
    }
  }
}

/** Derives a key for one purpose from a secret. */
export function keyFrom(secret: string, purpose: string): Uint8Array {
  return new Uint8Array(hkdfSync('sha256', secret, '', purpose, 32))
}

/** Ids are tokens, so that only their hash is stored. */
function nameOf(kind: string, id: string): string {
  return `${kind}:${createHash('sha256').update(id).digest('base64url')}`
}
