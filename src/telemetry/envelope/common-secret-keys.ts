/**
 * The keys whose values are secrets in most applications, for `denylistKeys` of `withRedaction`. Keys are compared without
 * regard to case, but separators count. Names of several words are therefore listed with hyphens, with underscores, and in
 * camel case.
 *
 * @example
 * ```ts
 * import { COMMON_SECRET_KEYS, KitTelemetry } from 'mcp-gatekit/telemetry'
 *
 * KitTelemetry.create().withRedaction({ denylistKeys: [...COMMON_SECRET_KEYS, 'iban'] })
 * ```
 * @see docs/guides/telemetry.md
 */
export const COMMON_SECRET_KEYS: readonly string[] = /* @__PURE__ */ spellingsOf([
  ...['password', 'new-password', 'passwd', 'pwd', 'passphrase', 'otp', 'pin', 'cvv', 'credentials'],
  ...['secret', 'client-secret', 'secret-key', 'private-key', 'client-assertion', 'code-verifier'],
  ...['token', 'access-token', 'refresh-token', 'id-token', 'api-token', 'session-token', 'session-id'],
  ...['authorization', 'proxy-authorization', 'cookie', 'set-cookie', 'x-auth-token', 'x-csrf-token'],
  ...['api-key', 'apikey', 'x-api-key'],
])

function spellingsOf(names: readonly string[]): readonly string[] {
  const spellings = names.flatMap((name) => {
    const [first, ...others] = name.split('-') as [string, ...string[]]
    const capitalized = others.map((word) => word.charAt(0).toUpperCase() + word.slice(1))
    return [name, name.replaceAll('-', '_'), first + capitalized.join('')]
  })
  return Object.freeze([...new Set(spellings)])
}
