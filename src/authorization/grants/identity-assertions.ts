import { isUtf8 } from 'node:buffer'
import type * as Jose from 'jose'
import type { JWK, JWTPayload } from 'jose'
import { RemoteKeys } from '../../oauth/verifiers/jwks.ts'
import { OutagePace } from '../../oauth/verifiers/outage-pace.ts'
import { optionChecksOf } from '../../options/option-checks.ts'
import { also, type OptionRule, optional, type RulesFor } from '../../options/option-rules.ts'
import { isRecord } from '../../options/value-kinds.ts'
import { TemporarilyUnavailableError } from '../unavailable.ts'

const { httpsIssuer, httpsUrl, invalidKind, invalidOption, items, members, required, text } =
  optionChecksOf('authorizationFacade')

/** An identity provider whose assertions are accepted. */
export interface IdentityAssertionIssuer {
  /** The issuer: the `iss` of its assertions. */
  readonly issuer: string
  /** The URL of its keys. By default it is read from the metadata of the issuer. */
  readonly jwksUri?: string | undefined
  /**
   * The accepted `tenant` of its assertions, for an issuer with several tenants. Without it, assertions with a `tenant` are
   * refused.
   */
  readonly tenant?: string | undefined
}

/** The identity assertions (ID-JAG) that an authorization server accepts. */
export interface IdentityAssertionsOptions {
  /** The identity providers whose assertions are accepted. */
  readonly issuers: readonly IdentityAssertionIssuer[]
}

const ISSUER_RULES = {
  issuer: required(
    also(httpsIssuer, (option, issuer) => {
      if (issuer.includes('|'))
        throw invalidOption(option, 'must not contain a vertical bar', issuer, 'Encode it as %7C.')
    }),
    'set it to the issuer of the identity provider',
  ),
  jwksUri: optional(httpsUrl),
  tenant: optional(text),
} satisfies RulesFor<IdentityAssertionIssuer>

const RULES = {
  issuers: required(
    items(
      'must be a non-empty array of { issuer }',
      members('must contain objects such as { issuer }', ISSUER_RULES),
      1,
    ),
    'set it to a list of identity providers: [{ issuer }]',
  ),
} satisfies RulesFor<IdentityAssertionsOptions>

/** The rule of the option `identityAssertions`. A server does not accept its own assertions: those of its `url`. */
export const identityAssertionsRule: OptionRule<Required<IdentityAssertionsOptions>> = also(
  members('must be an object such as { issuers: [{ issuer }] }', RULES),
  (option, { issuers }, { url }) => {
    const own = issuers.find(({ issuer }) => issuer === url)
    if (own !== undefined)
      throw invalidOption(
        `${option}.issuers.issuer`,
        'must not be the option url',
        own.issuer,
        'Name the identity provider of the users.',
      )
    if (new Set(issuers.map(({ issuer }) => issuer)).size < issuers.length)
      throw invalidKind(`${option}.issuers`, 'must not contain an issuer twice', issuers)
  },
)

/** The maximum length of an assertion. Usual ones have a tenth of it. */
const MAX_LENGTH = 16_384
/** The maximum length of an identifier in an assertion. */
const MAX_ID_LENGTH = 500
/** The maximum time between `iat` and `exp`. It bounds how long the `jti` is stored. */
const MAX_LIFETIME_SECONDS = 3_600
/** The tolerated difference between the clocks of two servers. */
const CLOCK_TOLERANCE_SECONDS = 60
/** The maximum number of resources in an assertion. */
const MAX_RESOURCES = 20
/** The maximum number of keys that are tried for an assertion whose header does not name the key. */
const MAX_KEYS_TRIED = 16

const TYPE = 'oauth-id-jag+jwt'

/** Asymmetric algorithms only: neither `none` nor HMAC. */
const ALGORITHMS: readonly string[] = [
  'ES256',
  'ES384',
  'ES512',
  'EdDSA',
  'Ed25519',
  'PS256',
  'PS384',
  'PS512',
  'RS256',
  'RS384',
  'RS512',
]

/** The causes that a client may know: they need a valid signature, or they do not depend on the accepted issuers. */
const DESCRIPTIONS = {
  audience: 'aud of the assertion must be the issuer of this server',
  client: 'client_id of the assertion must be the authenticated client',
  details: 'authorization_details of assertions are not supported',
  expired: 'the assertion has expired',
  identifier: 'sub and jti of the assertion must be strings of 1 to 500 characters',
  key_bound: 'the assertion is bound to a key, and the request has no DPoP proof with this key',
  lifetime: 'iat and exp of the assertion must be at most one hour apart, and iat must not be in the future',
  not_allowed: 'this account may not sign in',
  not_active: 'the assertion is not valid yet',
  replayed: 'the assertion was used already; request a new one',
  resource: 'resource of the assertion must name one resource of this server',
  scope: 'none of the scopes can be granted',
  tenant: 'the tenant of the assertion is not accepted',
  untrusted: 'the assertion is not accepted',
} as const

