import type * as OAuth from 'oauth4webapi'
import type { IntrospectionResponse } from 'oauth4webapi'
import { boundedFetch } from '../../base/http/bounded-fetch.ts'
import { retryAfterOption } from '../../base/http/retry-after.ts'
import type { VerifierUnavailableError } from '../errors.ts'
import type { VerifyTokenInput } from '../gate-values.ts'
import { rejected } from '../inputs.ts'
import type { VerifiedToken, VerifyToken } from '../options.ts'
import { outage, outageReason, plainUrl } from '../outages.ts'
import { isFor } from './audience.ts'
import {
  type IntrospectionUser,
  type IntrospectionVerifierOptions,
  type ResolvedIntrospectionOptions,
  resolveIntrospectionOptions,
} from './introspection-options.ts'
import { warnsOfMismatch } from './mismatch.ts'
import { acceptedToken } from './token-claims.ts'
import { withTraits } from './verifier-traits.ts'

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
  const rules = resolveIntrospectionOptions(options)
  const introspect = introspector(rules)
  async function verifyByIntrospection(input: VerifyTokenInput): Promise<VerifiedToken<User> | undefined> {
    const { bearerToken } = input
    if (!bearerToken) return undefined
    const response = await introspect(bearerToken)
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
  rules: ResolvedIntrospectionOptions,
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

/** Returns a function that sends the introspection request for a token. */
function introspector({
  endpoint,
  clientId,
  clientSecret,
  clientAuthentication,
  timeoutMs,
}: ResolvedIntrospectionOptions): (token: string) => Promise<IntrospectionResponse> {
  return async function introspect(token) {
    oauth ??= await import('oauth4webapi')
    const server = { issuer: endpoint, introspection_endpoint: endpoint }
    const client = { client_id: clientId }
    const authenticate =
      clientAuthentication === 'client_secret_post'
        ? oauth.ClientSecretPost(clientSecret)
        : oauth.ClientSecretBasic(clientSecret)
    let response: Response
    try {
      response = await oauth.introspectionRequest(server, client, authenticate, token, {
        additionalParameters: { token_type_hint: 'access_token' },
        signal: AbortSignal.timeout(timeoutMs),
        // The options have been checked for http.
        [oauth.allowInsecureRequests]: true,
        [oauth.customFetch]: boundedFetch,
      })
    } catch (cause) {
      throw unavailable(endpoint, 'could not be reached', { cause })
    }
    if (response.status !== 200) {
      throw unavailable(endpoint, `responded with ${response.status}`, retryAfterOption(response.headers))
    }
    try {
      return checkResponse(await oauth.processIntrospectionResponse(server, client, response))
    } catch (error) {
      // Only the message, because the error contains the response, which has personal data.
      const cause = new Error(error instanceof Error ? error.message : 'unknown')
      throw unavailable(endpoint, 'returned a response that is not valid introspection JSON', { cause })
    }
  }
}

/** Checks the types of the members by RFC 7662 §2.2. `null` counts as absent. */
function checkResponse(response: IntrospectionResponse): IntrospectionResponse {
  const { exp, sub, username, client_id: clientId } = response
  for (const value of [sub, username, clientId]) {
    if ((value ?? undefined) !== undefined && typeof value !== 'string')
      throw new TypeError('sub, username, or client_id is not a string')
  }
  if ((exp ?? undefined) !== undefined && !Number.isFinite(exp)) throw new TypeError('exp is not a number')
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
