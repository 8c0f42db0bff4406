import type { X509Certificate } from 'node:crypto'
import type { JWTPayload } from 'jose'
import type { KitMcpConfigError } from '../../base/options/config-error.ts'
import { optionChecksOf } from '../../base/options/option-checks.ts'
import { optional, type ReadBy, type RulesFor, unchecked } from '../../base/options/option-rules.ts'
import type { GateValues } from '../gate-values.ts'
import { ASKED_ISSUER_LIMITS, AskedIssuers, type AskIssuer } from './asked-issuers.ts'
import { AUDIENCE_HINT, acceptedAudiences, checkAudiences, resourcesAmong } from './audience.ts'
import { type KeySource, RemoteKeys } from './jwks.ts'
import { localKeys, type PublicKeyInput, secretKey } from './public-keys.ts'
import { tokenRules } from './token-claims.ts'

const checks = optionChecksOf('jwtVerifier')
const {
  checkBoolean,
  checkTexts,
  invalidKind,
  invalidOption,
  issuer: checkIssuer,
  missingOption,
  readOptions,
  seconds,
  secret,
  unusableOption,
  url,
} = checks

/** The user that `jwtVerifier` returns without `mapUser`. */
export interface JwtUser {
  /** The `sub` claim. */
  readonly id: string | undefined
  /** All claims of the token. */
  readonly claims: JWTPayload
}

/** Options of {@link jwtVerifier}. */
export interface JwtVerifierOptions<User = JwtUser> {
  /** The accepted `iss`. Exclusive with `issuers`. Defaults to the `issuer` of the gate that uses the verifier. */
  readonly issuer?: string | undefined
  /**
   * Several accepted `iss`. Each has its own keys, unless `jwksUri` or `publicKey` is set.
   *
   * If the issuers are not known in advance, such as those of tenants, set a function. It gets the `iss` of each token before
   * anything is fetched, and only `true` accepts it. If it throws, or takes more than 5 s, the response is 503.
   *
   * - It gets only https URLs of at most 1,024 characters without credentials, query, and fragment, in the form that the URL parser
   *   writes. Tokens of other issuers are rejected.
   * - Each issuer has its own keys, of at most 100 keys and 64 KiB. Those of the 100 issuers that were used last are kept.
   * - It excludes `issuer`, `jwksUri`, `publicKey`, and `secret`.
   */
  readonly issuers?: readonly string[] | ((iss: string) => boolean | Promise<boolean>) | undefined
  /**
   * The accepted audiences: `aud` of a token must be, or contain, one of them (RFC 8707). Exclusive with `resource`.
   * Defaults to the fixed `resource` of the gate that uses the verifier.
   */
  readonly audience?: string | readonly string[] | undefined
  /** Another name for `audience`, for a single resource indicator (RFC 8707). */
  readonly resource?: string | undefined
  /**
   * The accepted spellings of an audience that is only an origin. With `optional`, `https://host` and `https://host/` count as
   * the same audience (RFC 3986 §6.2.3). Needed by claude.ai (2026-11), which requests tokens with the slash. Defaults to
   * `exact`.
   */
  readonly audienceSlash?: 'exact' | 'optional' | undefined
  /** The URL of the keys. By default it is read from the issuer's metadata (RFC 8414, OpenID Connect Discovery). */
  readonly jwksUri?: string | undefined
  /** The public key or keys, instead of `jwksUri`: a PEM string, JWK, JWK Set, `KeyObject`, or `CryptoKey`. */
  readonly publicKey?: PublicKeyInput | undefined
  /** A shared secret for HMAC algorithms, instead of public keys. */
  readonly secret?: string | undefined
  /** The accepted signature algorithms, never `none`. Defaults to all asymmetric ones, or to HS256 if `secret` is set. */
  readonly algorithms?: readonly string[] | undefined
  /** The maximum difference between clocks, in seconds. Defaults to 0 s. */
  readonly clockToleranceSeconds?: number | undefined
  /** Claims that must be present. `null` and the empty string count as absent. */
  readonly requiredClaims?: readonly string[] | undefined
  /** Requires `typ: at+jwt` (RFC 9068). Defaults to `false`. */
  readonly strict?: boolean | undefined
  /** Returns the user for the claims of a token. Defaults to `{ id: sub, claims }`. */
  readonly mapUser?: ((claims: JWTPayload) => User | Promise<User>) | undefined
  /**
   * Returns the scopes of a token for its claims and the scopes that it has, for identity providers that issue roles or
   * groups instead of scopes. The result replaces the scopes. If the function throws or returns anything but an array of
   * strings, the token is rejected.
   */
  readonly mapScopes?: ((claims: JWTPayload, scopes: readonly string[]) => readonly string[]) | undefined
  /**
   * The source of the client's certificate, for certificate-bound tokens (RFC 8705 §3): `tls` for the TLS connection of
   * Node.js, or a function for a proxy that terminates TLS. The function returns an `X509Certificate`, DER, or PEM. A token
   * with `cnf["x5t#S256"]` is then accepted with its certificate only. By default, such tokens are rejected.
   */
  readonly clientCertificate?:
    | 'tls'
    | ((request: Request) => X509Certificate | Buffer | string | undefined)
    | undefined
  /**
   * The minimum time between two fetches of the keys for an unknown `kid`, and at least 1 s after a failure. Defaults
   * to 30 s.
   */
  readonly jwksCooldownSeconds?: number | undefined
  /** The time after which the keys are fetched again, in seconds. Defaults to 600 s. */
  readonly jwksCacheSeconds?: number | undefined
  /** Allows http for `issuer` and `jwksUri` on hosts that are not loopback. Defaults to `false`. */
  readonly allowInsecureHttp?: boolean | undefined
  /**
   * Accepts without a warning that `issuer` or `audience` differs from `issuer` or `resource` of the gate that uses the verifier.
   * Defaults to `false`: the difference is usually a typing error, and one warning is written when the gate is made.
   */
  readonly allowMismatch?: boolean | undefined
}

