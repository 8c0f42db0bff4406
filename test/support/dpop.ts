import { createHash, randomUUID } from 'node:crypto'
import { calculateJwkThumbprint, exportJWK, type JWK, SignJWT } from 'jose'
import { createSigningKey, nowSeconds } from './tokens.ts'

/** A key that signs proofs. */
export interface ProofKey {
  readonly alg: string
  readonly publicJwk: JWK
  readonly privateJwk: JWK
  /** The RFC 7638 thumbprint, which `cnf.jkt` contains. */
  readonly thumbprint: string
  sign(header: Readonly<Record<string, unknown>>, claims: Readonly<Record<string, unknown>>): Promise<string>
}

export async function createProofKey(alg: string = 'ES256'): Promise<ProofKey> {
  const { publicKey, privateKey } = await createSigningKey(alg, 'proof')
  const publicJwk = await exportJWK(publicKey)
  return {
    alg,
    publicJwk,
    privateJwk: await exportJWK(privateKey),
    thumbprint: await calculateJwkThumbprint(publicJwk),
    sign: (header, claims) =>
      new SignJWT(claims)
        .setProtectedHeader(header as { alg: string })
        .sign(privateKey, { crit: { 'x-unknown': true } }),
  }
}

/** The request that a proof is for, and changes to a valid proof. `undefined` removes a member. */
export interface ProofChanges {
  readonly token?: string
  readonly claims?: Readonly<Record<string, unknown>>
  readonly header?: Readonly<Record<string, unknown>>
}

/** Signs a proof with `key` for a request (RFC 9449 §4.2). */
export async function proofFor(
  key: ProofKey,
  method: string,
  url: string,
  { token = '', claims = {}, header = {} }: ProofChanges = {},
): Promise<string> {
  return await key.sign(
    present({ typ: 'dpop+jwt', alg: key.alg, jwk: key.publicJwk, ...header }),
    present({
      jti: randomUUID(),
      htm: method,
      htu: url,
      iat: nowSeconds(),
      ath: createHash('sha256').update(token).digest('base64url'),
      ...claims,
    }),
  )
}

function present(members: Readonly<Record<string, unknown>>): Record<string, unknown> {
  return Object.fromEntries(Object.entries(members).filter(([, value]) => value !== undefined))
}
