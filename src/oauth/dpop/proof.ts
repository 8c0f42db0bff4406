import { createHash } from 'node:crypto'
import type { JWK } from 'jose'
import type { ResolvedDpopOptions } from './options.ts'

/** Longest proof that is read. One with the largest usual key has a quarter of it. */
const MAX_PROOF_LENGTH = 8_192

/** Members of a JWK that are nobody's business but its owner's (RFC 7518 §6, RFC 8037). */
const PRIVATE_MEMBERS = ['d', 'p', 'q', 'dp', 'dq', 'qi', 'oth', 'k', 'priv']

/** What a proof must be about. */
export interface ProofSubject {
  /** The `DPoP` header values as they came. */
  readonly proof: string | readonly string[] | undefined
  readonly method: string
  /** URL that the request was sent to; undefined when its host is not known. */
  readonly url: string | undefined
  readonly token: string
}

/** A proof that fits its request. Whether it is new, and whether the token is bound to its key, is judged later. */
export interface CheckedProof {
  /** SHA-256 thumbprint of its key (RFC 7638), as `cnf.jkt` has it. */
  readonly keyThumbprint: string
  /** What the replay store knows it by. */
  readonly replayKey: string
  /** Seconds since 1970 after which it is too old anyway. */
  readonly expiresAtSeconds: number
}

/**
 * Checks a DPoP proof against its request (RFC 9449 §4.3): one header, a JWT of type `dpop+jwt`, signed with an
 * asymmetric algorithm by the public key in it, `htm`, `htu`, `iat`, `jti`, `ath` and, where asked for, `nonce`.
 */
export async function checkProof(
  subject: ProofSubject,
  options: ResolvedDpopOptions,
): Promise<CheckedProof | 'invalid_dpop_proof' | 'use_dpop_nonce'> {
  const { proof, method, url, token } = subject
  const text = typeof proof === 'string' ? proof : proof?.length === 1 ? (proof[0] as string) : undefined
  if (text === undefined || text.length > MAX_PROOF_LENGTH || url === undefined) return 'invalid_dpop_proof'
  const { EmbeddedJWK, calculateJwkThumbprint, jwtVerify } = await import('jose')
  try {
    const { protectedHeader, payload } = await jwtVerify(text, EmbeddedJWK, {
      typ: 'dpop+jwt',
      algorithms: [...options.algorithms],
      requiredClaims: ['iat', 'jti', 'htm', 'htu', 'ath'],
    })
    const jwk = protectedHeader.jwk as JWK
    const { jti, htm, htu, ath, nonce } = payload
    const iat = payload.iat as number
    if (PRIVATE_MEMBERS.some((member) => member in jwk)) return 'invalid_dpop_proof'
    if (Math.abs(Date.now() / 1000 - iat) > options.proofMaxAgeSeconds) return 'invalid_dpop_proof'
    if (typeof jti !== 'string' || jti === '') return 'invalid_dpop_proof'
    if (htm !== method || ath !== sha256(token)) return 'invalid_dpop_proof'
    if (typeof htu !== 'string' || comparableUrl(htu) !== comparableUrl(url)) return 'invalid_dpop_proof'
    if (options.nonces?.accepts(nonce) === false) return 'use_dpop_nonce'
    const keyThumbprint = await calculateJwkThumbprint(jwk)
    return {
      keyThumbprint,
      replayKey: sha256(`${keyThumbprint}.${jti}`),
      expiresAtSeconds: Math.ceil(iat) + options.proofMaxAgeSeconds + 1,
    }
  } catch {
    return 'invalid_dpop_proof'
  }
}

function sha256(text: string): string {
  return createHash('sha256').update(text).digest('base64url')
}

/** A URL without query and fragment, normalised as RFC 3986 §6.2.2 and §6.2.3 say. */
function comparableUrl(text: string): string {
  const url = new URL(text)
  const path = url.pathname.replace(/%[0-9a-f]{2}/gi, (encoded) => {
    const character = String.fromCharCode(Number.parseInt(encoded.slice(1), 16))
    return /[\w.~-]/.test(character) ? character : encoded.toUpperCase()
  })
  return `${url.protocol}//${url.username}${url.password}${url.host}${path}`
}
