import type { X509Certificate } from 'node:crypto'
import type * as OAuth from 'oauth4webapi'
import type { IntrospectionResponse } from 'oauth4webapi'
import { boundedFetch } from '../../base/http/bounded-fetch.ts'
import { retryAfterOption } from '../../base/http/retry-after.ts'
import { optionChecksOf } from '../../base/options/option-checks.ts'
import { optional, type RulesFor, unchecked } from '../../base/options/option-rules.ts'
import type { VerifierUnavailableError } from '../errors.ts'
import type { VerifyTokenInput } from '../gate-values.ts'
import { rejected } from '../inputs.ts'
import type { VerifiedToken, VerifyToken } from '../options.ts'
import { outage, outageReason, plainUrl } from '../outages.ts'
import { acceptedAudiences, checkAudiences, isFor, resourcesAmong } from './audience.ts'
import { warnsOfMismatch } from './mismatch.ts'
import { acceptedToken, tokenRules } from './token-claims.ts'
import { withTraits } from './verifier-traits.ts'

const checks = optionChecksOf('introspectionVerifier')
const { invalidKind, invalidOption, issuer, missingOption, oneOf, readOptions, required, url, wholeNumber } =
  checks

/** The user that `introspectionVerifier` returns without `mapUser`. */
export interface IntrospectionUser {
  /** The member `sub`, or else `username`, or else `client_id`. */
  readonly id: string | undefined
  /** The whole introspection response of the authorization server. */
  readonly claims: IntrospectionResponse
}

/** The way in which client credentials are sent (RFC 6749 §2.3.1): in the `Authorization` header, or in the body. */
export type IntrospectionAuthentication = 'client_secret_basic' | 'client_secret_post'

/** Options of {@link introspectionVerifier}. */
export interface IntrospectionVerifierOptions<User = IntrospectionUser> {
  /** The introspection endpoint of the authorization server: an https URL, or an http URL on loopback. */
  readonly endpoint: string
  /** The client id of this server at the authorization server. */
  readonly clientId: string
  /** The client secret. Errors never contain it. */
  readonly clientSecret: string
  /** The way in which client id and secret are sent (RFC 6749 §2.3.1). Defaults to `client_secret_basic`. */
  readonly clientAuthentication?: IntrospectionAuthentication | undefined
  /**
   * The accepted audiences: `aud` of the response must be, or contain, one of them (RFC 8707). `false` disables the check,
   * for authorization servers that never send `aud`. This option or `resource` is required.
   */
  readonly audience?: string | readonly string[] | false | undefined
  /** Another name for `audience`, for a single resource indicator (RFC 8707). */
  readonly resource?: string | undefined
  /**
   * The accepted spellings of an audience that is only an origin. With `optional`, `https://host` and `https://host/` count as
   * the same audience (RFC 3986 §6.2.3). Needed by claude.ai (2026-11), which requests tokens with the slash. Defaults to
   * `exact`.
   */
  readonly audienceSlash?: 'exact' | 'optional' | undefined
  /** The expected `iss`. Not checked by default, because few servers send it. */
  readonly issuer?: string | undefined
  /** Members of the response that must be present. `null` and the empty string count as absent. */
  readonly requiredClaims?: readonly string[] | undefined
  /** Returns the user for a response. Defaults to `{ id: sub ?? username ?? client_id, claims }`. */
  readonly mapUser?: ((claims: IntrospectionResponse) => User | Promise<User>) | undefined
  /**
   * Returns the scopes of a token for its response and the scopes in it, for identity providers that issue roles or groups
   * instead of scopes. The result replaces the scopes. If the function throws or returns anything but an array of strings,
   * the token is rejected.
   */
  readonly mapScopes?:
    | ((claims: IntrospectionResponse, scopes: readonly string[]) => readonly string[])
    | undefined
  /**
   * The source of the client's certificate, for certificate-bound tokens (RFC 8705 §3): `tls` for the TLS connection of
   * Node.js, or a function for a proxy that terminates TLS. The function returns an `X509Certificate`, DER, or PEM. A token
   * with `cnf["x5t#S256"]` is then accepted with its certificate only. By default, such tokens are rejected.
   */
  readonly clientCertificate?:
    | 'tls'
    | ((request: Request) => X509Certificate | Buffer | string | undefined)
    | undefined
  /** The maximum time for one introspection request, including its response. Defaults to 5 000 ms. */
  readonly timeoutMs?: number | undefined
  /** Allows http for `endpoint` and `issuer` on hosts that are not loopback. Defaults to `false`. */
  readonly allowInsecureHttp?: boolean | undefined
  /**
   * Accepts without a warning that `issuer` or `audience` differs from `issuer` or `resource` of the gate that uses the verifier.
   * Defaults to `false`: the difference is usually a typing error, and one warning is written when the gate is made.
   */
  readonly allowMismatch?: boolean | undefined
}