/** The asymmetric algorithms: neither `none` nor HMAC. */
export const ASYMMETRIC: readonly string[] = [
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

const ISSUER_HINT = `set it to the iss of your tokens, such as 'https://auth.example.com'`

const RULES = {
  issuer: unchecked<string | undefined>(),
  issuers: unchecked<readonly string[] | AskIssuer | undefined>(),
  audience: unchecked<string | readonly string[] | undefined>(),
  jwksUri: optional(url),
  publicKey: optional((_option, value) => localKeys(value as PublicKeyInput)),
  secret: optional((option, value) => secretKey(secret(option, value))),
  algorithms: checkAlgorithms,
  clockToleranceSeconds: optional(seconds(0), 0),
  strict: optional(checkBoolean, false),
  jwksCooldownSeconds: optional(seconds(0), 30),
  jwksCacheSeconds: optional(seconds(0), 600),
  ...tokenRules<JWTPayload>(checks, 'the claims'),
} satisfies RulesFor<JwtVerifierOptions>

type ReadOptions = ReadBy<typeof RULES>

/** `JwtVerifierOptions`, checked, copied, and with their defaults. */
export type ResolvedJwtOptions = ReturnType<typeof resolveJwtOptions>

/** The options of a verifier for the tokens of a gate. */
export type JwtRules = ReturnType<typeof rulesFor>

/**
 * Returns the options for a gate. An issuer and an audience that are not set are those of the gate.
 * @throws {KitMcpConfigError} if the gate has none, or its issuer needs `allowInsecureHttp`.
 */
export function rulesFor(options: ResolvedJwtOptions, gate: GateValues | undefined) {
  const { issuers = [issuerOf(gate, options.allowInsecureHttp)], audiences = [audienceOf(gate)] } = options
  const accepted = acceptedAudiences(audiences, options.audienceSlash)
  return { ...options, issuers, audiences: accepted, resources: resourcesAmong(accepted) }
}

function issuerOf(gate: GateValues | undefined, allowInsecureHttp: boolean): string {
  if (gate === undefined) throw missingOption('issuer', `${ISSUER_HINT}. Inside a gate it may be omitted`)
  return checkIssuer('issuer', gate.issuer, { allowInsecureHttp })
}

function audienceOf(gate: GateValues | undefined): string {
  if (gate === undefined)
    throw missingOption('audience', `${AUDIENCE_HINT}. Inside a gate with a fixed resource it may be omitted`)
  if (gate.resource === undefined)
    throw missingOption('audience', 'set it, or set the option resource of the gate to a string')
  return gate.resource
}

/** The error for a verifier without an issuer of its own that a second gate uses. */
export function usedByTwoGates(): KitMcpConfigError {
  const problem = 'must not be omitted for a verifier that two gates use'
  return invalidOption('issuer', `${problem}. Set it, or create one verifier for each gate`)
}

/** @throws {KitMcpConfigError} if an option is invalid. */
export function resolveJwtOptions(options: JwtVerifierOptions<any>) {
  const read = readOptions('jwtVerifier', 'must be an object such as { issuer, audience }', options, RULES)
  const { audience, resource } = read
  return {
    ...read,
    /** `undefined` if the issuer of the gate is used. */
    issuers: issuersAmong(read),
    /** `undefined` if the resource of the gate is used. */
    audiences:
      audience === undefined && resource === undefined
        ? undefined
        : checkAudiences(checks, audience, resource),
    /** Returns the source of the keys of an issuer. */
    keysOf: keySources(read),
  }
}

function keySources(read: ReadOptions): (issuer: string) => KeySource {
  const [first, second] = (['jwksUri', 'publicKey', 'secret'] as const).filter(
    (option) => read[option] !== undefined,
  )
  if (second !== undefined)
    throw invalidOption(second, `cannot be given together with ${first}. Set only one source of keys`)
  const sources = new Map<string, KeySource>()
  return (issuer) => {
    // Issuers with one address have the same keys.
    const name = read.jwksUri ?? issuer
    const source = read.publicKey ?? read.secret ?? sources.get(name) ?? new RemoteKeys({ ...read, issuer })
    sources.set(name, source)
    return source
  }
}

function issuersAmong(read: ReadOptions): readonly string[] | AskedIssuers | undefined {
  const { issuer, issuers } = read
  if (typeof issuers === 'function') return askedIssuers(issuers, read)
  return issuer === undefined && issuers === undefined ? undefined : listedIssuers(issuer, issuers, read)
}

/** @throws {KitMcpConfigError} if an option is set that is about one issuer only. */
function askedIssuers(ask: AskIssuer, read: ReadOptions): AskedIssuers {
  const other = (['issuer', 'jwksUri', 'publicKey', 'secret'] as const).find(
    (option) => read[option] !== undefined,
  )
  const problem = 'cannot be given together with a function for issuers'
  if (other !== undefined) throw unusableOption(other, problem, `Remove ${other}, or set issuers to a list.`)
  const limits = ASKED_ISSUER_LIMITS
  return new AskedIssuers(ask, (issuer) => new RemoteKeys({ ...read, issuer, limits }))
}

function listedIssuers(
  issuer: string | undefined,
  issuers: readonly string[] | undefined,
  { allowInsecureHttp }: ReadOptions,
): readonly string[] {
  if (issuer !== undefined && issuers !== undefined)
    throw invalidOption('issuers', 'cannot be given together with issuer. Add the issuer to the list')
  const option = issuer === undefined ? 'issuers' : 'issuer'
  const list = issuers ?? [issuer]
  if (!Array.isArray(list))
    throw invalidKind('issuers', 'must be an array of URLs, or a function of the iss', list)
  if (list.length === 0) throw missingOption('issuer', ISSUER_HINT)
  return [...new Set(list.map((entry) => checkIssuer(option, entry, { allowInsecureHttp })))]
}

function checkAlgorithms(
  option: string,
  algorithms: unknown,
  { secret }: Readonly<Record<string, unknown>>,
): readonly string[] {
  const supported = secret === undefined ? ASYMMETRIC : SYMMETRIC
  if (algorithms === undefined) return secret === undefined ? ASYMMETRIC : ['HS256']
  const list = checkTexts(option, algorithms)
  if (list.length === 0)
    throw invalidOption(option, `must name at least one of ${supported.join(', ')}`, list)
  for (const algorithm of list) {
    if (supported.includes(algorithm)) continue
    if (SYMMETRIC.includes(algorithm))
      throw invalidOption(option, `must not contain ${algorithm} without a secret`)
    throw invalidOption(option, `must contain only ${supported.join(', ')}`, algorithm)
  }
  return list
}