/** The cause for which an assertion is refused, as events show it. Clients see other words for those about trust. */
export type AssertionCause = Exclude<keyof typeof DESCRIPTIONS, 'untrusted'> | UntrustedCause

type UntrustedCause = 'algorithm' | 'issuer' | 'not_a_jwt' | 'signature' | 'type'

/** An assertion that is refused. */
export class AssertionRefusal extends Error {
  override readonly cause: AssertionCause
  readonly description: string

  constructor(cause: AssertionCause, description?: string) {
    super(`the assertion was refused: ${cause}`)
    this.cause = cause
    // A client must not learn which identity providers are accepted.
    this.description =
      description ??
      (Object.hasOwn(DESCRIPTIONS, cause) ? DESCRIPTIONS[cause as 'client'] : DESCRIPTIONS.untrusted)
  }
}

/** An assertion whose signature and claims are valid for a client. Replay is checked later. */
export interface VerifiedAssertion {
  readonly issuer: string
  readonly claims: JWTPayload & { readonly sub: string }
  /** The scopes of the assertion, or `undefined` if it does not limit them. */
  readonly scope: string | undefined
  /** The resources that the assertion names. */
  readonly resources: readonly string[]
  /** Identifies the assertion among those of all issuers. */
  readonly replayKey: string
  /** The time after which it is refused as expired, in seconds since 1970. */
  readonly expiresAtSeconds: number
  /** The thumbprint of the key to which the assertion is bound. */
  readonly keyThumbprint: string | undefined
}

/**
 * Verifies identity assertions (ID-JAG): JWTs with which the identity provider of a company lets a client act for an employee
 * (draft-ietf-oauth-identity-assertion-authz-grant, section 4.4.1, and RFC 7523 section 3).
 */
export class IdentityAssertions {
  readonly #issuers: ReadonlyMap<string, { readonly keys: RemoteKeys; readonly tenant: string | undefined }>
  readonly #audiences: readonly string[]

  /** @param url the issuer of this server. */
  constructor(issuers: readonly IdentityAssertionIssuer[], url: string) {
    const pace = new OutagePace()
    this.#issuers = new Map(
      issuers.map(({ issuer, jwksUri, tenant }) => {
        const keys = new RemoteKeys({
          issuer,
          jwksUri,
          jwksCooldownSeconds: 30,
          jwksCacheSeconds: 600,
          allowInsecureHttp: false,
          pace,
        })
        return [issuer, { keys, tenant }]
      }),
    )
    // An origin with and without a slash is the same URL (RFC 3986 section 6.2.3).
    this.#audiences = new URL(url).pathname === '/' ? [url, `${url}/`] : [url]
  }

  /**
   * Verifies an assertion that a client has sent.
   * @param clientId the authenticated client.
   * @throws {AssertionRefusal} if the assertion is not accepted.
   * @throws {TemporarilyUnavailableError} if the keys of its issuer cannot be fetched.
   */
  async verify(assertion: string, clientId: string): Promise<VerifiedAssertion> {
    if (assertion.length > MAX_LENGTH) throw new AssertionRefusal('not_a_jwt')
    const jose = await import('jose')
    const { header, issuer } = readUntrusted(jose, assertion)
    if (!isIdJag(header.typ)) throw new AssertionRefusal('type')
    if (!ALGORITHMS.includes(String(header.alg))) throw new AssertionRefusal('algorithm')
    const known = typeof issuer === 'string' ? this.#issuers.get(issuer) : undefined
    if (known === undefined) throw new AssertionRefusal('issuer')
    const kid = typeof header.kid === 'string' ? header.kid : undefined
    const keys = known.keys.held(kid) ?? (await this.#fetchedKeys(known.keys, kid))
    const claims = await verified(jose, assertion, keys, String(issuer))
    return this.#checked(claims, clientId, known.tenant)
  }

  async #fetchedKeys(keys: RemoteKeys, kid: string | undefined): Promise<readonly JWK[]> {
    try {
      return await keys.keysFor(kid)
    } catch {
      throw new TemporarilyUnavailableError('The keys of the identity provider are unavailable')
    }
  }

  #checked(claims: JWTPayload, clientId: string, tenant: string | undefined): VerifiedAssertion {
    const { aud, sub, jti, iat, exp, iss, resource, scope, client_id: client, tenant: stated, cnf } = claims
    const [audience, ...others] = [aud].flat()
    if (others.length > 0 || !this.#audiences.includes(String(audience)))
      throw new AssertionRefusal('audience')
    if (client !== clientId) throw new AssertionRefusal('client')
    if (!isIdentifier(sub) || !isIdentifier(jti)) throw new AssertionRefusal('identifier')
    if (!isShortLived(iat, exp)) throw new AssertionRefusal('lifetime')
    // A subject is unique only within its tenant.
    if (stated !== tenant) throw new AssertionRefusal('tenant')
    // Ignoring them would grant more than the identity provider allows.
    if (claims.authorization_details !== undefined) throw new AssertionRefusal('details')
    if (scope !== undefined && typeof scope !== 'string') throw new AssertionRefusal('scope')
    const resources = [resource].flat()
    if (resources.length > MAX_RESOURCES || !resources.every((one) => typeof one === 'string'))
      throw new AssertionRefusal('resource')
    return {
      issuer: String(iss),
      claims: { ...claims, sub },
      scope,
      resources,
      replayKey: JSON.stringify([iss, jti]),
      expiresAtSeconds: Number(exp) + CLOCK_TOLERANCE_SECONDS,
      keyThumbprint: keyThumbprintIn(cnf),
    }
  }
}

