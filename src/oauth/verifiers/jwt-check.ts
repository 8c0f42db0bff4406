import type { AuthOptions, AuthResult, auth } from 'express-oauth2-jwt-bearer'
import type { JSONWebKeySet, JWK, JWTPayload } from 'jose'
import type { RefusalNote } from '../inputs.ts'
import type { JwtRules } from './jwt-options.ts'

/** The claims of a valid token, or the reason it was rejected. */
export type CheckedJwt = { readonly claims: JWTPayload } | RefusalNote

/** The members of a token's header that select the key. They are untrusted until the signature is verified. */
export interface StatedKey {
  readonly alg: string
  readonly kid: string | undefined
}

/** Checks the signature, `iss`, `aud`, `exp`, `nbf`, and, if `strict` is set, `typ`. */
export type JwtCheck = (token: string, stated: StatedKey) => Promise<CheckedJwt>

type LibraryCheck = (token: string) => Promise<CheckedJwt | 'ambiguous'>

/** Supported algorithms that `express-oauth2-jwt-bearer` does not support. */
const ONLY_IN_JOSE: readonly string[] = ['Ed25519']

/** The maximum number of keys that are tried for a token whose header does not name the key. */
const MAX_KEYS_TRIED = 16

/**
 * Returns a check with one key set, or with the shared secret if `keys` is `undefined`. It uses `express-oauth2-jwt-bearer`, and
 * `jose` for what that library does not support: `alg: Ed25519`, and a header that matches several keys.
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
  /** Checks by `alg` and `kid`. With a known key, the library does not search the set, which takes a fifth of the time. */
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
    if (keys === undefined) return 'signature'
    byJose ??= joseCheck(issuer, keys, rules)
    return await (await byJose)(token, stated)
  }
}

/** Returns the key that such a header names, if there is exactly one. An accepted token was signed with it. */
function onlyKey(keys: JSONWebKeySet | undefined, kid: string | undefined): JWK | undefined {
  const matching = keys?.keys.filter((key) => kid === undefined || key.kid === kid) ?? []
  return matching.length === 1 ? matching[0] : undefined
}

/** Sets every option, because the library reads environment variables for missing ones. */
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
      // These are checked later, together with tokens that `jose` has checked.
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

/** The reasons of claims and header members that are wrong. */
const NOTES: Readonly<Record<string, RefusalNote>> = {
  aud: 'wrong_resource',
  iss: 'issuer',
  nbf: 'not_active',
  alg: 'algorithm',
  typ: 'type',
  // A token without a valid `exp`: an expired one has an error of its own.
  exp: 'type',
}

/** Reads the reason from the message of the error: the library throws the same error for all reasons. */
function refusalIn(message: string): CheckedJwt | 'ambiguous' {
  if (message.startsWith('multiple matching keys')) return 'ambiguous'
  if (message.startsWith('"exp" claim timestamp')) return 'expired'
  const [, about] = /['"](aud|iss|nbf|typ|alg|exp)['"]/.exec(message) ?? []
  return about === undefined ? 'signature' : (NOTES[about] as RefusalNote)
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
          // The signature was valid, so another key cannot help.
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
      if (error instanceof errors.JOSEAlgNotAllowed) return 'algorithm'
      if (!(error instanceof errors.JWTClaimValidationFailed)) return 'signature'
      return NOTES[error.claim] ?? 'type'
    }
  }
}