function credential(option: string, value: unknown): string {
  if (value === undefined || value === null || value === '')
    throw missingOption(option, 'set it, because introspection endpoints require client authentication')
  if (typeof value !== 'string') throw invalidKind(option, 'must be a string', value)
  return value
}

const RULES = {
  endpoint: required(
    url,
    `set it to the introspection endpoint, such as 'https://auth.example.com/introspect'`,
  ),
  clientId: credential,
  clientSecret: credential,
  clientAuthentication: optional(oneOf(['client_secret_basic', 'client_secret_post']), 'client_secret_basic'),
  audience: unchecked<IntrospectionVerifierOptions['audience']>(),
  issuer: optional(issuer),
  timeoutMs: optional(wholeNumber(1), 5_000),
  ...tokenRules<IntrospectionResponse>(checks, 'a response'),
} satisfies RulesFor<IntrospectionVerifierOptions>

/** `IntrospectionVerifierOptions`, checked, copied, and with their defaults. */
type ResolvedOptions = ReturnType<typeof resolveOptions>

/** @throws {KitMcpConfigError} if an option is invalid. */
function resolveOptions(options: IntrospectionVerifierOptions<any>) {
  const read = readOptions(
    'introspectionVerifier',
    'must be called with an object with at least { endpoint, clientId, clientSecret, audience }',
    options,
    RULES,
  )
  const given = audiencesOf(read)
  const audiences = given && acceptedAudiences(given, read.audienceSlash)
  return { ...read, audiences, resources: resourcesAmong(audiences || []) }
}

function audiencesOf({
  audience,
  resource,
}: Pick<IntrospectionVerifierOptions, 'audience' | 'resource'>): readonly string[] | false {
  if (audience !== false) return checkAudiences(checks, audience, resource)
  const problem = 'cannot be given together with audience: false, which disables the check of aud'
  if (resource !== undefined) throw invalidOption('resource', problem)
  return false
}

/** The values of `token_type` for an access token. Some servers send the kind of token there. */
const ACCESS_TOKEN_TYPES: readonly unknown[] = ['bearer', 'dpop', 'access_token']

/** The members that RFC 7662 §2.2 defines, and `cnf` of RFC 8705 §3.2. All others become part of `extra`. */
const REGISTERED: ReadonlySet<string> = new Set([
  'active',
  'scope',
  'client_id',
  'username',
  'token_type',
  'exp',
  'iat',
  'nbf',
  'sub',
  'aud',
  'iss',
  'jti',
  'cnf',
])

/** The tolerance for `nbf`, which the server has checked itself with a clock that may be ahead. */
const FUTURE_NBF_SECONDS = 60

/**
 * Creates a verifier that asks the authorization server about each token (RFC 7662). Use it for opaque tokens, and for JWTs
 * that must be revocable. It sends a request for every token; wrap it in `cachedVerifier` to send fewer.
 *
 * It rejects a token in these cases:
 * - The token is not active, has expired, or its `nbf` is a minute or more in the future.
 * - `aud` is missing or does not match `audience`.
 * - `issuer` is set, and `iss` is missing or different.
 * - The response says that it is a refresh token.
 * - The token is bound to a key (`cnf`, `token_type: DPoP`), and the request has no valid DPoP proof.
 * @param options the endpoint, the credentials of this server, and the expected audience.
 * @returns a function for the option `verifyToken`. It rejects with `VerifierUnavailableError` if the endpoint is down, slow,
 * or overloaded, redirects, rejects the credentials, or sends an invalid response or one of more than 1 MiB.
 * @throws {KitMcpConfigError} if an option is invalid.
 * @example
 * ```ts
 * import { introspectionVerifier } from 'mcp-gatekit'
 *
 * const verifyToken = introspectionVerifier({
 *   endpoint: 'https://auth.example.com/introspect',
 *   clientId: 'mcp',
 *   clientSecret: String(process.env.CLIENT_SECRET),
 *   audience: 'https://mcp.example.com/mcp',
 * })
 * ```
 * @see https://www.rfc-editor.org/rfc/rfc7662
 */
