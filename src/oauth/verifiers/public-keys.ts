import { createPublicKey, type JsonWebKey, KeyObject, type webcrypto } from 'node:crypto'
import type { JSONWebKeySet, JWK } from 'jose'
import { isOptionsObject, optionChecksOf } from '../../options/option-checks.ts'
import type { KeySource } from './jwks.ts'

const { invalidKind } = optionChecksOf('jwtVerifier')

/** A public key in any of the forms people have them in. */
export type PublicKeyInput = string | JWK | JSONWebKeySet | KeyObject | webcrypto.CryptoKey

/** Public keys given outright, in whatever form, as one JWK Set without private parts. */
export function localKeys(given: PublicKeyInput): KeySource {
  let keys: JWK[]
  try {
    keys = (isKeySet(given) ? given.keys : [given]).map(publicJwk)
    if (keys.length === 0) throw new TypeError('no key')
  } catch {
    throw invalidKind('publicKey', 'must be a public key: PEM, JWK, JWK Set, KeyObject or CryptoKey', given)
  }
  const nameless = keys.some((key) => key.kid === undefined)
  const set: JSONWebKeySet = { keys }
  let named: { readonly kid: string; readonly set: JSONWebKeySet } | undefined
  const held = (kid: string | undefined): JSONWebKeySet => {
    if (!nameless || kid === undefined) return set
    // A key without a name is for every `kid`; the library would look for that one only.
    if (named?.kid !== kid)
      named = { kid, set: { keys: keys.map((key) => ({ ...key, kid: key.kid ?? kid })) } }
    return named.set
  }
  return { held, keysFor: async (kid) => held(kid) }
}

function isKeySet(given: PublicKeyInput): given is JSONWebKeySet {
  return isOptionsObject(given) && Array.isArray((given as { keys?: unknown }).keys)
}

function publicJwk(given: string | JWK | KeyObject | webcrypto.CryptoKey): JWK {
  if (typeof given === 'string') return createPublicKey(asWritten(given)).export({ format: 'jwk' }) as JWK
  if (given instanceof KeyObject) return publicPart(given)
  if (Object.prototype.toString.call(given) === '[object CryptoKey]') {
    return publicPart(KeyObject.from(given as webcrypto.CryptoKey))
  }
  const { kid, alg, use } = given as JWK
  const jwk = createPublicKey({ key: given as JsonWebKey, format: 'jwk' }).export({ format: 'jwk' }) as JWK
  return { ...jwk, ...(kid && { kid }), ...(alg && { alg }), ...(use && { use }) }
}

/** A PEM without what environment variables (`\n` for a line's end) and indented source make of it. */
function asWritten(pem: string): string {
  return pem.replace(/\\n/g, '\n').replace(/^[ \t]+/gm, '')
}

function publicPart(key: KeyObject): JWK {
  if (key.type === 'secret') throw new TypeError('a secret is no public key')
  return (key.type === 'private' ? createPublicKey(key) : key).export({ format: 'jwk' }) as JWK
}
