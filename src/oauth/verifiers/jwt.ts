import { createPublicKey, type JsonWebKey, KeyObject, type webcrypto } from 'node:crypto'
import type { AuthOptions, AuthResult } from 'express-oauth2-jwt-bearer'
import type { JSONWebKeySet, JWK, JWTPayload } from 'jose'
import { configuredResource, noteRefusal } from '../inputs.ts'
import {
  checkBoolean,
  checkFunction,
  checkKnownOptions,
  checkUrl,
  checkWholeNumber,
  invalidOption,
  isOptionsObject,
  missingOption,
} from '../option-checks.ts'
import type { VerifiedToken, VerifyToken, VerifyTokenInput } from '../options.ts'
import { grantedScopes } from '../scope.ts'
import { type KeySource, RemoteKeys } from './jwks.ts'

const ASYMMETRIC = ['RS256', 'RS384', 'RS512', 'PS256', 'PS384', 'PS512', 'ES256', 'ES384', 'ES512', 'EdDSA']
const SYMMETRIC = ['HS256', 'HS384', 'HS512']

/** A public key in any of the forms people have them in. */
export type PublicKeyInput = string | JWK | JSONWebKeySet | KeyObject | webcrypto.CryptoKey

/** The user when no `mapUser` is given. */
export interface JwtUser {
  /** The `sub` claim. */
  readonly id: string | undefined
  readonly claims: JWTPayload
}

export interface JwtVerifierOptions<User = JwtUser> {
  /** The `iss` that is accepted. This or `issuers`. */
  readonly issuer?: string
  /** Several `iss` that are accepted, each with its own keys unless keys are given here. */
  readonly issuers?: readonly string[]
  /** What `aud` must hold one of. This or `resource` is required: a token for somebody else is refused (RFC 8707). */
  readonly audience?: string | readonly string[]
  /** The same as `audience`, for a resource indicator of RFC 8707. */
  readonly resource?: string
  /** Where the keys are. Default: found through the issuer's metadata (RFC 8414, OpenID Connect Discovery). */
  readonly jwksUri?: string
  /** The key or keys themselves, instead of `jwksUri`: PEM, JWK, JWK Set, `KeyObject` or `CryptoKey`. */
  readonly publicKey?: PublicKeyInput
  /** A shared secret, for HMAC algorithms. */
  readonly secret?: string
  /** Signature algorithms. Default: every asymmetric one, or HS256 with `secret`. `none` never. */
  readonly algorithms?: readonly string[]
  /** Seconds that clocks may differ by. Default 0. */
  readonly clockToleranceSeconds?: number
  /** Claims that must be present. */
  readonly requiredClaims?: readonly string[]
  /** Requires `typ: at+jwt` (RFC 9068). Default false. */
  readonly strict?: boolean
  /** Makes the user from the claims. Default `{ id: sub, claims }`. */
  readonly mapUser?: (claims: JWTPayload) => User | Promise<User>
  /** Seconds between two fetches of the keys for an unknown `kid`. Default 30. */
  readonly jwksCooldownSeconds?: number
  /** Seconds after which the keys are fetched again. Default 600. */
  readonly jwksCacheSeconds?: number
  /** Allows http for `issuer` and `jwksUri` on hosts that are not loopback. Default false. */
  readonly allowInsecureHttp?: boolean
}

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

/** A token may be dated this far ahead: issuers' clocks run fast too. */
const FUTURE_IAT_SECONDS = 60

interface Rules<User> {
  readonly audiences: readonly string[]
  readonly algorithms: readonly string[]
  readonly clockTolerance: number
  readonly requiredClaims: readonly string[]
  readonly strict: boolean
  readonly secret: string
  readonly mapUser: ((claims: JWTPayload) => User | Promise<User>) | undefined
}

/**
 * A verifier for JWT access tokens, on `express-oauth2-jwt-bearer`. Checks the signature, `iss`, `aud`,
 * `exp` (required), `nbf`, and `typ` when `strict`. A token bound to a key (`cnf`, RFC 9449 and RFC 8705)
 * is refused, as it must not be accepted as a plain Bearer token.
 *
 * An `aud` that is an http(s) URL is given on as the token's `resource`, which the gate compares with its own.
 * Does not check revocation. The environment never changes what is accepted.
 * @throws {KitMcpConfigError} when it is built with options that cannot be.
 * @throws {VerifierUnavailableError} at a request, when the keys cannot be had.
 */
