import type * as OAuth from 'oauth4webapi'
import type { IntrospectionResponse } from 'oauth4webapi'
import { VerifierUnavailableError } from '../errors.ts'
import { configuredResource, noteIssuer, noteRefusal } from '../inputs.ts'
import type { VerifiedToken, VerifyToken, VerifyTokenInput } from '../options.ts'
import { grantedScopes } from '../scope.ts'
import { isFor, resourceIn } from './audience.ts'
import { boundedFetch } from './bounded-fetch.ts'
import {
  type IntrospectionUser,
  type IntrospectionVerifierOptions,
  type ResolvedIntrospectionOptions,
  resolveIntrospectionOptions,
} from './introspection-options.ts'
import { confirmationOf, mayBePresented } from './key-binding.ts'

/** What `token_type` says of an access token. Some servers put there what kind of token it is. */
const ACCESS_TOKEN_TYPES: readonly unknown[] = ['bearer', 'dpop', 'access_token']

/** The members that RFC 7662 §2.2 defines, and `cnf` of RFC 8705 §3.2; what else there is goes into `extra`. */
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

/** The server has looked at `nbf` itself, by a clock that may run ahead of ours. */
const FUTURE_NBF_SECONDS = 60

/** A longer `Retry-After` of the authorization server is not handed on. */
const MAX_RETRY_AFTER_SECONDS = 3_600

/**
 * A verifier that asks the authorization server (RFC 7662), on `oauth4webapi`: for opaque tokens, and for JWTs that
 * can be revoked. It asks at every request; `cachedVerifier` around it asks less often.
 *
 * Refused are tokens that are not active, are past their `exp`, are a minute or more before their `nbf`, or are for
 * another audience or of another issuer; an answer without `aud` is one for another audience, and with `issuer` one
 * without `iss` is of another. So are a refresh token, where the server says that it is one, and a token bound to a key
 * (`cnf`, `token_type: DPoP`).
 * @throws {KitMcpConfigError} when it is built with options that cannot be.
 * @throws {VerifierUnavailableError} at a request, when no answer was to be had that can be understood: the endpoint
 * is down, slow or overloaded, redirects, refuses the client's credentials, or says more than 1 MiB.
 */
export function introspectionVerifier<User = IntrospectionUser>(
  options: IntrospectionVerifierOptions<User>,
): VerifyToken<unknown, User> {
  const rules = resolveIntrospectionOptions(options)
  const ask = asker(rules)
  return async function verifyByIntrospection(
    input: VerifyTokenInput,
  ): Promise<VerifiedToken<User> | undefined> {
    const { bearerToken } = input
    if (!bearerToken) return undefined
    const answer = await ask(bearerToken)
    return answer.active ? await accept(answer, rules, input) : undefined
  }
}

async function accept<User>(
  answer: IntrospectionResponse,
  rules: ResolvedIntrospectionOptions<User>,
  input: VerifyTokenInput,
): Promise<VerifiedToken<User> | undefined> {
  const { aud } = answer
  const [exp, sub, username, clientId] = [
    answer.exp ?? undefined,
    answer.sub ?? undefined,
    answer.username ?? undefined,
    answer.client_id ?? undefined,
  ]
  if (exp !== undefined && exp <= Date.now() / 1000) {
    noteRefusal(input, 'expired')
    return undefined
  }
  const notBefore = answer.nbf ?? 0
  if (!(notBefore <= Date.now() / 1000 + FUTURE_NBF_SECONDS)) return undefined
  if (rules.audiences !== false && !isFor(aud, rules.audiences)) {
    noteRefusal(input, 'wrong_resource')
    return undefined
  }
  if (rules.issuer !== undefined && answer.iss !== rules.issuer) return undefined
  if (!isAccessToken(answer) || !mayBePresented(answer, input)) return undefined
  if (!rules.requiredClaims.every((claim) => Object.hasOwn(answer, claim))) return undefined
  const resource = resourceIn(aud, rules.resources, configuredResource(input))
  const user =
    rules.mapUser === undefined
      ? ({ id: sub ?? username ?? clientId, claims: answer } as User)
      : await rules.mapUser(answer)
  noteIssuer(input, typeof answer.iss === 'string' ? `iss:${answer.iss}` : `endpoint:${rules.endpoint}`)
  return {
    valid: true,
    user,
    scopes: grantedScopes(answer.scope),
    ...(clientId !== undefined && { clientId }),
    ...(exp !== undefined && { expiresAt: exp }),
    ...(resource !== undefined && { resource }),
    ...confirmationOf(answer),
    extra: Object.fromEntries(Object.entries(answer).filter(([member]) => !REGISTERED.has(member))),
  }
}

/** A refresh token is active too, and is nothing to be let in with. */
function isAccessToken({ token_type: type, token_use: use }: IntrospectionResponse): boolean {
  const lower = typeof type === 'string' ? type.toLowerCase() : type
  return (lower === undefined || ACCESS_TOKEN_TYPES.includes(lower)) && use !== 'refresh_token'
}

/** Loaded with the first token: who imports this package may never see one. */
let oauth: typeof OAuth | undefined

/** Asks the endpoint about one token. */
function asker({
  endpoint,
  clientId,
  clientSecret,
  clientAuthentication,
  timeoutMs,
}: ResolvedIntrospectionOptions<unknown>): (token: string) => Promise<IntrospectionResponse> {
  return async function ask(token) {
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
        // Whether http may be, the options have settled.
        [oauth.allowInsecureRequests]: true,
        [oauth.customFetch]: (url: string, init: object) => boundedFetch(url, init),
      })
    } catch (cause) {
      throw unavailable(endpoint, 'could not be asked', { cause })
    }
    if (response.status !== 200) {
      throw unavailable(endpoint, `answered ${response.status}`, retryAfter(response))
    }
    try {
      return understood(await oauth.processIntrospectionResponse(server, client, response))
    } catch (error) {
      // The text alone: the error holds the answer, and that says who somebody is.
      const cause = new Error(error instanceof Error ? error.message : 'unknown')
      throw unavailable(endpoint, 'gave an answer that is none', { cause })
    }
  }
}

/** The answer, where its members are of the kinds that RFC 7662 §2.2 gives them; `null` counts as absent. */
function understood(answer: IntrospectionResponse): IntrospectionResponse {
  const { exp, sub, username, client_id: clientId } = answer
  for (const text of [sub, username, clientId]) {
    if ((text ?? undefined) !== undefined && typeof text !== 'string')
      throw new TypeError('sub, username or client_id is no string')
  }
  if ((exp ?? undefined) !== undefined && !Number.isFinite(exp)) throw new TypeError('exp is no number')
  return answer
}

function retryAfter(response: Response): { retryAfterSeconds?: number } {
  const seconds = Number(response.headers.get('retry-after') ?? Number.NaN)
  return seconds >= 0 && seconds <= MAX_RETRY_AFTER_SECONDS ? { retryAfterSeconds: seconds } : {}
}

function unavailable(
  endpoint: string,
  what: string,
  options: { cause?: unknown; retryAfterSeconds?: number },
): VerifierUnavailableError {
  return new VerifierUnavailableError(`the introspection endpoint ${endpoint} ${what}`, options)
}
