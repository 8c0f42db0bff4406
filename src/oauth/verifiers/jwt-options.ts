import type { JWTPayload } from 'jose'
import { isOptionsObject, optionChecksOf } from '../../options/option-checks.ts'
import { checkAudiences, resourcesAmong } from './audience.ts'
import { type KeySource, RemoteKeys } from './jwks.ts'
import { OutagePace } from './outage-pace.ts'
import { localKeys, type PublicKeyInput } from './public-keys.ts'

const checks = optionChecksOf('jwtVerifier')
const {
  checkBoolean,
  checkFunction,
  checkIssuer,
  checkKnownOptions,
  checkTexts,
  checkUrl,
  checkSeconds,
  invalidKind,
  invalidOption,
  missingOption,
} = checks

/** The user when no `mapUser` is given. */
export interface JwtUser {
  /** The `sub` claim. */
  readonly id: string | undefined
  /** All claims of the token. */
  readonly claims: JWTPayload
}

/** What `jwtVerifier()` takes. */
export interface JwtVerifierOptions<User = JwtUser> {
  /** The `iss` that is accepted. This or `issuers`. */
  readonly issuer?: string | undefined
  /** Several `iss` that are accepted, each with its own keys unless keys are given here. */
  readonly issuers?: readonly string[] | undefined
  /** What `aud` must hold one of. This or `resource` is required: a token for somebody else is refused (RFC 8707). */
  readonly audience?: string | readonly string[] | undefined
  /** The same as `audience`, for a resource indicator of RFC 8707. */
  readonly resource?: string | undefined
  /** Where the keys are. Default: found through the issuer's metadata (RFC 8414, OpenID Connect Discovery). */
  readonly jwksUri?: string | undefined
  /** The key or keys themselves, instead of `jwksUri`: PEM, JWK, JWK Set, `KeyObject` or `CryptoKey`. */
  readonly publicKey?: PublicKeyInput | undefined
  /** A shared secret, for HMAC algorithms. */
  readonly secret?: string | undefined
  /** Signature algorithms. Default: every asymmetric one, or HS256 with `secret`. `none` never. */
  readonly algorithms?: readonly string[] | undefined
  /** Seconds that clocks may differ by. Default 0. */
  readonly clockToleranceSeconds?: number | undefined
  /** Claims that must be present. */
  readonly requiredClaims?: readonly string[] | undefined
  /** Requires `typ: at+jwt` (RFC 9068). Default false. */
  readonly strict?: boolean | undefined
  /** Makes the user from the claims. Default `{ id: sub, claims }`. */
  readonly mapUser?: ((claims: JWTPayload) => User | Promise<User>) | undefined
  /** Seconds between two fetches of the keys for an unknown `kid`. Default 30. After a failed fetch it is 1 s at least. */
  readonly jwksCooldownSeconds?: number | undefined
  /** Seconds after which the keys are fetched again. Default 600. */
  readonly jwksCacheSeconds?: number | undefined
  /** Allows http for `issuer` and `jwksUri` on hosts that are not loopback. Default false. */
  readonly allowInsecureHttp?: boolean | undefined
}

const ASYMMETRIC = [
  'RS256',
  'RS384',
  'RS512',
  'PS256',
  'PS384',
  'PS512',
  'ES256',
  'ES384',
  'ES512',
  'EdDSA',
  'Ed25519',
]
const SYMMETRIC = ['HS256', 'HS384', 'HS512']

const KNOWN_OPTIONS = [
  'issuer',
  'issuers',
  'audience',
  'resource',
  'jwksUri',
  'publicKey',
  'secret',
  'algorithms',
  'clockToleranceSeconds',
  'requiredClaims',
  'strict',
  'mapUser',
  'jwksCooldownSeconds',
  'jwksCacheSeconds',
  'allowInsecureHttp',
] as const

/** What a token is held against: the options, checked and with their defaults. */
export interface JwtRules<User> {
  readonly audiences: readonly string[]
  /** Those of the audiences that are resources. */
  readonly resources: readonly string[]
  readonly algorithms: readonly string[]
  readonly clockTolerance: number
  readonly requiredClaims: readonly string[]
  readonly strict: boolean
  readonly secret: string
  readonly mapUser: ((claims: JWTPayload) => User | Promise<User>) | undefined
}

/** What a verifier is made of. */
export interface ResolvedJwtOptions<User> {
  readonly rules: JwtRules<User>
  /** Where the keys of each issuer come from; undefined with a shared secret. */
  readonly sources: ReadonlyMap<string, KeySource | undefined>
}