export function jwtVerifier<User = JwtUser>(options: JwtVerifierOptions<User>): VerifyToken<unknown, User> {
  const { rules, sources } = resolve(options)
  const verifiers = new Map(
    [...sources].map(([issuer, keys]) => [issuer, new IssuerVerifier(issuer, keys, rules)] as const),
  )
  return async function verifyJwt(input: VerifyTokenInput): Promise<VerifiedToken<User> | undefined> {
    const { bearerToken } = input
    if (!bearerToken) return undefined
    const stated = await decode(bearerToken)
    // Nothing is fetched for a token that no key could make good.
    if (stated === undefined || !rules.algorithms.includes(stated.alg)) return undefined
    return await verifiers.get(String(stated.claims.iss))?.verify(bearerToken, stated.kid, input)
  }
}

class IssuerVerifier<User> {
  readonly #issuer: string
  readonly #keys: KeySource | undefined
  readonly #rules: Rules<User>
  /** The library checks against one key set; a new set gets a new check. */
  #check: { readonly keys: JSONWebKeySet | undefined; readonly run: JwtCheck } | undefined

  constructor(issuer: string, keys: KeySource | undefined, rules: Rules<User>) {
    this.#issuer = issuer
    this.#keys = keys
    this.#rules = rules
  }

  async verify(
    token: string,
    kid: string | undefined,
    input: VerifyTokenInput,
  ): Promise<VerifiedToken<User> | undefined> {
    const keys = await this.#keys?.keysFor(kid)
    if (this.#check === undefined || this.#check.keys !== keys) {
      this.#check = { keys, run: await makeCheck(this.#issuer, keys, this.#rules) }
    }
    const checked = await this.#check.run(token)
    if (typeof checked === 'string') {
      if (checked.startsWith('"exp" claim timestamp')) noteRefusal(input, 'expired')
      if (/['"]aud['"]/.test(checked)) noteRefusal(input, 'wrong_resource')
      return undefined
    }
    return await accept(checked.payload as JWTPayload, this.#rules, configuredResource(input))
  }
}

async function accept<User>(
  claims: JWTPayload,
  rules: Rules<User>,
  gateResource: string | undefined,
): Promise<VerifiedToken<User> | undefined> {
  if (isKeyBound(claims)) return undefined
  for (const claim of rules.requiredClaims) if (claims[claim] === undefined) return undefined
  const exp = claims.exp as number
  // A token may be for several resources; what counts is whether it is for the one that asks.
  const resources = [claims.aud ?? []].flat().filter((aud) => rules.audiences.includes(aud) && isHttpUrl(aud))
  const resource = resources.find((aud) => aud === gateResource) ?? resources[0]
  return {
    valid: true,
    user: rules.mapUser === undefined ? (userOf(claims) as User) : await rules.mapUser(claims),
    scopes: grantedScopes(claims.scope ?? claims.scp ?? claims.permissions),
    clientId: [claims.client_id, claims.azp, claims.cid].find((id): id is string => typeof id === 'string'),
    expiresAt: exp > Date.now() / 1000 ? exp : exp + rules.clockTolerance,
    resource,
  }
}

function userOf(claims: JWTPayload): JwtUser {
  return { id: claims.sub, claims }
}

function isHttpUrl(value: string): boolean {
  return /^https?:\/\//.test(value) && URL.canParse(value)
}

/** RFC 9449 §7.2, RFC 8705 §3: such a token is worth nothing without a proof of the key. */
function isKeyBound(claims: JWTPayload): boolean {
  const cnf = claims.cnf
  return typeof cnf === 'object' && cnf !== null && ('jkt' in cnf || 'x5t#S256' in cnf)
}

interface StatedToken {
  readonly alg: string
  readonly kid: string | undefined
  readonly claims: JWTPayload
}

/** Header and claims as the token states them: enough to find the key, not to be believed. */
async function decode(token: string): Promise<StatedToken | undefined> {
  const { decodeJwt, decodeProtectedHeader } = await import('jose')
  try {
    const { alg, kid } = decodeProtectedHeader(token)
    return { alg: String(alg), kid: typeof kid === 'string' ? kid : undefined, claims: decodeJwt(token) }
  } catch {
    return undefined
  }
}

/** The claims of a good token, or what is wrong with a bad one. */
type JwtCheck = (token: string) => Promise<AuthResult | string>

async function makeCheck<User>(
  issuer: string,
  keys: JSONWebKeySet | undefined,
  rules: Rules<User>,
): Promise<JwtCheck> {
  const { auth } = await import('express-oauth2-jwt-bearer')
  const { secret, algorithms, strict, clockTolerance } = rules
  // Every option is given, as the library reads the environment for those that are not.
  const options: AuthOptions = {
    issuerBaseURL: '',
    jwksUri: '',
    issuer,
    audience: [...rules.audiences],
    secret,
    tokenSigningAlg: secret === '' ? '' : (algorithms[0] as string),
    ...(keys !== undefined && { publicKey: keys }),
    clockTolerance,
    strict: false,
    dpop: { enabled: false },
    validators: {
      alg: (alg) => algorithms.includes(alg as string),
      typ: (typ) => !strict || (typeof typ === 'string' && /^(?:application\/)?at\+jwt$/i.test(typ)),
      iat: (iat) =>
        iat === undefined ||
        (typeof iat === 'number' && iat <= Date.now() / 1000 + Math.max(clockTolerance, FUTURE_IAT_SECONDS)),
    },
  }
  const middleware = auth(options)
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
        if (request.auth !== undefined && error === undefined) resolve(request.auth)
        else resolve(error instanceof Error ? error.message : 'not verified')
      }
      void middleware(request as never, {} as never, next)
    })
}

