import { isUtf8 } from 'node:buffer'
import type * as Jose from 'jose'
import type { JSONWebKeySet, JWTPayload } from 'jose'
import { type GateValues, onJoin } from '../gate-values.ts'
import { configuredResource, gateValuesIn, noteIssuer, noteRefusal, type RefusalNote } from '../inputs.ts'
import type { VerifiedToken, VerifyToken, VerifyTokenInput } from '../options.ts'
import { resourceIn } from './audience.ts'
import { withCertificateReader } from './client-certificate.ts'
import type { KeySource } from './jwks.ts'
import { type JwtCheck, makeCheck, type StatedKey } from './jwt-check.ts'
import {
  audiencesOf,
  issuersOf,
  type JwtRules,
  type JwtUser,
  type JwtVerifierOptions,
  type ResolvedJwtOptions,
  resolveJwtOptions,
  rulesFor,
  usedByTwoGates,
} from './jwt-options.ts'
import { confirmationOf, mayBePresented } from './key-binding.ts'
import { hasClaims } from './required-claims.ts'
import { scopesOf } from './scope-mapping.ts'

/** The tolerance for `iat` in the future, because the clock of an issuer may be ahead. */
const FUTURE_IAT_SECONDS = 60

/**
 * Creates a verifier for JWT access tokens. It checks the signature, `iss`, `aud`, `exp` (required), `nbf`, and, with
 * `strict`, `typ`. It does not check revocation. Environment variables never change what it accepts.
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
  const verifier =
    issuers === undefined || audiences === undefined
      ? verifierInGate(resolved)
      : makeVerifier(resolved, issuers, audiences)
  return withCertificateReader(verifier, resolved.rules.readCertificate)
}

type VerifyJwt<User> = (input: VerifyTokenInput) => Promise<VerifiedToken<User> | undefined>

/** A verifier that takes the issuer, the audience, or both from the gate that asks. */
function verifierInGate<User>(resolved: ResolvedJwtOptions<User>): VerifyJwt<User> {
  const { allowInsecureHttp } = resolved
  const verifiers = new WeakMap<GateValues, VerifyJwt<User>>()
  let latest: { readonly gate: GateValues; readonly verify: VerifyJwt<User> } | undefined
  /** The one gate that a verifier without an issuer of its own belongs to. */
  let owner: GateValues | undefined

  function verifierFor(gate: GateValues | undefined): VerifyJwt<User> {
    if (latest !== undefined && latest.gate === gate) return latest.verify
    const issuers = resolved.issuers ?? issuersOf(gate, allowInsecureHttp)
    const audiences = resolved.audiences ?? audiencesOf(gate)
    // One of the two is taken from the gate, so there is one.
    const asking = gate as GateValues
    if (resolved.issuers === undefined) {
      if (owner !== undefined && owner !== asking) throw usedByTwoGates()
      owner = asking
    }
    const verify = verifiers.get(asking) ?? makeVerifier(resolved, issuers, audiences)
    verifiers.set(asking, verify)
    latest = { gate: asking, verify }
    return verify
  }

  const verifyJwt = async (input: VerifyTokenInput) => await verifierFor(gateValuesIn(input))(input)
  return onJoin(verifyJwt, verifierFor)
}

function makeVerifier<User>(
  { rules: ownRules, keysOf }: ResolvedJwtOptions<User>,
  issuers: readonly string[],
  audiences: readonly string[],
): VerifyJwt<User> {
  const rules = rulesFor(ownRules, audiences)
  const verifiers = new Map(
    issuers.map((issuer) => [issuer, new IssuerVerifier(issuer, keysOf(issuer), rules)] as const),
  )
  const only = verifiers.size === 1 ? [...verifiers.values()][0] : undefined
  let lastHeader: StatedHeader | undefined
  return async function verifyJwt(input) {
    const { bearerToken: token } = input
    if (!token) return undefined
    if (!hasCanonicalSignature(token)) return rejected(input, isCompact(token) ? 'signature' : 'type')
    jose ??= await import('jose')
    // The tokens of one key have one header.
    const header = lastHeader?.isOf(token) === true ? lastHeader : readHeader(jose, token)
    lastHeader = header ?? lastHeader
    if (header === undefined) return rejected(input, 'type')
    if (!rules.algorithms.includes(header.alg)) return rejected(input, 'algorithm')
    // Keys are fetched only for a token of a known issuer. With cached keys, the check itself compares the issuer.
    const verifier =
      only?.isReady(header) === true ? only : verifiers.get(statedIssuer(jose, token) as string)
    return verifier === undefined ? rejected(input, 'issuer') : await verifier.verify(token, header, input)
  }
}

class IssuerVerifier<User> {
  readonly #issuer: string
  readonly #keys: KeySource | undefined
  readonly #rules: JwtRules<User>
  /** The check for the current key set. A new set needs a new check. */
  #check: { readonly keys: JSONWebKeySet | undefined; readonly run: JwtCheck } | undefined

  constructor(issuer: string, keys: KeySource | undefined, rules: JwtRules<User>) {
    this.#issuer = issuer
    this.#keys = keys
    this.#rules = rules
  }

