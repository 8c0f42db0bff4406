import type { AuthResult } from 'express-oauth2-jwt-bearer'
import type { JWK, JWTPayload } from 'jose'

/** Returns the claims of a token whose signature is valid, and `undefined` for any other. */
type SignatureCheck = (token: string) => Promise<JWTPayload | undefined>

/** The maximum number of keys that are tried for a token whose header does not name the key. */
const MAX_KEYS_TRIED = 16

/** A tolerance with which the libraries accept all dates. */
const ANY_TIME = Number.MAX_VALUE

/** The `kty` of the keys for an algorithm, by the first two letters of its name. */
const KEY_TYPES: Readonly<Record<string, string>> = { RS: 'RSA', PS: 'RSA', ES: 'EC', Ed: 'OKP', HS: 'oct' }

/** The `crv` of the keys for an algorithm that has only one. */
const CURVES: Readonly<Record<string, string>> = {
  ES256: 'P-256',
  ES384: 'P-384',
  ES512: 'P-521',
  Ed25519: 'Ed25519',
}

/** The checks by key and algorithm. They hold the imported keys. */
const checks = new WeakMap<JWK, Map<string, Promise<SignatureCheck>>>()

/**
 * Verifies the signature of a token, and nothing of its claims, but that its dates are numbers.
 * @param alg the allowed algorithm that the header of the token names
 * @param keys the keys that the header allows
 * @returns the claims; `undefined` if none of the keys fits
 */
export async function signedClaims(
  token: string,
  alg: string,
  keys: readonly JWK[],
): Promise<JWTPayload | undefined> {
  for (const key of keys.filter((one) => isFor(alg, one)).slice(0, MAX_KEYS_TRIED)) {
    const claims = await (await checkWith(key, alg))(token)
    if (claims !== undefined) return claims
  }
  return undefined
}

/** Returns `true` for a key that may sign tokens with this algorithm (RFC 7517 §4, RFC 7518 §6). */
function isFor(alg: string, key: JWK): boolean {
  return (
    key.kty === KEY_TYPES[alg.slice(0, 2)] &&
    (CURVES[alg] ?? key.crv) === key.crv &&
    (typeof key.alg !== 'string' || key.alg === alg) &&
    (typeof key.use !== 'string' || key.use === 'sig') &&
    (!Array.isArray(key.key_ops) || key.key_ops.includes('verify'))
  )
}

function checkWith(key: JWK, alg: string): Promise<SignatureCheck> {
  const known = checks.get(key) ?? new Map<string, Promise<SignatureCheck>>()
  checks.set(key, known)
  // `express-oauth2-jwt-bearer` does not support `alg: Ed25519`.
  const check = known.get(alg) ?? (alg === 'Ed25519' ? joseCheck(key, alg) : libraryCheck(key, alg))
  known.set(alg, check)
  return check
}

/**
 * Returns a check by `express-oauth2-jwt-bearer`. Its error is the same for every wrong claim, so it verifies signatures only,
 * and the verifier checks each claim. Every option is set, because the library reads environment variables for missing ones.
 */
async function libraryCheck(key: JWK, alg: string): Promise<SignatureCheck> {
  const { auth } = await import('express-oauth2-jwt-bearer')
  const isSecret = key.kty === 'oct'
  const middleware = auth({
    issuerBaseURL: '',
    jwksUri: '',
    // Required, but not used without their validators.
    issuer: 'none',
    audience: 'none',
    secret: isSecret ? Buffer.from(key.k as string, 'base64url').toString() : '',
    ...(!isSecret && { publicKey: key }),
    tokenSigningAlg: alg,
    clockTolerance: ANY_TIME,
    strict: false,
    dpop: { enabled: false },
    validators: {
      // The library reads the header by itself.
      alg: (stated) => stated === alg,
      typ: false,
      iss: false,
      aud: false,
      exp: false,
      iat: false,
      sub: false,
      client_id: false,
      jti: false,
    },
  })
  return async (token) => {
    // The parts of an Express request that the library reads.
    const request = {
      headers: { authorization: `Bearer ${token}` },
      method: 'GET',
      protocol: 'https',
      originalUrl: '/',
      get: () => 'localhost',
      is: () => false,
      auth: undefined as AuthResult | undefined,
    }
    await middleware(request as never, {} as never, () => undefined)
    return request.auth?.payload as JWTPayload | undefined
  }
}

async function joseCheck(key: JWK, alg: string): Promise<SignatureCheck> {
  const { jwtVerify } = await import('jose')
  return async (token) => {
    try {
      return (await jwtVerify(token, key, { algorithms: [alg], clockTolerance: ANY_TIME })).payload
    } catch {
      return undefined
    }
  }
}
