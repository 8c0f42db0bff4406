import { isUtf8 } from 'node:buffer'
import type * as Jose from 'jose'
import type { JWTPayload } from 'jose'
import { tryOrUndefined } from '../../base/try-or-undefined.ts'
import type { GateValues, VerifyTokenInput } from '../gate-values.ts'
import { type RefusalNote, rejected, verificationOf } from '../inputs.ts'
import type { VerifiedToken, VerifyToken } from '../options.ts'
import { AskedIssuers } from './asked-issuers.ts'
import { acceptedAudiences, isFor } from './audience.ts'
import {
  type JwtRules,
  type JwtUser,
  type JwtVerifierOptions,
  resolveJwtOptions,
  rulesFor,
  usedByTwoGates,
} from './jwt-options.ts'
import { signedClaims } from './jwt-signature.ts'
import { warnsOfMismatch } from './mismatch.ts'
import { acceptedToken } from './token-claims.ts'
import { withTraits } from './verifier-traits.ts'

/** The tolerance for `iat` in the future, because the clock of an issuer may be ahead. */
const FUTURE_IAT_SECONDS = 60

/**
 * Creates a verifier for JWT access tokens. It checks the signature, `iss`, `aud`, `exp` (required), `nbf`, and, with
 * `strict`, `typ`. It does not check revocation. Environment variables never change what it accepts.
 *
 * A function for `issuers` decides about tokens of issuers that are not known in advance. See docs/guides/tenants.md.
 *
 * Inside a gate, issuer and audience may be omitted. The verifier then uses the `issuer` of the gate and its `resource`,
 * which must be a string. It accepts tokens of that one issuer, also if the gate lists several `authorizationServers`; set
 * `issuers` to accept tokens of all of them. A verifier without its own issuer belongs to one gate.
 *
 * The `resource` of the result is an audience that is an http(s) URL. The gate compares it with its own `resource`.
 *
 * A token that is bound to a key (`cnf`) is rejected as a Bearer token. If the request has a valid DPoP proof, the result
 * contains `cnf`, and the gate compares it with the key of the proof.
 * @param options the accepted issuers and audiences, the keys, and further checks.
 * @returns a function for the option `verifyToken`. It rejects with `KitMcpConfigError` if issuer or audience is missing and
 * no gate provides it, and with `VerifierUnavailableError` if the keys cannot be fetched.
 * @throws {KitMcpConfigError} if an option is invalid.
 * @example
 * ```ts
 * import { createMcpAdapter, jwtVerifier, KitMcpRouter } from 'mcp-gatekit'
 *
 * const adapter = createMcpAdapter({
 *   router: KitMcpRouter.create(),
 *   oauth: {
 *     issuer: 'https://auth.example.com',
 *     resource: 'https://mcp.example.com/mcp',
 *     verifyToken: jwtVerifier(),
 *   },
 * })
 * ```
 * @see https://www.rfc-editor.org/rfc/rfc9068#section-4
 */
export function jwtVerifier<User = JwtUser>(
  options: JwtVerifierOptions<User> = {},
): VerifyToken<unknown, User> {
  const resolved = resolveJwtOptions(options)
  const { issuers, audiences } = resolved
  const warnOfMismatch = warnsOfMismatch('jwtVerifier', {
    issuers: issuers instanceof AskedIssuers ? undefined : issuers,
    audiences: audiences && acceptedAudiences(audiences, resolved.audienceSlash),
    allowMismatch: resolved.allowMismatch,
  })
  const own = issuers && audiences && makeVerifier<User>(rulesFor(resolved, undefined))
  /** The verifiers that take the issuer, the audience, or both from the gate that asks. */
  const verifiers = new WeakMap<GateValues, VerifyJwt<User>>()
  /** `true` if a gate uses the verifier. Without an issuer of its own, it belongs to that one. */
  let isUsed = false

  function verifierFor(gate: GateValues | undefined): VerifyJwt<User> {
    const known = own ?? (gate && verifiers.get(gate))
    if (known !== undefined) return known
    const rules = rulesFor(resolved, gate)
    if (issuers === undefined && isUsed) throw usedByTwoGates()
    isUsed = true
    const verify = makeVerifier<User>(rules)
    // One of the two is taken from the gate, so there is one.
    verifiers.set(gate as GateValues, verify)
    return verify
  }

  const verify: VerifyJwt<User> =
    own ?? (async (input) => await verifierFor(verificationOf(input).gate)(input))
  return withTraits(verify, {
    join(gate) {
      verifierFor(gate)
      warnOfMismatch(gate)
    },
    readCertificate: resolved.clientCertificate,
  })
}

type VerifyJwt<User> = (input: VerifyTokenInput) => Promise<VerifiedToken<User> | undefined>

