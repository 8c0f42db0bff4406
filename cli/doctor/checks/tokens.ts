import { generateKeyPairSync, randomUUID } from 'node:crypto'
import { isDeepStrictEqual } from 'node:util'
import { base64url, type JWTPayload, SignJWT } from 'jose'
import { type CheckFunction, type CheckFunctions, type Examination, observation } from '../examination.ts'
import { type Finding, fail, ok, onlyIf, warn } from '../finding.ts'
import type { HttpExchange } from '../http-exchange.ts'
import { initialize, legacyMessage, type McpMessage, modernMessage, NEWEST_LEGACY } from '../messages.ts'
import { quote } from '../quote.ts'
import { textsOf } from '../values.ts'
import { comparedToken } from './claims.ts'
import { isAuthorizationServerDown } from './issuers.ts'
import { resourceDocument } from './metadata.ts'
import { randomToken, refusal } from './protection.ts'
import { conversation, goodToken, handshake, isRefused, tokenResponse } from './protocol.ts'
import { signIn } from './sign-in.ts'

/** Repeats the request that was rejected without a token, with another token. */
async function tryToken(examination: Examination, token: string): Promise<HttpExchange> {
  const { method, headers, body } = (await refusal(examination)).outgoing
  return await examination.send(method, { headers, body, token })
}

/** The response to a random string as the token. */
const randomTokenResponse = observation((examination) => tryToken(examination, randomToken()))

/** Phrases that describe a missing token. Others, such as `Authentication required`, can also describe an invalid one. */
const MISSING = /missing|no (?:access )?token|no bearer|no auth|not provided|access token is required/
/** `Missing or expired token` is one reason for several causes. */
const AMBIGUOUS = /invalid| or /

function saysMissing(description = ''): boolean {
  const words = quote(description).toLowerCase()
  return MISSING.test(words) && !AMBIGUOUS.test(words)
}

function hasSameReason(one: HttpExchange, other: HttpExchange): boolean {
  return one.status === other.status && isDeepStrictEqual(one.reason, other.reason)
}

/** The fixes by the name that a proxy sends in `Server` or `Via`. */
const FIXES: Readonly<Record<string, string>> = {
  nginx:
    'nginx: remove proxy_set_header Authorization "" and auth_basic, or add proxy_set_header Authorization $http_authorization',
  apache: 'Apache: CGIPassAuth On, or SetEnvIf Authorization "(.*)" HTTP_AUTHORIZATION=$1',
  cloudfront: 'CloudFront: forward Authorization with an origin request policy, such as AllViewer',
  others:
    'in other proxies, gateways, and middleware: forward Authorization unchanged, and do not use it for their own sign-in',
}

/** Returns the fixes, with that of the proxy first. @param proxy the values of `Server` and `Via` */
function fixesFor(proxy: string): string {
  const names = proxy.toLowerCase()
  const fixes = Object.entries(FIXES).sort(
    ([one], [other]) => Number(names.includes(other)) - Number(names.includes(one)),
  )
  return `let every proxy in front of the server forward the Authorization header. ${fixes.map(([, fix]) => fix).join('; ')}`
}

/** The response that shows that the token does not reach the server, or `undefined` if it does. */
const ignoredToken = observation(async (examination) => {
  const without = await refusal(examination)
  const own = examination.token === undefined ? undefined : await tokenResponse(examination)
  if (own !== undefined && !isRefused(own)) return undefined
  const random = await randomTokenResponse(examination)
  const response = own ?? random
  if (!hasSameReason(random, without) || !hasSameReason(response, without)) return undefined
  return { response, saysMissing: saysMissing(without.reason.description) }
})

/** JSON-RPC errors of a server that has accepted the token and does not support the request. */
const BEHIND_THE_GATE: readonly unknown[] = [-32_022, -32_020, -32_600, -32_601, -32_602]

