import { createPrivateKey, generateKeyPairSync, type JsonWebKey, randomBytes } from 'node:crypto'
import type { JWK } from 'jose'
import { optionChecksOf } from '../base/options/option-checks.ts'
import { also, type OptionRule, type ReadBy, type RulesFor } from '../base/options/option-rules.ts'

const { invalidKind, items, members, secret } = optionChecksOf('authorizationFacade')

/** The keys of an authorization server, newest first. Older ones stay valid until you remove them. */
export interface AuthorizationKeys {
  /** Private JWKs (ES256, ES384, ES512, EdDSA, or RS256). The first one signs. Several keys need a `kid` each. */
  readonly signing: readonly JWK[]
  /** Secrets of at least 32 characters that encrypt what is stored. The first one encrypts. */
  readonly encryption: readonly string[]
}

const MIN_SECRET = 32

const EC_ALGORITHMS: Readonly<Record<string, string>> = {
  'P-256': 'ES256',
  'P-384': 'ES384',
  'P-521': 'ES512',
}

const RULES = {
  signing: items('must be a non-empty array of private JWKs', signingKey, 1),
  encryption: items(
    'must be a non-empty array of secrets',
    also(secret, (option, value) => {
      if (value.length < MIN_SECRET)
        throw invalidKind(option, `must contain secrets of at least ${MIN_SECRET} characters`, value)
    }),
    1,
  ),
} satisfies RulesFor<AuthorizationKeys>

/** Keys, checked, copied, and with the algorithm of each key. */
export type ResolvedKeys = ReadBy<typeof RULES>

/** Returns the key that signs. */
export function signingKeyOf({ signing }: ResolvedKeys): ResolvedKeys['signing'][number] {
  return signing[0] as ResolvedKeys['signing'][number]
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

/** The rule of the option `keys`. */
export const keysRule: OptionRule<ResolvedKeys> = also(
  members('must be an object such as { signing: [jwk], encryption: [secret] }', RULES),
  (option, { signing }) => {
    const names = new Set(signing.map(({ kid }) => kid))
    if (signing.length > 1 && (names.has(undefined) || names.size < signing.length))
      throw invalidKind(`${option}.signing`, 'must have a different kid for each of several keys', signing)
  },
)

/** @throws {KitMcpConfigError} if a key cannot be used. */
export function resolveKeys(keys: AuthorizationKeys): ResolvedKeys {
  return keysRule('keys', keys, {})
}

const SIGNS = "must contain keys that sign, with 'sig' as use or without use and key_ops"

function signingKey(option: string, value: unknown): JWK & { readonly alg: string } {
  const jwk = value as JWK
  const { use, key_ops: operations } = Object(jwk) as JWK
  const signs = operations === undefined || (Array.isArray(operations) && operations.includes('sign'))
  if ((use !== undefined && use !== 'sig') || !signs) throw invalidKind(option, SIGNS, jwk)
  const wrong = invalidKind(option, 'must contain private JWKs for ES256, ES384, ES512, EdDSA, or RS256', jwk)
  try {
    const key = createPrivateKey({ key: jwk as JsonWebKey, format: 'jwk' })
    const isLong = (key.asymmetricKeyDetails?.modulusLength ?? 0) >= 2048
    const algorithms: Readonly<Record<string, string | undefined>> = {
      ec: EC_ALGORITHMS[String(jwk.crv)],
      ed25519: 'EdDSA',
      rsa: isLong ? 'RS256' : undefined,
    }
    const alg = algorithms[String(key.asymmetricKeyType)]
    if (alg === undefined || (jwk.alg !== undefined && jwk.alg !== alg)) throw wrong
    // Only the members of the key itself are used.
    const { kid } = jwk
    return { ...(key.export({ format: 'jwk' }) as JWK), alg, use: 'sig', ...(kid !== undefined && { kid }) }
  } catch {
    throw wrong
  }
}
