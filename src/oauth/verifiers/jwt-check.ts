import type { AuthOptions, AuthResult } from 'express-oauth2-jwt-bearer'
import type { JSONWebKeySet, JWTPayload } from 'jose'
import type { RefusalNote } from '../inputs.ts'
import type { JwtRules } from './jwt-options.ts'

/** The claims of a token that is good, or why it is not. */
export type CheckedJwt = { readonly claims: JWTPayload } | RefusalNote | 'invalid'

/** Checks signature, `iss`, `aud`, `exp`, `nbf` and, when strict, `typ`. `alg` is what the token's header says. */
export type JwtCheck = (token: string, alg: string) => Promise<CheckedJwt>

/** Algorithms of ours that `express-oauth2-jwt-bearer` does not know. */
const ONLY_IN_JOSE: readonly string[] = ['Ed25519']

/** How many keys one token is tried with, where its header does not say which one signed it. */
const MAX_KEYS_TRIED = 16

/**
 * A check against one key set, or against the shared secret where there is none. It is `express-oauth2-jwt-bearer`'s;
 * `jose` alone does what that library refuses: `alg: Ed25519`, and a header that fits several keys.
 */
export async function makeCheck(
  issuer: string,
  keys: JSONWebKeySet | undefined,
  rules: JwtRules<unknown>,
): Promise<JwtCheck> {
  const byLibrary = await libraryCheck(issuer, keys, rules)
  let byJose: Promise<JwtCheck> | undefined
  return async function check(token, alg) {
    const checked = ONLY_IN_JOSE.includes(alg) ? 'ambiguous' : await byLibrary(token)
    if (checked !== 'ambiguous') return checked
    if (keys === undefined) return 'invalid'
    byJose ??= joseCheck(issuer, keys, rules)
    return await (await byJose)(token, alg)
  }
}

async function libraryCheck(
  issuer: string,
  keys: JSONWebKeySet | undefined,
  rules: JwtRules<unknown>,
): Promise<(token: string) => Promise<CheckedJwt | 'ambiguous'>> {
  const { auth } = await import('express-oauth2-jwt-bearer')
  const { secret, algorithms, strict, clockTolerance } = rules
  // Every option is given, as the library reads the environment for those that are not.
  const options: AuthOptions = {
    issuerBaseURL: '',
    jwksUri: '',
    issuer,
    audience: [...rules.audiences],
    secret,
    tokenSigningAlg: secret === '' ? '' : (algorithms[0] as string),
    ...(keys !== undefined && { publicKey: keys }),
    clockTolerance,
    strict: false,
    dpop: { enabled: false },
    validators: {
      alg: (alg) => algorithms.includes(alg as string),
      typ: strict && ((typ) => typeof typ === 'string' && /^(?:application\/)?at\+jwt$/i.test(typ)),
      // These are looked at afterwards, for what jose lets pass as well.
      iat: false,
      sub: false,
      client_id: false,
      jti: false,
    },
  }
  const middleware = auth(options)
  return (token) =>
    new Promise((resolve) => {
      const request = {
        headers: { authorization: `Bearer ${token}` },
        method: 'GET',
        protocol: 'https',
        originalUrl: '/',
        get: () => 'localhost',
        is: () => false,
        auth: undefined as AuthResult | undefined,
      }
      const next = (error?: unknown): void => {
        if (request.auth !== undefined && error === undefined)
          resolve({ claims: request.auth.payload as JWTPayload })
        else resolve(refusalIn(error instanceof Error ? error.message : ''))
      }
      void middleware(request as never, {} as never, next)
    })
}

/** The library makes one error of all, and tells by its text. */
function refusalIn(message: string): CheckedJwt | 'ambiguous' {
  if (message.startsWith('multiple matching keys')) return 'ambiguous'
  if (message.startsWith('"exp" claim timestamp')) return 'expired'
  return /['"]aud['"]/.test(message) ? 'wrong_resource' : 'invalid'
}

async function joseCheck(
  issuer: string,
  keys: JSONWebKeySet,
  { audiences, algorithms, strict, clockTolerance }: JwtRules<unknown>,
): Promise<JwtCheck> {
  const { createLocalJWKSet, errors, jwtVerify } = await import('jose')
  const keySet = createLocalJWKSet(keys)
  const options = {
    issuer,
    audience: [...audiences],
    algorithms: [...algorithms],
    clockTolerance,
    requiredClaims: ['exp'],
    ...(strict && { typ: 'at+jwt' }),
  }
  const isAboutClaims = (error: unknown): boolean =>
    error instanceof errors.JWTExpired || error instanceof errors.JWTClaimValidationFailed

  async function verify(token: string): Promise<JWTPayload> {
    try {
      return (await jwtVerify(token, keySet, options)).payload
    } catch (several) {
      if (!(several instanceof errors.JWKSMultipleMatchingKeys)) throw several
      let tried = 0
      for await (const key of several) {
        if (++tried > MAX_KEYS_TRIED) break
        try {
          return (await jwtVerify(token, key, options)).payload
        } catch (error) {
          // The signature is looked at first: with another key the claims would be no better.
          if (isAboutClaims(error)) throw error
        }
      }
      throw several
    }
  }

  return async function check(token) {
    try {
      return { claims: await verify(token) }
    } catch (error) {
      if (error instanceof errors.JWTExpired) return 'expired'
      const about = error instanceof errors.JWTClaimValidationFailed ? error.claim : undefined
      return about === 'aud' ? 'wrong_resource' : 'invalid'
    }
  }
}