export function introspectionVerifier<User = IntrospectionUser>(
  options: IntrospectionVerifierOptions<User>,
): VerifyToken<unknown, User> {
  const rules = resolveOptions(options)
  async function verifyByIntrospection(input: VerifyTokenInput): Promise<VerifiedToken<User> | undefined> {
    const { bearerToken } = input
    if (!bearerToken) return undefined
    const response = await introspect(bearerToken, rules)
    return response.active ? await accept<User>(response, rules, input) : rejected(input, 'not_active')
  }
  const own = { ...rules, issuers: rules.issuer === undefined ? undefined : [rules.issuer] }
  return withTraits(verifyByIntrospection, {
    join: warnsOfMismatch('introspectionVerifier', own),
    readCertificate: rules.clientCertificate,
  })
}

async function accept<User>(
  response: IntrospectionResponse,
  rules: ResolvedOptions,
  input: VerifyTokenInput,
): Promise<VerifiedToken<User> | undefined> {
  const { exp, nbf, aud, iss, scope, sub, username, client_id: clientId } = response
  if (typeof exp === 'number' && exp <= Date.now() / 1000) return rejected(input, 'expired')
  if (!((nbf ?? 0) <= Date.now() / 1000 + FUTURE_NBF_SECONDS)) return rejected(input, 'not_active')
  if (rules.audiences !== false && !isFor(aud, rules.audiences)) return rejected(input, 'wrong_resource')
  if (rules.issuer !== undefined && iss !== rules.issuer) return rejected(input, 'issuer')
  if (!isAccessToken(response)) return rejected(input, 'type')
  return await acceptedToken(response, rules, input, {
    user: { id: sub ?? username ?? clientId ?? undefined, claims: response },
    scopes: scope,
    clientId: clientId ?? undefined,
    expiresAt: exp ?? undefined,
    extra: Object.fromEntries(Object.entries(response).filter(([member]) => !REGISTERED.has(member))),
    issuer: typeof iss === 'string' ? `iss:${iss}` : `endpoint:${rules.endpoint}`,
  })
}

/** Returns `true` for an access token: refresh tokens can be active, too. */
function isAccessToken({ token_type: type, token_use: use }: IntrospectionResponse): boolean {
  const lower = typeof type === 'string' ? type.toLowerCase() : type
  return (lower === undefined || ACCESS_TOKEN_TYPES.includes(lower)) && use !== 'refresh_token'
}

/** Loaded with the first token, so that importing the package stays cheap. */
let oauth: typeof OAuth | undefined

/** Sends the introspection request for a token. */
async function introspect(token: string, rules: ResolvedOptions): Promise<IntrospectionResponse> {
  const { endpoint, clientSecret } = rules
  oauth ??= await import('oauth4webapi')
  const server = { issuer: endpoint, introspection_endpoint: endpoint }
  const client = { client_id: rules.clientId }
  const authenticate =
    rules.clientAuthentication === 'client_secret_post'
      ? oauth.ClientSecretPost(clientSecret)
      : oauth.ClientSecretBasic(clientSecret)
  let response: Response
  try {
    response = await oauth.introspectionRequest(server, client, authenticate, token, {
      additionalParameters: { token_type_hint: 'access_token' },
      signal: AbortSignal.timeout(rules.timeoutMs),
      // The options have been checked for http.
      [oauth.allowInsecureRequests]: true,
      [oauth.customFetch]: boundedFetch,
    })
  } catch (cause) {
    throw unavailable(endpoint, 'could not be reached', { cause })
  }
  if (response.status !== 200)
    throw unavailable(endpoint, `responded with ${response.status}`, retryAfterOption(response.headers))
  try {
    return checkResponse(await oauth.processIntrospectionResponse(server, client, response))
  } catch (error) {
    // Only the message, because the error contains the response, which has personal data.
    const cause = new Error(error instanceof Error ? error.message : 'unknown')
    throw unavailable(endpoint, 'returned a response that is not valid introspection JSON', { cause })
  }
}

/** Checks the types of the members by RFC 7662 §2.2. `null` counts as absent. */
function checkResponse(response: IntrospectionResponse): IntrospectionResponse {
  const { exp, sub, username, client_id: clientId } = response
  if (![sub, username, clientId].every((value) => typeof (value ?? '') === 'string'))
    throw new TypeError('sub, username, or client_id is not a string')
  if (!Number.isFinite(exp ?? 0)) throw new TypeError('exp is not a number')
  return response
}

function unavailable(
  endpoint: string,
  what: string,
  options: { cause?: unknown; retryAfterSeconds?: number },
): VerifierUnavailableError {
  const reason = options.cause === undefined ? '' : `: ${outageReason(options.cause)}`
  return outage(`the introspection endpoint ${plainUrl(endpoint)} ${what}${reason}`, options)
}
