import { createPrivateKey, generateKeyPairSync, type JsonWebKey, randomBytes } from 'node:crypto'
import type { JWK } from 'jose'
import { isOptionsObject, optionChecksOf } from '../options/option-checks.ts'

const { checkKnownMembers, checkSecret, invalidKind } = optionChecksOf('authorizationFacade')

/** The keys of an authorization server, newest first. Older ones stay valid until you remove them. */
export interface AuthorizationKeys {
  /** Private JWKs (ES256, ES384, ES512, EdDSA, or RS256). The first one signs. */
  readonly signing: readonly JWK[]
  /** Secrets of at least 32 characters that encrypt what is stored. The first one encrypts. */
  readonly encryption: readonly string[]
}

/** `AuthorizationKeys`, checked, copied, and with the algorithm of each key. */
export interface ResolvedKeys {
  readonly signing: readonly (JWK & { readonly alg: string })[]
  readonly encryption: readonly string[]
}

const MIN_SECRET = 32

const EC_ALGORITHMS: Readonly<Record<string, string>> = {
  'P-256': 'ES256',
  'P-384': 'ES384',
  'P-521': 'ES512',
}

/** Creates keys that last as long as the process. */
export function createKeys(): ResolvedKeys {
  const { privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' })
  const kid = randomBytes(12).toString('base64url')
  return {
    signing: [{ ...(privateKey.export({ format: 'jwk' }) as JWK), alg: 'ES256', use: 'sig', kid }],
    encryption: [randomBytes(32).toString('base64url')],
  }
}

/** @throws {KitMcpConfigError} if a key cannot be used. */
export function resolveKeys(keys: AuthorizationKeys): ResolvedKeys {
  if (!isOptionsObject(keys))
    throw invalidKind('keys', 'must be an object such as { signing: [jwk], encryption: [secret] }', keys)
  checkKnownMembers('keys', keys, ['signing', 'encryption'])
  const { signing, encryption } = keys
  if (!Array.isArray(signing) || signing.length === 0)
    throw invalidKind('keys.signing', 'must be a non-empty array of private JWKs', signing)
  if (!Array.isArray(encryption) || encryption.length === 0)
    throw invalidKind('keys.encryption', 'must be a non-empty array of secrets', encryption)
  for (const secret of encryption) {
    checkSecret('keys.encryption', secret)
    if (secret.length < MIN_SECRET)
      throw invalidKind(
        'keys.encryption',
        `must contain secrets of at least ${MIN_SECRET} characters`,
        secret,
      )
  }
  const names = new Set(signing.map((jwk: JWK | null) => jwk?.kid))
  if (signing.length > 1 && (names.has(undefined) || names.size < signing.length))
    throw invalidKind('keys.signing', 'must have a different kid for each of several keys', signing)
  return { signing: signing.map(signingKey), encryption: [...encryption] }
}

function signingKey(jwk: JWK): JWK & { alg: string } {
  const wrong = invalidKind(
    'keys.signing',
    'must contain private JWKs for ES256, ES384, ES512, EdDSA, or RS256',
    jwk,
  )
  try {
    const key = createPrivateKey({ key: jwk as JsonWebKey, format: 'jwk' })
    const type = key.asymmetricKeyType
    const alg =
      type === 'ec'
        ? EC_ALGORITHMS[String(jwk.crv)]
        : type === 'ed25519'
          ? 'EdDSA'
          : type === 'rsa' && (key.asymmetricKeyDetails?.modulusLength ?? 0) >= 2048
            ? 'RS256'
            : undefined
    if (alg === undefined || (jwk.alg !== undefined && jwk.alg !== alg)) throw wrong
    // Only the members of the key itself are used.
    const { kid } = jwk
    return { ...(key.export({ format: 'jwk' }) as JWK), alg, use: 'sig', ...(kid !== undefined && { kid }) }
  } catch {
    throw wrong
  }
}
