import type { KeyObject } from 'node:crypto'
import { builtinModule } from '../../runtime.ts'
import { errorWithHelp, telemetryOptions } from '../options.ts'

/** The minimum length of a secret, in bytes. */
const MIN_BYTES = 32

/** A MAC in hex. */
const MAC_TEXT = /^[0-9a-f]{64}$/

const encoder = new TextEncoder()

/** `node:crypto`, which is loaded only if there is a secret. */
function cryptoOf(call: string): typeof import('node:crypto') {
  const crypto = builtinModule('node:crypto')
  if (crypto !== undefined) return crypto
  throw errorWithHelp(
    'TELEMETRY_CONFIGURATION_INVALID',
    `${call}() can be used only in a runtime with node:crypto. Use Node.js, Deno, or Bun`,
    { anchor: call.toLowerCase() },
  )
}

/** Computes and checks MACs (HMAC-SHA-256). The secret is not visible in `inspect` and JSON. */
export class AuditKey {
  readonly #crypto: typeof import('node:crypto')
  readonly #secret: KeyObject

  private constructor(crypto: typeof import('node:crypto'), secret: KeyObject) {
    this.#crypto = crypto
    this.#secret = secret
  }

  /**
   * Copies a secret.
   * @param call the function that takes the secret, and `option` the secret as it is named in errors.
   * @throws {KitTelemetryError} `TELEMETRY_CONFIGURATION_INVALID` if it is shorter than 32 bytes.
   */
  static of(call: string, option: string, secret: unknown): AuditKey {
    const crypto = cryptoOf(call)
    if (typeof secret === 'string' || secret instanceof Uint8Array) {
      const key =
        typeof secret === 'string' ? crypto.createSecretKey(secret, 'utf8') : crypto.createSecretKey(secret)
      if ((key.symmetricKeySize ?? 0) >= MIN_BYTES) return new AuditKey(crypto, key)
    }
    throw telemetryOptions.invalidKind(
      option,
      `must be a string or Uint8Array of at least ${MIN_BYTES} random bytes`,
      secret,
      'Create a secret, for example with openssl rand -hex 32.',
    )
  }

  /** Returns the MAC of a string, in hex. */
  mac(message: string): string {
    return this.#crypto.createHmac('sha256', this.#secret).update(message).digest('hex')
  }

  /** Returns `true` if `mac` is the MAC of a string. The time does not depend on the position of a difference. */
  matches(message: string, mac: string): boolean {
    if (!MAC_TEXT.test(mac)) return false
    return this.#crypto.timingSafeEqual(encoder.encode(this.mac(message)), encoder.encode(mac))
  }
}