function resolve<User>(options: JwtVerifierOptions<User>): {
  rules: Rules<User>
  sources: Map<string, KeySource | undefined>
} {
  if (!isOptionsObject(options))
    throw invalidOption('jwtVerifier', 'takes an object with at least { issuer, audience }')
  checkKnownOptions('jwtVerifier', options, KNOWN_OPTIONS)
  const allowInsecureHttp =
    options.allowInsecureHttp === undefined
      ? false
      : checkBoolean('allowInsecureHttp', options.allowInsecureHttp)
  const issuers = checkIssuers(options, allowInsecureHttp)
  const rules: Rules<User> = {
    audiences: checkAudiences(options),
    algorithms: checkAlgorithms(options),
    clockTolerance: wholeNumber(options, 'clockToleranceSeconds', 0),
    requiredClaims: checkTexts('requiredClaims', options.requiredClaims ?? []),
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
    throw invalidOption('secret', 'must be a non-empty string')
  }
  if (options.jwksUri !== undefined) checkUrl('jwksUri', options.jwksUri, { allowInsecureHttp })
  const remote = {
    jwksUri: options.jwksUri,
    cooldownSeconds: wholeNumber(options, 'jwksCooldownSeconds', 30),
    cacheSeconds: wholeNumber(options, 'jwksCacheSeconds', 600),
    allowInsecureHttp,
  }
  const local = options.publicKey === undefined ? undefined : localKeys(options.publicKey)
  return new Map(
    issuers.map((issuer) => [
      issuer,
      options.secret !== undefined ? undefined : (local ?? new RemoteKeys({ issuer, ...remote })),
    ]),
  )
}

/** Public keys given outright, in whatever form, as one JWK Set without private parts. */
function localKeys(given: PublicKeyInput): KeySource {
  let keys: JWK[]
  try {
    keys = (isKeySet(given) ? given.keys : [given]).map(publicJwk)
    if (keys.length === 0) throw new TypeError('no key')
  } catch {
    throw invalidOption('publicKey', 'must be a public key: PEM, JWK, JWK Set, KeyObject or CryptoKey')
  }
  const nameless = keys.some((key) => key.kid === undefined)
  const set: JSONWebKeySet = { keys }
  let named: { readonly kid: string; readonly set: JSONWebKeySet } | undefined
  return {
    async keysFor(kid) {
      if (!nameless || kid === undefined) return set
      // A key without a name is for every `kid`; the library would look for that one only.
      if (named?.kid !== kid)
        named = { kid, set: { keys: keys.map((key) => ({ ...key, kid: key.kid ?? kid })) } }
      return named.set
    },
  }
}

