/**
 * The keys whose values are secrets in most applications, for `denylistKeys` of `withRedaction`. Keys are compared without
 * regard to case, but separators count. Names of several words are therefore also listed in camel case.
 *
 * @example
 * ```ts
 * import { COMMON_SECRET_KEYS, KitTelemetry } from 'mcp-gatekit/telemetry'
 *
 * KitTelemetry.create().withRedaction({ denylistKeys: [...COMMON_SECRET_KEYS, 'iban'] })
 * ```
 * @see docs/guides/telemetry.md
 */
export const COMMON_SECRET_KEYS: readonly string[] = /* @__PURE__ */ Object.freeze([
  'password',
  'passwd',
  'secret',
  'token',
  'access_token',
  'accessToken',
  'refresh_token',
  'refreshToken',
  'id_token',
  'idToken',
  'client_secret',
  'clientSecret',
  'api_key',
  'apiKey',
  'apikey',
  'authorization',
  'cookie',
  'set-cookie',
  'setCookie',
  'private_key',
  'privateKey',
  'session_token',
  'sessionToken',
  'otp',
  'pin',
  'cvv',
])
