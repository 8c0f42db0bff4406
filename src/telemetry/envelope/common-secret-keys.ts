/**
 * Keys whose values are secrets in most applications, for `denylistKeys` of `withRedaction`. Keys are compared without
 * regard to case, but separators count. Names of several words are therefore listed in camel case as well.
 *
 * @example
 * KitTelemetry.create().withRedaction({ denylistKeys: [...COMMON_SECRET_KEYS, 'iban'] })
 */
export const COMMON_SECRET_KEYS: readonly string[] = Object.freeze([
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
