import { isUtf8 } from 'node:buffer'
import type { JWTPayload, ProtectedHeaderParameters } from 'jose'
import { optionChecksOf } from '../../base/options/option-checks.ts'
import { also, type OptionRule, optional, type RulesFor } from '../../base/options/option-rules.ts'
import { isRecord } from '../../base/options/value-kinds.ts'
import { RemoteKeys } from '../../oauth/verifiers/jwks.ts'
import { ASYMMETRIC } from '../../oauth/verifiers/jwt-options.ts'
import { signedClaims } from '../../oauth/verifiers/jwt-signature.ts'
import { AuthorizationError, TemporarilyUnavailableError } from '../unavailable.ts'

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
    const fix = 'Name the identity provider of the users.'
    if (own !== undefined)
      throw invalidOption(`${option}.issuers.issuer`, 'must not be the option url', own.issuer, fix)
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

const TYPE = 'oauth-id-jag+jwt'

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

/** The codes of the refusals that are not `invalid_grant`. */
const CODES: Readonly<Record<string, string>> = { resource: 'invalid_target', scope: 'invalid_scope' }

/** An assertion that is refused. */
export class AssertionRefusal extends AuthorizationError {
  readonly assertionCause: AssertionCause

  constructor(cause: AssertionCause, description?: string) {
    // A client must not learn which identity providers are accepted.
    const isPublic = Object.hasOwn(DESCRIPTIONS, cause)
    const known = DESCRIPTIONS[isPublic ? (cause as 'client') : 'untrusted']
    super(400, CODES[cause] ?? 'invalid_grant', description ?? known)
    this.assertionCause = cause
  }
}

/** The claims of an assertion that is valid for a client. Replay is checked later. */
export interface VerifiedAssertion extends JWTPayload {
  readonly iss: string
  readonly sub: string
  readonly jti: string
  readonly exp: number
  /** The scopes to which it is limited. */
  readonly scope?: string
  /** The resources that it names. */
  readonly resource?: string | readonly string[]
}

/**
 * Returns a function that verifies identity assertions (ID-JAG): JWTs with which the identity provider of a company lets a client act
 * for an employee (draft-ietf-oauth-identity-assertion-authz-grant, section 4.4.1, and RFC 7523 section 3). It throws an
 * `AssertionRefusal` if an assertion is not accepted for an authenticated client, and a `TemporarilyUnavailableError` if the keys of its
 * issuer cannot be fetched.
 * @param url the issuer of this server.
 */
export function assertionVerifier(
  issuers: readonly IdentityAssertionIssuer[],
  url: string,
): (assertion: string, clientId: string) => Promise<VerifiedAssertion> {
  const known = new Map(
    issuers.map(({ issuer, jwksUri, tenant }) => {
      const settings = { jwksCooldownSeconds: 30, jwksCacheSeconds: 600, allowInsecureHttp: false }
      return [issuer, { keys: new RemoteKeys({ issuer, jwksUri, ...settings }), tenant }]
    }),
  )
  // An origin with and without a slash is the same URL (RFC 3986 section 6.2.3).
  const audiences = new URL(url).pathname === '/' ? [url, `${url}/`] : [url]

  return async (assertion, clientId) => {
    if (assertion.length > MAX_LENGTH) throw new AssertionRefusal('not_a_jwt')
    const { typ, alg, kid, iss } = await readUntrusted(assertion)
    if (!isIdJag(typ)) throw new AssertionRefusal('type')
    if (!ASYMMETRIC.includes(String(alg))) throw new AssertionRefusal('algorithm')
    const issuer = known.get(String(iss))
    if (issuer === undefined || typeof iss !== 'string') throw new AssertionRefusal('issuer')
    const keys = await issuer.keys.keysFor(typeof kid === 'string' ? kid : undefined).catch(() => {
      throw new TemporarilyUnavailableError('The keys of the identity provider are unavailable')
    })
    const claims = await signedClaims(assertion, String(alg), keys)
    if (claims === undefined) throw new AssertionRefusal('signature')
    return checked(claims, audiences, clientId, issuer.tenant)
  }
}

/** Reads the header and the issuer of an assertion, which are untrusted. */
async function readUntrusted(
  assertion: string,
): Promise<ProtectedHeaderParameters & { readonly iss: unknown }> {
  const { decodeJwt, decodeProtectedHeader } = await import('jose')
  try {
    const payload = assertion.split('.', 3)[1] ?? ''
    // Decoders replace invalid bytes, so that two subjects could become equal.
    if (!isUtf8(Buffer.from(payload, 'base64url'))) throw new Error('the payload is not UTF-8')
    return { ...decodeProtectedHeader(assertion), iss: decodeJwt(assertion).iss }
  } catch {
    throw new AssertionRefusal('not_a_jwt')
  }
}

/** Compares a media type, which may omit its prefix (RFC 7515 section 4.1.9). */
function isIdJag(typ: unknown): boolean {
  return typeof typ === 'string' && typ.toLowerCase().replace(/^application\//, '') === TYPE
}

/** Checks the claims of an assertion with a valid signature. Its dates are numbers. */
function checked(
  claims: JWTPayload,
  audiences: readonly string[],
  clientId: string,
  ownTenant: string | undefined,
): VerifiedAssertion {
  const { aud, sub, jti, iat, exp = 0, nbf = 0, resource, scope, client_id: client, tenant } = claims
  const now = Math.floor(Date.now() / 1000)
  const [audience, ...others] = [aud].flat()
  if (others.length > 0 || !audiences.includes(String(audience))) throw new AssertionRefusal('audience')
  if (client !== clientId) throw new AssertionRefusal('client')
  if (!isIdentifier(sub) || !isIdentifier(jti)) throw new AssertionRefusal('identifier')
  if (nbf > now + CLOCK_TOLERANCE_SECONDS) throw new AssertionRefusal('not_active')
  if (claims.exp !== undefined && exp <= now - CLOCK_TOLERANCE_SECONDS) throw new AssertionRefusal('expired')
  if (!isShortLived(iat, claims.exp)) throw new AssertionRefusal('lifetime')
  // A subject is unique only within its tenant.
  if (tenant !== ownTenant) throw new AssertionRefusal('tenant')
  // Ignoring them would grant more than the identity provider allows.
  if (claims.authorization_details !== undefined) throw new AssertionRefusal('details')
  if (scope !== undefined && typeof scope !== 'string') throw new AssertionRefusal('scope')
  const resources = [resource].flat()
  if (resources.length > MAX_RESOURCES || !resources.every((one) => typeof one === 'string'))
    throw new AssertionRefusal('resource')
  return claims as VerifiedAssertion
}

/** Returns the time after which an assertion is refused as expired, in seconds since 1970. */
export function endOf({ exp }: VerifiedAssertion): number {
  return exp + CLOCK_TOLERANCE_SECONDS
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
export function keyThumbprintIn({ cnf }: VerifiedAssertion): string | undefined {
  if (cnf === undefined) return undefined
  const { jkt } = isRecord(cnf) ? cnf : {}
  if (typeof jkt !== 'string' || jkt === '') throw new AssertionRefusal('key_bound')
  return jkt
}