  /** Returns `true` if the keys for such a token need not be fetched. */
  isReady({ kid }: StatedHeader): boolean {
    return this.#keys === undefined || this.#keys.held(kid) !== undefined
  }

  async verify(
    token: string,
    header: StatedHeader,
    input: VerifyTokenInput,
  ): Promise<VerifiedToken<User> | undefined> {
    const { kid } = header
    const keys = this.#keys?.held(kid) ?? (await this.#keys?.keysFor(kid))
    let check = this.#check
    if (check === undefined || check.keys !== keys) {
      check = { keys, run: await makeCheck(this.#issuer, keys, this.#rules) }
      this.#check = check
    }
    const checked = await check.run(token, header)
    if (typeof checked === 'object')
      return hasUtf8Payload(token)
        ? await accept(checked.claims, this.#rules, input)
        : rejected(input, 'type')
    return rejected(input, checked)
  }
}

/** Notes why a token is rejected. Returns the result of the verifier. */
function rejected(input: VerifyTokenInput, note: RefusalNote): undefined {
  noteRefusal(input, note)
  return undefined
}

/** Returns `true` if a token has the three parts of a JWT. */
function isCompact(token: string): boolean {
  return token.split('.', 4).length === 3
}

async function accept<User>(
  claims: JWTPayload,
  rules: JwtRules<User>,
  input: VerifyTokenInput,
): Promise<VerifiedToken<User> | undefined> {
  const now = Date.now() / 1000
  if (!isWellFormed(claims)) return rejected(input, 'type')
  const { iat = 0 } = claims
  if (!(iat <= now + Math.max(rules.clockTolerance, FUTURE_IAT_SECONDS))) return rejected(input, 'not_active')
  if (!mayBePresented(claims, input, rules.readCertificate)) return rejected(input, 'key_bound')
  if (!hasClaims(claims, rules.requiredClaims)) return rejected(input, 'type')
  const exp = claims.exp as number
  const clientId =
    stringOrUndefined(claims.client_id) ?? stringOrUndefined(claims.azp) ?? stringOrUndefined(claims.cid)
  const resource = resourceIn(claims.aud, rules.resources, configuredResource(input), rules.audienceSlash)
  const user = rules.mapUser === undefined ? (userOf(claims) as User) : await rules.mapUser(claims)
  noteIssuer(input, `iss:${claims.iss}`)
  return {
    valid: true,
    user,
    scopes: scopesOf(claims, claims.scope ?? claims.scp ?? claims.permissions, rules.mapScopes),
    ...(clientId !== undefined && { clientId }),
    expiresAt: exp > now ? exp : exp + rules.clockTolerance,
    ...(resource !== undefined && { resource }),
    ...confirmationOf(claims),
  }
}

/** Checks the types of the claims by RFC 7519 §4.1. JSON may contain any value, also infinite numbers. */
function isWellFormed({ exp, iat, sub, client_id: clientId, jti }: JWTPayload): boolean {
  if (!Number.isFinite(exp)) return false
  if (iat !== undefined && typeof iat !== 'number') return false
  return isStringOrAbsent(sub) && isStringOrAbsent(clientId) && isStringOrAbsent(jti)
}

function isStringOrAbsent(value: unknown): boolean {
  return value === undefined || typeof value === 'string'
}

function stringOrUndefined(value: unknown): string | undefined {
  return typeof value === 'string' ? value : undefined
}

function userOf(claims: JWTPayload): JwtUser {
  return { id: claims.sub, claims }
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

/** The members of a token's header that select the key. They are untrusted. */
class StatedHeader implements StatedKey {
  readonly #text: string
  readonly alg: string
  readonly kid: string | undefined

  constructor(text: string, alg: string, kid: string | undefined) {
    this.#text = text
    this.alg = alg
    this.kid = kid
  }

  isOf(token: string): boolean {
    return token.startsWith(this.#text)
  }
}

/** Returns `undefined` if the token is not a JWT. */
function readHeader({ decodeProtectedHeader }: typeof Jose, token: string): StatedHeader | undefined {
  try {
    const { alg, kid }: { readonly alg?: unknown; readonly kid?: unknown } = decodeProtectedHeader(token)
    if (typeof alg !== 'string' || (kid !== undefined && typeof kid !== 'string')) return undefined
    return new StatedHeader(token.slice(0, token.indexOf('.') + 1), alg, kid)
  } catch {
    return undefined
  }
}

/** Returns the `iss` of a token, which is untrusted. */
function statedIssuer({ decodeJwt }: typeof Jose, token: string): unknown {
  try {
    return decodeJwt(token).iss
  } catch {
    return undefined
  }
}

/** A reusable buffer for decoded payloads. It fits every token that the gate accepts. */
const decoded = Buffer.alloc(16_384)

/**
 * Returns `true` for a payload in UTF-8 (RFC 7519 §7.2, step 10). Decoders replace invalid bytes, so that two values of
 * `sub` become equal.
 */
function hasUtf8Payload(token: string): boolean {
  const payload = token.slice(token.indexOf('.') + 1, token.lastIndexOf('.'))
  if (payload.length > decoded.length) return isUtf8(Buffer.from(payload, 'base64url'))
  return isUtf8(decoded.subarray(0, decoded.write(payload, 'base64url')))
}
