import type { AuthOptions, AuthResult } from 'express-oauth2-jwt-bearer'
import type { JSONWebKeySet, JWTPayload } from 'jose'
import { configuredResource, noteRefusal } from '../inputs.ts'
import type { VerifiedToken, VerifyToken, VerifyTokenInput } from '../options.ts'
import { grantedScopes } from '../scope.ts'
import type { KeySource } from './jwks.ts'
import { type JwtRules, type JwtUser, type JwtVerifierOptions, resolveJwtOptions } from './jwt-options.ts'

/** A token may be dated this far ahead: issuers' clocks run fast too. */
const FUTURE_IAT_SECONDS = 60

/**
 * A verifier for JWT access tokens, on `express-oauth2-jwt-bearer`. Checks the signature, `iss`, `aud`,
 * `exp` (required), `nbf`, and `typ` when `strict`. A token bound to a key (`cnf`, RFC 9449 and RFC 8705)
 * is refused, as it must not be accepted as a plain Bearer token; beside a DPoP proof that the gate has checked
 * it is given on with its `cnf`, which the gate holds against the key of the proof.
 *
 * An `aud` that is an http(s) URL is given on as the token's `resource`, which the gate compares with its own.
 * Does not check revocation. The environment never changes what is accepted.
 * @throws {KitMcpConfigError} when it is built with options that cannot be.
 * @throws {VerifierUnavailableError} at a request, when the keys cannot be had.
 */
export function jwtVerifier<User = JwtUser>(options: JwtVerifierOptions<User>): VerifyToken<unknown, User> {
  const { rules, sources } = resolveJwtOptions(options)
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
  readonly #rules: JwtRules<User>
  /** The library checks against one key set; a new set gets a new check. */
  #check: { readonly keys: JSONWebKeySet | undefined; readonly run: JwtCheck } | undefined

  constructor(issuer: string, keys: KeySource | undefined, rules: JwtRules<User>) {
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
    return await accept(checked.payload as JWTPayload, this.#rules, input)
  }
}

async function accept<User>(
  claims: JWTPayload,
  rules: JwtRules<User>,
  input: VerifyTokenInput,
): Promise<VerifiedToken<User> | undefined> {
  const cnf = bindingOf(claims)
  if (cnf !== undefined && ('x5t#S256' in cnf || input.proofKey === undefined)) return undefined
  for (const claim of rules.requiredClaims) if (claims[claim] === undefined) return undefined
  const exp = claims.exp as number
  // A token may be for several resources; what counts is whether it is for the one that asks.
  const resources = [claims.aud ?? []].flat().filter((aud) => rules.audiences.includes(aud) && isHttpUrl(aud))
  const resource = resources.find((aud) => aud === configuredResource(input)) ?? resources[0]
  return {
    valid: true,
    user: rules.mapUser === undefined ? (userOf(claims) as User) : await rules.mapUser(claims),
    scopes: grantedScopes(claims.scope ?? claims.scp ?? claims.permissions),
    clientId: [claims.client_id, claims.azp, claims.cid].find((id): id is string => typeof id === 'string'),
    expiresAt: exp > Date.now() / 1000 ? exp : exp + rules.clockTolerance,
    resource,
    ...(cnf !== undefined && { cnf }),
  }
}

function userOf(claims: JWTPayload): JwtUser {
  return { id: claims.sub, claims }
}

function isHttpUrl(value: string): boolean {
  return /^https?:\/\//.test(value) && URL.canParse(value)
}

/** What the token is bound to (RFC 9449 §6, RFC 8705 §3): it is worth nothing without a proof of that key. */
function bindingOf({ cnf }: JWTPayload): Readonly<Record<string, unknown>> | undefined {
  if (typeof cnf !== 'object' || cnf === null || !('jkt' in cnf || 'x5t#S256' in cnf)) return undefined
  return cnf as Readonly<Record<string, unknown>>
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
  rules: JwtRules<User>,
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
