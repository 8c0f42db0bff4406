import type { AuthOptions, AuthResult, auth } from 'express-oauth2-jwt-bearer'
import type { JSONWebKeySet, JWK, JWTPayload } from 'jose'
import type { RefusalNote } from '../inputs.ts'
import type { JwtRules } from './jwt-options.ts'

/** The claims of a token that is good, or why it is not. */
export type CheckedJwt = { readonly claims: JWTPayload } | RefusalNote | 'invalid'

/** What a token's header states, of which the key is found: not to be believed before the signature is checked. */
export interface StatedKey {
  readonly alg: string
  readonly kid: string | undefined
}

/** Checks signature, `iss`, `aud`, `exp`, `nbf` and, when strict, `typ`. */
export type JwtCheck = (token: string, stated: StatedKey) => Promise<CheckedJwt>

type LibraryCheck = (token: string) => Promise<CheckedJwt | 'ambiguous'>

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
  const { auth } = await import('express-oauth2-jwt-bearer')
  const byLibrary = (publicKey: AuthOptions['publicKey'], alg?: string): LibraryCheck =>
    libraryCheck(auth(libraryOptions(issuer, rules, publicKey, alg)))
  const withAnyKey = byLibrary(keys)
  /** By `alg` and `kid`: a key that is known saves the library its search through the set, a fifth of the check. */
  const withOneKey = new Map<string, LibraryCheck>()
  let byJose: Promise<JwtCheck> | undefined

  return async function check(token, stated) {
    const { alg, kid } = stated
    const name = kid === undefined ? alg : `${alg} ${kid}`
    const known = withOneKey.get(name)
    const checked = ONLY_IN_JOSE.includes(alg) ? 'ambiguous' : await (known ?? withAnyKey)(token)
    if (checked !== 'ambiguous') {
      const key = known === undefined && typeof checked === 'object' ? onlyKey(keys, kid) : undefined
      if (key !== undefined) withOneKey.set(name, byLibrary(key, alg))
      return checked
    }
    if (keys === undefined) return 'invalid'
    byJose ??= joseCheck(issuer, keys, rules)
    return await (await byJose)(token, stated)
  }
}

/** The one key that such a header can mean, if there is one: a token with it that was accepted was signed with it. */
function onlyKey(keys: JSONWebKeySet | undefined, kid: string | undefined): JWK | undefined {
  const meant = keys?.keys.filter((key) => kid === undefined || key.kid === kid) ?? []
  return meant.length === 1 ? meant[0] : undefined
}

/** Every option is given, as the library reads the environment for those that are not. */
function libraryOptions(
  issuer: string,
  { audiences, secret, algorithms, strict, clockTolerance }: JwtRules<unknown>,
  publicKey: AuthOptions['publicKey'],
  alg: string | undefined,
): AuthOptions {
  return {
    issuerBaseURL: '',
    jwksUri: '',
    issuer,
    audience: [...audiences],
    secret,
    tokenSigningAlg: alg ?? (secret === '' ? '' : (algorithms[0] as string)),
    ...(publicKey !== undefined && { publicKey }),
    clockTolerance,
    strict: false,
    dpop: { enabled: false },
    validators: {
      alg: alg === undefined ? (stated) => algorithms.includes(stated as string) : (stated) => stated === alg,
      typ: strict && ((typ) => typeof typ === 'string' && /^(?:application\/)?at\+jwt$/i.test(typ)),
      // These are looked at afterwards, for what jose lets pass as well.
      iat: false,
      sub: false,
      client_id: false,
      jti: false,
    },
  }
}

function libraryCheck(middleware: ReturnType<typeof auth>): LibraryCheck {
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