/** @throws {KitMcpConfigError} naming the option that is wrong. */
export function resolveJwtOptions<User>(options: JwtVerifierOptions<User>): ResolvedJwtOptions<User> {
  if (!isOptionsObject(options))
    throw invalidKind('jwtVerifier', 'takes an object with at least { issuer, audience }', options)
  checkKnownOptions('jwtVerifier', options, KNOWN_OPTIONS)
  const allowInsecureHttp =
    options.allowInsecureHttp === undefined
      ? false
      : checkBoolean('allowInsecureHttp', options.allowInsecureHttp)
  const issuers = checkIssuers(options, allowInsecureHttp)
  const audiences = checkAudiences(checks, options)
  const rules: JwtRules<User> = {
    audiences,
    resources: resourcesAmong(audiences),
    algorithms: checkAlgorithms(options),
    clockTolerance: seconds(options, 'clockToleranceSeconds', 0),
    requiredClaims:
      options.requiredClaims === undefined ? [] : checkTexts('requiredClaims', options.requiredClaims),
    strict: options.strict === undefined ? false : checkBoolean('strict', options.strict),
    secret: options.secret ?? '',
    mapUser: options.mapUser,
  }
  if (options.mapUser !== undefined)
    checkFunction('mapUser', options.mapUser, 'it makes the user from the claims')
  return { rules, sources: keySources(options, issuers, allowInsecureHttp) }
}

function keySources(
  options: JwtVerifierOptions<unknown>,
  issuers: readonly string[],
  allowInsecureHttp: boolean,
): Map<string, KeySource | undefined> {
  const given = (['jwksUri', 'publicKey', 'secret'] as const).filter(
    (option) => options[option] !== undefined,
  )
  if (given.length > 1) {
    throw invalidOption(
      given[1] as string,
      `cannot be given together with ${given[0]}: keys come from one place`,
    )
  }
  if (options.secret !== undefined && (typeof options.secret !== 'string' || options.secret === '')) {
    throw invalidKind('secret', 'must be a non-empty string', options.secret)
  }
  if (options.jwksUri !== undefined) checkUrl('jwksUri', options.jwksUri, { allowInsecureHttp })
  const remote = {
    jwksUri: options.jwksUri,
    cooldownSeconds: seconds(options, 'jwksCooldownSeconds', 30),
    cacheSeconds: seconds(options, 'jwksCacheSeconds', 600),
    allowInsecureHttp,
    pace: new OutagePace(),
  }
  const local = options.publicKey === undefined ? undefined : localKeys(options.publicKey)
  return new Map(
    issuers.map((issuer) => [
      issuer,
      options.secret !== undefined ? undefined : (local ?? new RemoteKeys({ issuer, ...remote })),
    ]),
  )
}

function checkIssuers(options: JwtVerifierOptions<unknown>, allowInsecureHttp: boolean): readonly string[] {
  const { issuer, issuers } = options
  if (issuer !== undefined && issuers !== undefined) {
    throw invalidOption('issuers', 'cannot be given together with issuer: put all of them into issuers')
  }
  const given = issuers ?? (issuer === undefined ? [] : [issuer])
  if (!Array.isArray(given)) throw invalidKind('issuers', 'must be an array of URLs', given)
  if (given.length === 0)
    throw missingOption('issuer', `give the 'iss' of your tokens, such as 'https://auth.example.com'`)
  for (const one of given)
    checkIssuer(issuer === undefined ? 'issuers' : 'issuer', one, { allowInsecureHttp })
  return [...new Set(given)]
}

function checkAlgorithms(options: JwtVerifierOptions<unknown>): readonly string[] {
  const { algorithms, secret } = options
  const supported = secret === undefined ? ASYMMETRIC : SYMMETRIC
  if (algorithms === undefined) return secret === undefined ? ASYMMETRIC : ['HS256']
  const given = checkTexts('algorithms', algorithms)
  if (given.length === 0)
    throw invalidOption('algorithms', `must name at least one of ${supported.join(', ')}`, given)
  for (const algorithm of given) {
    if (supported.includes(algorithm)) continue
    if (SYMMETRIC.includes(algorithm))
      throw invalidOption('algorithms', `must not hold ${algorithm} without a secret`)
    throw invalidOption('algorithms', `must hold only ${supported.join(', ')}`, algorithm)
  }
  return given
}

function seconds(
  options: JwtVerifierOptions<unknown>,
  option: 'clockToleranceSeconds' | 'jwksCooldownSeconds' | 'jwksCacheSeconds',
  fallback: number,
): number {
  const value = options[option]
  return value === undefined ? fallback : checkSeconds(option, value, 0)
}
