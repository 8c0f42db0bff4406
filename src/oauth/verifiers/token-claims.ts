import { hash, X509Certificate } from 'node:crypto'
import { definedMembers } from '../../base/options/defined-members.ts'
import { memberOf } from '../../base/options/describe-value.ts'
import type { OptionChecks } from '../../base/options/option-checks.ts'
import { optional, type ReadBy, unchecked } from '../../base/options/option-rules.ts'
import { isRecord } from '../../base/options/value-kinds.ts'
import { tryOrUndefined } from '../../base/try-or-undefined.ts'
import { bindingOf, certificateBindingOf } from '../confirmation.ts'
import type { VerifyTokenInput } from '../gate-values.ts'
import { rejected, verificationOf } from '../inputs.ts'
import type { VerifiedToken } from '../options.ts'
import { grantedScopes } from '../scope.ts'
import { resourceIn } from './audience.ts'
import type { VerifierTraits } from './verifier-traits.ts'

/**
 * The rules of the options that verifiers share.
 * @param claims the claims, as errors name them
 */
export function tokenRules<Claims>(checks: OptionChecks, claims: string) {
  const { callable, checkBoolean, checkTexts, oneOf } = checks
  return {
    resource: unchecked<string | undefined>(),
    audienceSlash: optional(oneOf(['exact', 'optional']), 'exact'),
    requiredClaims: optional(checkTexts, []),
    mapUser: optional(
      callable<(claims: Claims) => any>(`set it to a function that returns the user for ${claims}`),
    ),
    mapScopes: optional(
      callable<MapScopes<Claims>>('set it to a function that returns the scopes of a token'),
    ),
    clientCertificate: (_option: string, value: unknown) => certificateReader(checks, value),
    allowInsecureHttp: optional(checkBoolean, false),
    allowMismatch: optional(checkBoolean, false),
  }
}

/** The rules for tokens of a verifier, and those of its audiences that are resources. */
type TokenRules<Claims> = ReadBy<ReturnType<typeof tokenRules<Claims>>> & {
  readonly resources: readonly string[]
}

/** The members of a result that a verifier reads in its own way. */
interface OwnMembers extends Pick<VerifiedToken, 'clientId' | 'expiresAt' | 'extra'> {
  /** The scopes as the authorization server sent them. */
  readonly scopes: unknown
  /** The user without the option `mapUser`. */
  readonly user: unknown
  /** The issuer, as `Verification` notes it. */
  readonly issuer: string
}

/** Returns the result for claims of a valid token, unless the request may not present it, or it lacks a claim. */
export async function acceptedToken<Claims extends object, User>(
  claims: Claims & Readonly<Record<string, unknown>>,
  { resources, audienceSlash, requiredClaims, mapUser, mapScopes, clientCertificate }: TokenRules<Claims>,
  input: VerifyTokenInput,
  { issuer, user, scopes, ...own }: OwnMembers,
): Promise<VerifiedToken<User> | undefined> {
  if (!mayBePresented(claims, input, clientCertificate)) return rejected(input, 'key_bound')
  if (!hasClaims(claims, requiredClaims)) return rejected(input, 'type')
  const verification = verificationOf(input)
  const { aud, cnf, act } = claims
  const members = {
    user: (mapUser === undefined ? user : await mapUser(claims)) as User,
    scopes: scopesOf(claims, scopes, mapScopes),
    ...own,
    resource: resourceIn(aud, resources, verification.resource, audienceSlash),
    cnf: isRecord(cnf) ? cnf : undefined,
    // The gate checks it.
    act: act as VerifiedToken['act'],
  }
  verification.issuer = issuer
  return { valid: true, ...definedMembers(members) }
}

/**
 * Returns `true` if a token with these claims (or introspection members) may be presented as this request presents it.
 * A token that is bound to a key (`cnf`, RFC 7800) must not be accepted without a proof of that key (RFC 9449 §7.2, RFC 8705
 * §3). If there is a proof, the verifier returns `cnf`, and the gate compares it with the key of the proof. A certificate is
 * compared here and noted for the gate, which compares it again.
 */
function mayBePresented(
  claims: Readonly<Record<string, unknown>>,
  input: VerifyTokenInput,
  readCertificate: VerifierTraits['readCertificate'],
): boolean {
  const { cnf, token_type: type } = claims
  if (cnf === undefined && type === undefined) return true
  const binding = bindingOf(cnf)
  if (binding === 'other') return false
  if (binding === 'certificate') return !isDpop(type) && presentsCertificate(cnf, input, readCertificate)
  return (binding === 'none' && !isDpop(type)) || input.proofKey !== undefined
}

function presentsCertificate(
  cnf: unknown,
  input: VerifyTokenInput,
  readCertificate: VerifierTraits['readCertificate'],
): boolean {
  const thumbprint = readCertificate?.(input)
  if (thumbprint === undefined || thumbprint !== certificateBindingOf(cnf)) return false
  verificationOf(input).certificate = thumbprint
  return true
}

/** Returns `true` for `token_type: DPoP`. An introspection response may have it without naming the key (RFC 9449 §6.2). */
function isDpop(type: unknown): boolean {
  return typeof type === 'string' && type.toLowerCase() === 'dpop'
}

/** Returns `true` if the claims have all of these names. `null` and the empty string count as absent. */
function hasClaims(claims: object, names: readonly string[]): boolean {
  return names.every((name) => Object.hasOwn(claims, name) && (memberOf(claims, name) ?? '') !== '')
}

/** Returns the scopes of a token for its claims and the scopes that it has by itself. */
type MapScopes<Claims> = (claims: Claims, scopes: readonly string[]) => readonly string[]

/**
 * Returns the scopes of a token.
 * @param given the scopes as the authorization server sent them
 * @throws {TypeError} if the result of `mapScopes` is not an array of strings, and what `mapScopes` throws.
 */
function scopesOf<Claims>(
  claims: Claims,
  given: unknown,
  mapScopes: MapScopes<Claims> | undefined,
): readonly string[] {
  const granted = grantedScopes(given)
  if (mapScopes === undefined) return granted
  const mapped: unknown = mapScopes(claims, granted)
  // A promise is not a list. Its rejection must not become an unhandled one.
  if (mapped instanceof Promise) mapped.catch(() => undefined)
  if (!Array.isArray(mapped) || !mapped.every((scope) => typeof scope === 'string'))
    throw new TypeError('mapScopes must return an array of strings')
  return mapped
}

/** @throws {KitMcpConfigError} if the option is invalid. */
function certificateReader(
  { invalidKind }: OptionChecks,
  source: unknown,
): VerifierTraits['readCertificate'] {
  if (source === undefined) return undefined
  if (source === 'tls') return (input) => thumbprintOf(() => verificationOf(input).request?.peerCertificate)
  const expected = `must be 'tls' or a function of the request that returns the certificate`
  if (typeof source !== 'function') throw invalidKind('clientCertificate', expected, source)
  return ({ request }) => thumbprintOf(() => source(request))
}

/** Anything that is not a certificate counts as no certificate. */
function thumbprintOf(read: () => unknown): string | undefined {
  // A promise is not a certificate. Its rejection does not become an unhandled one.
  const value = tryOrUndefined(read)
  if (value === undefined || value === null) return undefined
  return tryOrUndefined(() => {
    const certificate = value instanceof X509Certificate ? value : new X509Certificate(value as Buffer)
    return hash('sha256', certificate.raw, 'base64url')
  })
}