async function checkRejection(
  examination: Examination,
  response: HttpExchange,
  hintIfAccepted: string,
): Promise<Finding> {
  const { status, succeeded, errorCode, challenge, summary } = response
  if (status === 503) return await unavailable(examination, response)
  if ((succeeded && errorCode === undefined) || (status === 400 && BEHIND_THE_GATE.includes(errorCode)))
    return fail(`${status}: the token was accepted`, hintIfAccepted)
  const hint =
    'respond with 401 and error="invalid_token": otherwise clients do not get a new token (RFC 6750 §3.1)'
  if (succeeded) return fail(`an error in a response with status ${summary}`, hint)
  if (status !== 401) return fail(summary, hint)
  if (challenge === undefined) return fail(`${summary}, without a Bearer challenge`, hint)
  const error = response.parameter('error')
  if (error === 'invalid_token') return ok(summary)
  return warn(`401 with ${error === undefined ? 'no error' : `error ${quote(error)}`}`, hint)
}

/** Reports a server that cannot verify tokens. @throws {InconclusiveError} if an authorization server does not respond */
async function unavailable(examination: Examination, response: HttpExchange): Promise<Finding> {
  const seen = response.summary
  onlyIf(
    !(await isAuthorizationServerDown(examination)),
    `${seen}: the server cannot verify tokens without the authorization server: see issuer.metadata`,
  )
  return fail(
    seen,
    'check that the server reaches the keys or the introspection endpoint of the authorization server: DNS, firewall, proxy, and certificates',
  )
}

/** Returns plausible claims (RFC 9068), which a server accepts if it does not verify the signature. */
async function temptingClaims(examination: Examination, expiresIn: number): Promise<JWTPayload> {
  const document = await resourceDocument(examination)
  const challenged = (await refusal(examination)).parameter('scope')
  const scope = challenged ?? textsOf(document, 'scopes_supported')?.join(' ')
  const now = Math.floor(Date.now() / 1000)
  return {
    iss: textsOf(document, 'authorization_servers')?.[0] ?? examination.url.origin,
    aud: typeof document?.resource === 'string' ? document.resource : examination.url.href,
    sub: 'mcp-gatekit-doctor',
    client_id: 'mcp-gatekit-doctor',
    iat: Math.min(now, now + expiresIn - 60),
    exp: now + expiresIn,
    jti: randomUUID(),
    ...(scope !== undefined && { scope }),
  }
}