/** Reads the header and the issuer of an assertion, which are untrusted. */
function readUntrusted(
  { decodeJwt, decodeProtectedHeader }: typeof Jose,
  assertion: string,
): { readonly header: Jose.ProtectedHeaderParameters; readonly issuer: unknown } {
  try {
    const payload = assertion.split('.', 3)[1] ?? ''
    // Decoders replace invalid bytes, so that two subjects could become equal.
    if (!isUtf8(Buffer.from(payload, 'base64url'))) throw new Error('the payload is not UTF-8')
    return { header: decodeProtectedHeader(assertion), issuer: decodeJwt(assertion).iss }
  } catch {
    throw new AssertionRefusal('not_a_jwt')
  }
}

/** Compares a media type, which may omit its prefix (RFC 7515 section 4.1.9). */
function isIdJag(typ: unknown): boolean {
  return typeof typ === 'string' && typ.toLowerCase().replace(/^application\//, '') === TYPE
}

/** Verifies the signature and the times of an assertion, and returns its claims. */
async function verified(
  jose: typeof Jose,
  assertion: string,
  keys: readonly JWK[],
  issuer: string,
): Promise<JWTPayload> {
  const options = {
    issuer,
    algorithms: [...ALGORITHMS],
    typ: TYPE,
    clockTolerance: CLOCK_TOLERANCE_SECONDS,
    requiredClaims: ['exp', 'iat', 'sub', 'jti', 'aud', 'client_id'],
  }
  const { JWSSignatureVerificationFailed, JWKSMultipleMatchingKeys } = jose.errors
  try {
    return (await jose.jwtVerify(assertion, jose.createLocalJWKSet({ keys: [...keys] }), options)).payload
  } catch (error) {
    if (!(error instanceof JWKSMultipleMatchingKeys)) throw refusalOf(jose, error)
    let tried = 0
    for await (const key of error) {
      if (++tried > MAX_KEYS_TRIED) break
      try {
        return (await jose.jwtVerify(assertion, key, options)).payload
      } catch (failure) {
        if (!(failure instanceof JWSSignatureVerificationFailed)) throw refusalOf(jose, failure)
      }
    }
    throw new AssertionRefusal('signature')
  }
}

/** Returns the refusal for an error of the library. Claims are validated after the signature. */
function refusalOf({ errors }: typeof Jose, error: unknown): AssertionRefusal {
  if (error instanceof errors.JWTExpired) return new AssertionRefusal('expired')
  if (!(error instanceof errors.JWTClaimValidationFailed)) return new AssertionRefusal('signature')
  const causes: Readonly<Record<string, AssertionCause>> = {
    aud: 'audience',
    client_id: 'client',
    exp: 'lifetime',
    iat: 'lifetime',
    jti: 'identifier',
    nbf: 'not_active',
    sub: 'identifier',
    typ: 'type',
  }
  return new AssertionRefusal(causes[error.claim] ?? 'issuer')
}

function isIdentifier(value: unknown): value is string {
  return typeof value === 'string' && value !== '' && value.length <= MAX_ID_LENGTH
}

function isShortLived(iat: unknown, exp: unknown): boolean {
  if (!Number.isFinite(iat) || !Number.isFinite(exp)) return false
  const lifetime = Number(exp) - Number(iat)
  const isPast = Number(iat) <= Date.now() / 1000 + CLOCK_TOLERANCE_SECONDS
  return isPast && lifetime > 0 && lifetime <= MAX_LIFETIME_SECONDS
}

/** Returns the thumbprint in `cnf`. Other ways to bind an assertion to a key are not supported, so that none matches. */
function keyThumbprintIn(cnf: unknown): string | undefined {
  if (cnf === undefined) return undefined
  const { jkt } = isRecord(cnf) ? cnf : {}
  if (typeof jkt !== 'string' || jkt === '') throw new AssertionRefusal('key_bound')
  return jkt
}
