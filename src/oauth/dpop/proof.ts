import { createHash } from 'node:crypto'
import type { JWK, JWTPayload } from 'jose'
import type { ResolvedDpopOptions } from './options.ts'

/** The maximum length of a proof. A proof with the largest usual key has a quarter of it. */
const MAX_PROOF_LENGTH = 8_192

/** The private members of a JWK (RFC 7518 §6, RFC 8037). */
const PRIVATE_MEMBERS = ['d', 'p', 'q', 'dp', 'dq', 'qi', 'oth', 'k', 'priv']

/** The request that a proof must match. */
export interface ProofSubject {
  /** The received `DPoP` header values. */
  readonly proof: string | readonly string[] | undefined
  readonly method: string
  /** The origin that the request was sent to; `undefined` if its host is not known. */
  readonly origin: string | undefined
  /** The path of the request, not normalized. */
  readonly path: string
  /** The access token; `undefined` at a token endpoint, where proofs have no `ath`. */
  readonly token: string | undefined
}

/** A proof that matches its request. Replay and the binding of the token to its key are checked later. */
export interface CheckedProof {
  /** The SHA-256 thumbprint of its key (RFC 7638), to compare with `cnf.jkt`. */
  readonly keyThumbprint: string
  /** Its key in the replay store. */
  readonly replayKey: string
  /** The time in seconds since 1970 after which it is rejected as too old. */
  readonly expiresAtSeconds: number
}

/**
 * A path that URL parsers change: it has dot segments, plain or percent-encoded, a backslash, which they read as a slash, or
 * control characters and spaces, which they drop. A router may choose the handler by the unchanged path, so that the proof
 * would be for one handler and the request for another.
 */
const AMBIGUOUS_PATH = /[\\\0-\x20\x7F]|\/(?:\.|%2e){1,2}(?=\/|$)/i

/**
 * Checks a DPoP proof against its request (RFC 9449 §4.3): one header, a JWT of type `dpop+jwt`, signed with an
 * asymmetric algorithm and the public key that it contains, with `htm`, `htu`, `iat`, `jti`, `ath`, and, if enabled, `nonce`.
 * The signature is verified last, because it costs the most.
 */
export async function checkProof(
  subject: ProofSubject,
  options: ResolvedDpopOptions,
): Promise<CheckedProof | 'invalid_dpop_proof' | 'use_dpop_nonce'> {
  const { proof, origin, path } = subject
  const jwt = typeof proof === 'string' ? proof : proof?.length === 1 ? (proof[0] as string) : undefined
  if (jwt === undefined || jwt.length > MAX_PROOF_LENGTH) return 'invalid_dpop_proof'
  if (origin === undefined || AMBIGUOUS_PATH.test(path)) return 'invalid_dpop_proof'
  const { EmbeddedJWK, calculateJwkThumbprint, decodeJwt, decodeProtectedHeader, jwtVerify } = await import(
    'jose'
  )
  try {
    const { jwk } = decodeProtectedHeader(jwt)
    if (jwk === undefined || !isUsableKey(jwk)) return 'invalid_dpop_proof'
    const claims = decodeJwt(jwt)
    if (!isAbout(claims, subject, origin + path, options)) return 'invalid_dpop_proof'
    await jwtVerify(jwt, EmbeddedJWK, { typ: 'dpop+jwt', algorithms: [...options.algorithms] })
    if (options.nonces?.accepts(claims.nonce) === false) return 'use_dpop_nonce'
    const keyThumbprint = await calculateJwkThumbprint(jwk)
    return {
      keyThumbprint,
      replayKey: sha256(`${keyThumbprint}.${claims.jti}`),
      expiresAtSeconds: Math.ceil(claims.iat) + options.proofMaxAgeSeconds + 1,
    }
  } catch {
    return 'invalid_dpop_proof'
  }
}

/** The claims of a proof that match its request. */
interface ProofClaims extends JWTPayload {
  readonly iat: number
  readonly jti: string
}

function isAbout(
  claims: JWTPayload,
  { method, token }: ProofSubject,
  url: string,
  { proofMaxAgeSeconds }: ResolvedDpopOptions,
): claims is ProofClaims {
  const { iat, jti, htm, htu, ath } = claims
  if (typeof iat !== 'number' || !(Math.abs(Date.now() / 1000 - iat) <= proofMaxAgeSeconds)) return false
  if (typeof jti !== 'string' || jti === '' || htm !== method) return false
  if (token !== undefined && ath !== sha256(token)) return false
  return typeof htu === 'string' && USUAL_URL.test(htu) && comparableUrl(htu) === comparableUrl(url)
}

/** An http(s) URL whose host is not too long: the URL parser takes quadratic time for hosts that are not ASCII. */
const USUAL_URL = /^https?:\/\/[^/?#\\]{1,259}(?:[/?#\\]|$)/i

/** The largest RSA modulus, in bytes: 4,096 bits. The time to verify a signature grows with the square of its length. */
const MAX_RSA_MODULUS_BYTES = 512

/** The largest RSA exponent, in bytes. Nearly every key has 65537. */
const MAX_RSA_EXPONENT_BYTES = 4

/** Returns `true` for a public key whose signatures are verified in a short time. */
function isUsableKey(jwk: JWK): boolean {
  if (PRIVATE_MEMBERS.some((member) => member in jwk)) return false
  if (jwk.kty !== 'RSA') return true
  return isAtMost(jwk.n, MAX_RSA_MODULUS_BYTES) && isAtMost(jwk.e, MAX_RSA_EXPONENT_BYTES)
}

/** Returns `true` for a number in base64url of at most `maxBytes` bytes, without leading zeros. */
function isAtMost(number: unknown, maxBytes: number): boolean {
  if (typeof number !== 'string') return false
  const bytes = Buffer.from(number, 'base64url')
  const first = bytes.findIndex((byte) => byte !== 0)
  return first === -1 || bytes.length - first <= maxBytes
}

function sha256(value: string): string {
  return createHash('sha256').update(value).digest('base64url')
}

/** Returns a URL without query and fragment, normalized by RFC 3986 §6.2.2 and §6.2.3. */
function comparableUrl(value: string): string {
  const url = new URL(value)
  const path = url.pathname.replace(/%[0-9a-f]{2}/gi, (encoded) => {
    const character = String.fromCharCode(Number.parseInt(encoded.slice(1), 16))
    return /[\w.~-]/.test(character) ? character : encoded.toUpperCase()
  })
  return `${url.protocol}//${url.username}${url.password}${url.host}${path}`
}