function makeVerifier<User>(rules: JwtRules): VerifyJwt<User> {
  const { issuers } = rules
  const asked = issuers instanceof AskedIssuers ? issuers : undefined
  const listed = issuers instanceof AskedIssuers ? [] : issuers
  const sources = new Map(listed.map((issuer) => [issuer, rules.keysOf(issuer)] as const))
  const only = sources.size === 1 ? listed[0] : undefined
  return async function verifyJwt(input) {
    const { bearerToken: token } = input
    if (!token) return undefined
    if (!hasCanonicalSignature(token)) return rejected(input, isCompact(token) ? 'signature' : 'type')
    jose ??= await import('jose')
    const header = readHeader(jose, token)
    if (header === undefined) return rejected(input, 'type')
    const { alg, kid } = header
    if (!rules.algorithms.includes(alg)) return rejected(input, 'algorithm')
    // Keys are fetched only for a token of a known issuer. With keys at hand, the issuer is checked with the other claims.
    const held = only === undefined ? undefined : sources.get(only)?.held(kid)
    const issuer = held === undefined ? statedClaims(jose, token).iss : only
    const source = asked === undefined ? sources.get(issuer as string) : await asked.keysOf(issuer)
    if (source === undefined) return rejected(input, 'issuer')
    const keys = held ?? source.held(kid) ?? (await source.keysFor(kid))
    if (keys === undefined) return rejected(input, 'issuer')
    let claims = await signedClaims(token, alg, keys)
    claims ??= await signedClaims(token, alg, (await source.newerFor?.(kid, keys)) ?? [])
    if (claims === undefined) return rejected(input, unsignedNote(statedClaims(jose, token)))
    const note = refusalOf(claims, issuer, header.typ, rules) ?? (hasUtf8Payload(token) ? undefined : 'type')
    return note === undefined ? await accept(claims, rules, input) : rejected(input, note)
  }
}

/** Returns `true` if a token has the three parts of a JWT. */
function isCompact(token: string): boolean {
  return token.split('.', 4).length === 3
}

/**
 * Returns the reason why no key has verified a token. Dates that are not numbers (RFC 7519 §4.1) have the same effect as a
 * wrong signature, so the claims are untrusted.
 */
function unsignedNote({ nbf, exp, iat }: JWTPayload): RefusalNote {
  if (nbf !== undefined && typeof nbf !== 'number') return 'not_active'
  return [exp, iat].every((date) => date === undefined || typeof date === 'number') ? 'signature' : 'type'
}

/** Checks the claims of a token with a valid signature (RFC 9068 §4). Its dates are numbers. */
function refusalOf(
  { exp, nbf = 0, iss, aud, iat = 0, sub, client_id: clientId, jti }: JWTPayload,
  issuer: unknown,
  typ: unknown,
  { clockToleranceSeconds, strict, audiences }: JwtRules,
): RefusalNote | undefined {
  const now = Math.floor(Date.now() / 1000)
  if (nbf > now + clockToleranceSeconds) return 'not_active'
  if (exp !== undefined && exp <= now - clockToleranceSeconds) return 'expired'
  if (strict && !(typeof typ === 'string' && /^(?:application\/)?at\+jwt$/i.test(typ))) return 'type'
  if (iss !== issuer) return 'issuer'
  if (!isFor(aud, audiences)) return 'wrong_resource'
  // JSON may contain infinite numbers.
  if (!Number.isFinite(exp) || ![sub, clientId, jti].every(isStringOrAbsent)) return 'type'
  return iat <= Date.now() / 1000 + Math.max(clockToleranceSeconds, FUTURE_IAT_SECONDS)
    ? undefined
    : 'not_active'
}

async function accept<User>(
  claims: JWTPayload,
  rules: JwtRules,
  input: VerifyTokenInput,
): Promise<VerifiedToken<User> | undefined> {
  const exp = claims.exp as number
  const names = [claims.client_id, claims.azp, claims.cid, claims.appid]
  return await acceptedToken(claims, rules, input, {
    user: { id: claims.sub, claims },
    scopes: claims.scope ?? claims.scp ?? claims.permissions,
    clientId: names.find((id) => typeof id === 'string'),
    expiresAt: exp > Date.now() / 1000 ? exp : exp + rules.clockToleranceSeconds,
    issuer: `iss:${claims.iss}`,
  })
}

function isStringOrAbsent(value: unknown): boolean {
  return value === undefined || typeof value === 'string'
}

const BASE64URL = /^[\w-]+$/
/**
 * The possible last characters by the length of a part modulo four: the bits beyond a whole byte are zero (RFC 4648
 * §3.5).
 */
const LAST_CHARACTERS = ['', undefined, 'AQgw', 'AEIMQUYcgkosw048'] as const

/**
 * Returns `true` if the signature is canonical base64url. Lenient decoders accept several spellings of a signature, so that a
 * blocked token could be used in another spelling. Header and payload are signed in the spelling that is sent.
 */
function hasCanonicalSignature(token: string): boolean {
  const signature = token.slice(token.lastIndexOf('.') + 1)
  const last = LAST_CHARACTERS[signature.length % 4]
  if (last === undefined || !BASE64URL.test(signature)) return false
  return last === '' || last.includes(token.at(-1) as string)
}

/** Loaded with the first token, so that importing the package stays cheap. */
let jose: typeof Jose | undefined

/** Reads the header of a token, which is untrusted. Returns `undefined` if the token is not a JWT. */
function readHeader({ decodeProtectedHeader }: typeof Jose, token: string) {
  const header = tryOrUndefined(() => decodeProtectedHeader(token))
  const { alg, kid, typ }: { alg?: unknown; kid?: unknown; typ?: unknown } = header ?? {}
  if (typeof alg !== 'string' || (kid !== undefined && typeof kid !== 'string')) return undefined
  return { alg, kid, typ }
}

/** Returns the claims of a token, which are untrusted. */
function statedClaims({ decodeJwt }: typeof Jose, token: string): JWTPayload {
  return tryOrUndefined(() => decodeJwt(token)) ?? {}
}

/**
 * Returns `true` for a payload in UTF-8 (RFC 7519 §7.2, step 10). Decoders replace invalid bytes, so that two values of
 * `sub` become equal.
 */
function hasUtf8Payload(token: string): boolean {
  return isUtf8(Buffer.from(token.slice(token.indexOf('.') + 1, token.lastIndexOf('.')), 'base64url'))
}
