import { createPublicKey, type JsonWebKey, KeyObject, type webcrypto } from 'node:crypto'
import type { JSONWebKeySet, JWK } from 'jose'
import { isOptionsObject, optionChecksOf } from '../../base/options/option-checks.ts'
import type { KeySource } from './jwks.ts'

const { invalidKind } = optionChecksOf('jwtVerifier')

/** A public key: a PEM string, JWK, JWK Set, `KeyObject`, or `CryptoKey`. */
export type PublicKeyInput = string | JWK | JSONWebKeySet | KeyObject | webcrypto.CryptoKey

/** Returns configured public keys without their private members. */
export function localKeys(value: PublicKeyInput): KeySource {
  let keys: JWK[]
  try {
    keys = (isKeySet(value) ? value.keys : [value]).map(publicJwk)
    if (keys.length === 0) throw new TypeError('the key set is empty')
  } catch {
    throw invalidKind('publicKey', 'must be a public key: PEM, JWK, JWK Set, KeyObject or CryptoKey', value)
  }
  return keySource(keys)
}

/** Returns a shared secret as a key. */
export function secretKey(secret: string): KeySource {
  return keySource([{ kty: 'oct', k: Buffer.from(secret).toString('base64url') }])
}

/** A key without `kid` is used for every `kid`. */
function keySource(keys: readonly JWK[]): KeySource {
  const held = (kid: string | undefined): readonly JWK[] =>
    kid === undefined ? keys : keys.filter((key) => (key.kid ?? kid) === kid)
  return { held, keysFor: async (kid) => held(kid) }
}

function isKeySet(value: PublicKeyInput): value is JSONWebKeySet {
  return isOptionsObject(value) && Array.isArray((value as { keys?: unknown }).keys)
}

function publicJwk(value: string | JWK | KeyObject | webcrypto.CryptoKey): JWK {
  if (typeof value === 'string') return createPublicKey(restoredPem(value)).export({ format: 'jwk' }) as JWK
  if (value instanceof KeyObject) return publicPart(value)
  if (Object.prototype.toString.call(value) === '[object CryptoKey]') {
    return publicPart(KeyObject.from(value as webcrypto.CryptoKey))
  }
  const { kid, alg, use } = value as JWK
  const jwk = createPublicKey({ key: value as JsonWebKey, format: 'jwk' }).export({ format: 'jwk' }) as JWK
  return { ...jwk, ...(kid && { kid }), ...(alg && { alg }), ...(use && { use }) }
}

/** Restores a PEM string from an environment variable (`\n` for a line break) or from indented source code. */
function restoredPem(pem: string): string {
  return pem.replace(/\\n/g, '\n').replace(/^[ \t]+/gm, '')
}

function publicPart(key: KeyObject): JWK {
  if (key.type === 'secret') throw new TypeError('a secret is not a public key')
  return (key.type === 'private' ? createPublicKey(key) : key).export({ format: 'jwk' }) as JWK
}