/** Returns a JWT that is signed with a random key. */
async function forgedToken(claims: JWTPayload): Promise<string> {
  const { privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' })
  const header = { typ: 'at+jwt', alg: 'ES256', kid: randomUUID() }
  return await new SignJWT(claims).setProtectedHeader(header).sign(privateKey)
}

/** Returns a JWT with the algorithm `none` and no signature. */
function unsignedToken(claims: JWTPayload): string {
  const parts = [{ typ: 'at+jwt', alg: 'none' }, claims].map((part) => base64url.encode(JSON.stringify(part)))
  return `${parts.join('.')}.`
}

/** Returns the response to a token without a required scope: that of `--under-scoped-token-env`, or the token under test. */
export async function underScopedResponse(
  examination: Examination,
  headers: Readonly<Record<string, string>> = {},
): Promise<HttpExchange> {
  const { underScopedToken: token } = examination.options
  if (token !== undefined) {
    examination.requireSafeWay()
    return await examination.post(await underScopedMessage(examination), { token, headers })
  }
  // Another check reports why the handshake fails.
  const own = await handshake(examination).catch(() => undefined)
  onlyIf(
    own?.status === 403,
    'this check needs a token without a required scope: use --under-scoped-token-env',
  )
  return await examination.post(initialize(NEWEST_LEGACY), { token: examination.token, headers })
}

/** Returns the call of `--call`, or else a request for the tools, in a supported revision if one is known. */
async function underScopedMessage(examination: Examination): Promise<McpMessage> {
  const { call: name, callArguments } = examination.options
  // Another check reports why no conversation is possible.
  const talk = await conversation(examination).catch(() => undefined)
  if (name === undefined) return talk?.message('tools/list') ?? legacyMessage(NEWEST_LEGACY, 'tools/list', {})
  const params = { name, arguments: callArguments }
  return talk?.message('tools/call', params) ?? modernMessage('tools/call', params)
}

/** Returns a check that sends a forged token. @param make creates the token */
function refusesForgery(
  make: (claims: JWTPayload) => string | Promise<string>,
  expiresIn: number,
): CheckFunction {
  const hint =
    'verify the signature with the keys of the authorization server, and accept only asymmetric algorithms (mcp-gatekit: jwtVerifier)'
  return async (examination) => {
    const token = await make(await temptingClaims(examination, expiresIn))
    return await checkRejection(examination, await tryToken(examination, token), hint)
  }
}

export const TOKENS: CheckFunctions = {
  async 'edge.proxy'(examination) {
    const ignored = await ignoredToken(examination)
    if (ignored === undefined) return ok('the server distinguishes requests with a token')
    const { response } = ignored
    const proxy = ['server', 'via'].flatMap((name) => response.header(name) ?? []).join(', ')
    const seen = `a request with a token gets ${response.summary}, like a request without one${proxy === '' ? '' : ` (from ${quote(proxy)})`}`
    if (ignored.saysMissing)
      return fail(`${seen}: something between doctor and the server removes the header`, fixesFor(proxy))
    onlyIf(
      examination.token !== undefined,
      'the server gives the same response with and without a token: use --token-env or --login',
    )
    return warn(
      `${seen}: either something removes the header, or the server gives no reason`,
      `respond to an invalid token with error="invalid_token" and an error_description. If the log of the server shows no token, ${fixesFor(proxy)}`,
    )
  },
  'token.claims': comparedToken,
  async 'token.wrong'(examination) {
    const hint =
      'verify tokens: the server accepts any string (mcp-gatekit: jwtVerifier or introspectionVerifier)'
    return await checkRejection(examination, await randomTokenResponse(examination), hint)
  },
  'token.forged': refusesForgery(forgedToken, 300),
  'token.unsigned': refusesForgery(unsignedToken, 300),
  'token.expired': refusesForgery(forgedToken, -3600),
  async 'token.login'(examination) {
    const { login } = examination.options
    onlyIf(login !== undefined, 'only with --login')
    examination.requireSafeWay()
    return await signIn(examination, login)
  },
  async 'token.accepted'(examination) {
    await refusal(examination)
    const response = await tokenResponse(examination)
    const { status, summary: seen } = response
    if (isRefused(response) && (await ignoredToken(examination))?.saysMissing === true)
      return fail(seen, 'see edge.proxy: the token does not reach the server')
    if (status === 503) return await unavailable(examination, response)
    if (status === 401) {
      const compared = await comparedToken(examination)
      const advice = `check the issuer, audience, keys, and algorithms of the verifier, and the log of the server: ${compared.seen}`
      return fail(seen, compared.status === 'ok' ? advice : 'see token.claims')
    }
    if (status === 403) {
      const needed = quote(response.parameter('scope') ?? 'that the server requires')
      return fail(seen, `get a token with the scopes ${needed}`)
    }
    if (status >= 500) return fail(seen, 'check the log of the server: it fails for a valid token')
    return ok(seen)
  },
  async 'token.scheme-case'(examination) {
    const headers = { authorization: `bearer ${await goodToken(examination)}` }
    const response = await examination.post(initialize(NEWEST_LEGACY), { headers })
    if (response.status !== 401) return ok(String(response.status))
    return warn(
      `${response.summary} for "bearer" in lowercase`,
      'compare the scheme case-insensitively (RFC 9110 §11.1)',
    )
  },
  async 'token.under-scoped'(examination) {
    await refusal(examination)
    const response = await underScopedResponse(examination)
    const { status, hasResult } = response
    const hint =
      'respond with 403 and WWW-Authenticate: Bearer error="insufficient_scope", scope="…", resource_metadata="…": otherwise clients do not request more scopes'
    if (response.succeeded) {
      if (!hasResult || response.result('isError') === true)
        return fail(`an error in a response with status ${response.summary}`, hint)
      return fail(
        `${status}: the token was accepted`,
        'check the scopes of the token for each operation; or use --call with a tool that requires another scope',
      )
    }
    if (status !== 403) return fail(response.summary, hint)
    if (response.parameter('error') !== 'insufficient_scope')
      return fail('403 without error="insufficient_scope"', hint)
    const missing = ['scope', 'resource_metadata'].filter((name) => response.parameter(name) === undefined)
    return missing.length > 0
      ? warn(`403, insufficient_scope, without ${missing.join(' and ')}`, hint)
      : ok(`${response.summary}, for ${quote(response.parameter('scope') ?? '')}`)
  },
}