function isKeySet(given: PublicKeyInput): given is JSONWebKeySet {
  return isOptionsObject(given) && Array.isArray((given as { keys?: unknown }).keys)
}

function publicJwk(given: string | JWK | KeyObject | webcrypto.CryptoKey): JWK {
  if (typeof given === 'string') return createPublicKey(given).export({ format: 'jwk' }) as JWK
  if (given instanceof KeyObject) return publicPart(given)
  if (Object.prototype.toString.call(given) === '[object CryptoKey]') {
    return publicPart(KeyObject.from(given as webcrypto.CryptoKey))
  }
  const { kid, alg, use } = given as JWK
  const jwk = createPublicKey({ key: given as JsonWebKey, format: 'jwk' }).export({ format: 'jwk' }) as JWK
  return { ...jwk, ...(kid && { kid }), ...(alg && { alg }), ...(use && { use }) }
}

function publicPart(key: KeyObject): JWK {
  if (key.type === 'secret') throw new TypeError('a secret is no public key')
  return (key.type === 'private' ? createPublicKey(key) : key).export({ format: 'jwk' }) as JWK
}

function checkIssuers(options: JwtVerifierOptions<unknown>, allowInsecureHttp: boolean): readonly string[] {
  const { issuer, issuers } = options
  if (issuer !== undefined && issuers !== undefined) {
    throw invalidOption('issuers', 'cannot be given together with issuer: put all of them into issuers')
  }
  const given = issuers ?? (issuer === undefined ? [] : [issuer])
  if (!Array.isArray(given)) throw invalidOption('issuers', 'must be an array of URLs')
  if (given.length === 0)
    throw missingOption('issuer', `give the 'iss' of your tokens, such as 'https://auth.example.com'`)
  for (const one of given) checkUrl(issuer === undefined ? 'issuers' : 'issuer', one, { allowInsecureHttp })
  return [...new Set(given)]
}

function checkAudiences(options: JwtVerifierOptions<unknown>): readonly string[] {
  const { audience, resource } = options
  if (audience !== undefined && resource !== undefined) {
    throw invalidOption('resource', 'cannot be given together with audience: both say what aud must be')
  }
  const option = resource === undefined ? 'audience' : 'resource'
  const given = audience ?? resource
  if (given === undefined || given.length === 0) {
    throw missingOption(
      'audience',
      'give what aud must be, usually the URL of this MCP server: without it tokens for others would pass',
    )
  }
  return checkTexts(option, typeof given === 'string' ? [given] : given)
}

function checkAlgorithms(options: JwtVerifierOptions<unknown>): readonly string[] {
  const { algorithms, secret } = options
  const supported = secret === undefined ? ASYMMETRIC : SYMMETRIC
  if (algorithms === undefined) return secret === undefined ? ASYMMETRIC : ['HS256']
  const given = checkTexts('algorithms', algorithms)
  if (given.length === 0)
    throw invalidOption('algorithms', `must name at least one of ${supported.join(', ')}`)
  for (const algorithm of given) {
    if (supported.includes(algorithm)) continue
    if (SYMMETRIC.includes(algorithm))
      throw invalidOption('algorithms', `must not hold ${algorithm} without a secret`)
    throw invalidOption('algorithms', `must hold only ${supported.join(', ')}`)
  }
  return given
}

function checkTexts(option: string, given: unknown): readonly string[] {
  if (!Array.isArray(given) || given.some((text) => typeof text !== 'string' || text === '')) {
    throw invalidOption(option, 'must be an array of non-empty strings')
  }
  return Object.freeze([...given])
}

function wholeNumber(
  options: JwtVerifierOptions<unknown>,
  option: 'clockToleranceSeconds' | 'jwksCooldownSeconds' | 'jwksCacheSeconds',
  fallback: number,
): number {
  const value = options[option]
  return value === undefined ? fallback : checkWholeNumber(option, value, 0)
}
