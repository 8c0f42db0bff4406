import { builtinModule } from '../../runtime.ts'
import { errorWithHelp, telemetryOptions } from '../options.ts'

/** The minimum length of a secret, in bytes. */
const MIN_BYTES = 32

/** Computes the MAC (HMAC-SHA-256) of a string, in hex. The secret is not visible in `inspect` and JSON. */
export type AuditKey = (message: string) => string

/**
 * Copies a secret.
 * @param call the function that takes the secret, and `option` the secret as it is named in errors.
 * @throws {KitTelemetryError} `TELEMETRY_CONFIGURATION_INVALID` if it is shorter than 32 bytes.
 */
export function auditKey(call: string, option: string, secret: unknown): AuditKey {
  // It is loaded only if there is a secret.
  const crypto = builtinModule('node:crypto')
  if (crypto === undefined)
    throw errorWithHelp(
      'TELEMETRY_CONFIGURATION_INVALID',
      `${call}() can be used only in a runtime with node:crypto. Use Node.js, Deno, or Bun`,
      { anchor: call.toLowerCase() },
    )
  const bytes = typeof secret === 'string' ? new TextEncoder().encode(secret) : secret
  if (!(bytes instanceof Uint8Array) || bytes.byteLength < MIN_BYTES)
    throw telemetryOptions.invalidKind(
      option,
      `must be a string or Uint8Array of at least ${MIN_BYTES} random bytes`,
      secret,
      'Create a secret, for example with openssl rand -hex 32.',
    )
  const key = crypto.createSecretKey(bytes)
  return (message) => crypto.createHmac('sha256', key).update(message).digest('hex')
}
