import { isAuthorizationServerDown } from './authorization-servers.ts'
import { bearerChallengeOf } from './challenges.ts'
import type { Check } from './check.ts'
import { conversation, goodToken, handshake, isRefused, memberOf, tokenResponse } from './conversation.ts'
import { EDGE_PROXY, losesToken, randomTokenResponse, tryToken } from './edge-proxy.ts'
import type { Examination } from './examination.ts'
import { type Finding, fail, InconclusiveError, ok, warn } from './finding.ts'
import { type ForgedClaims, forgedToken, unsignedToken } from './forged-tokens.ts'
import type { HttpExchange } from './http-exchange.ts'
import { initialize, legacyMessage, type McpMessage, modernMessage, NEWEST_LEGACY } from './messages.ts'
import { textsOf } from './metadata-documents.ts'
import { bearerChallenge, refusal } from './protection.ts'
import { quote } from './quote.ts'
import { resourceMetadata } from './resource-metadata.ts'
import { signIn } from './sign-in.ts'
import { describeRefusal } from './stated-reason.ts'
import { comparedToken, TOKEN_CLAIMS } from './token-claims.ts'

/** JSON-RPC errors of a server that has accepted the token and does not support the request. */
const BEHIND_THE_GATE: readonly unknown[] = [-32_022, -32_020, -32_600, -32_601, -32_602]

async function checkRejection(
  examination: Examination,
  response: HttpExchange,
  hintIfAccepted: string,
): Promise<Finding> {
  const { status, message } = response
  if (status === 503) return await unavailable(examination, response)
  const code = memberOf(message?.error, 'code')
  if ((response.succeeded && code === undefined) || (status === 400 && BEHIND_THE_GATE.includes(code)))
    return fail(`${status}: the token was accepted`, hintIfAccepted)
  const hint =
    'respond with 401 and error="invalid_token": otherwise clients do not get a new token (RFC 6750 §3.1)'
  if (status !== 401)
    return fail(response.succeeded ? `an error in a response with status ${status}` : String(status), hint)
  const challenge = bearerChallengeOf(response.header('www-authenticate'))
  if (challenge === undefined) return fail(`${describeRefusal(response)}, without a Bearer challenge`, hint)
  const error = challenge.parameters.get('error')
  return error === 'invalid_token'
    ? ok(describeRefusal(response))
    : warn(`401 with ${error === undefined ? 'no error' : `error ${quote(error)}`}`, hint)
}

/** Reports a server that cannot verify tokens. @throws {InconclusiveError} if an authorization server does not respond */
async function unavailable(examination: Examination, response: HttpExchange): Promise<Finding> {
  const seen = describeRefusal(response)
  if (await isAuthorizationServerDown(examination))
    throw new InconclusiveError(
      `${seen}: the server cannot verify tokens without the authorization server: see issuer.metadata`,
    )
  return fail(
    seen,
    'check that the server reaches the keys or the introspection endpoint of the authorization server: DNS, firewall, proxy, and certificates',
  )
}

/** Returns claims that a server accepts if it does not verify the signature. */
async function temptingClaims(examination: Examination, expiresIn: number): Promise<ForgedClaims> {
  const challenged = (await bearerChallenge(examination))?.parameters.get('scope')
  const document = await resourceMetadata(examination).then(
    (found) => found.document,
    () => ({}) as Readonly<Record<string, unknown>>,
  )
  return {
    issuer: textsOf(document, 'authorization_servers')?.[0] ?? examination.url.origin,
    audience: typeof document.resource === 'string' ? document.resource : examination.url.href,
    scope: challenged ?? textsOf(document, 'scopes_supported')?.join(' '),
    expiresIn,
  }
}

const VERIFY =
  'verify the signature with the keys of the authorization server, and accept only asymmetric algorithms (mcp-gatekit: jwtVerifier)'

/** Returns the response to a token without a required scope: that of `--under-scoped-token-env`, or the token under test. */
export async function underScopedResponse(
  examination: Examination,
  headers: Readonly<Record<string, string>> = {},
): Promise<HttpExchange> {
  const { underScopedToken: token, call, callArguments } = examination.options
  if (token !== undefined && !examination.mayCarryToken)
    throw new InconclusiveError('tokens are not sent over plain http: see server.tls')
  if (token !== undefined) {
    const params = call === undefined ? undefined : { name: call, arguments: callArguments }
    return await examination.post(
      await messageFor(examination, call === undefined ? 'tools/list' : 'tools/call', params),
      {
        token,
        headers,
      },
    )
  }
  const own = await handshake(examination).catch(() => undefined)
  if (own?.status === 403)
    return await examination.post(initialize(NEWEST_LEGACY), { ...withToken(examination.token), headers })
  throw new InconclusiveError(
    'this check needs a token without a required scope: use --under-scoped-token-env',
  )
}

function withToken(token: string | undefined): { readonly token?: string } {
  return token === undefined ? {} : { token }
}

/** Returns a message in a supported revision, if one is known. */
async function messageFor(
  examination: Examination,
  method: string,
  params: Readonly<Record<string, unknown>> | undefined,
): Promise<McpMessage> {
  const talk = await conversation(examination).catch(() => undefined)
  if (talk !== undefined) return talk.message(method, params)
  return method === 'tools/call'
    ? modernMessage(method, params)
    : legacyMessage(NEWEST_LEGACY, method, params ?? {})
}

/** Returns a check that sends a forged token. @param make creates the token */
function refusesForgery(
  name: string,
  title: string,
  need: string,
  make: (claims: ForgedClaims) => string,
  expiresIn: number,
): Check {
  return {
    id: `token.${name}`,
    title,
    needs: [need],
    async run(examination) {
      const token = make(await temptingClaims(examination, expiresIn))
      return await checkRejection(examination, await tryToken(examination, token), VERIFY)
    },
  }
}

const CHECK_VERIFIER =
  'check the issuer, audience, keys, and algorithms of the verifier, and the log of the server: the token matches the metadata'

export const TOKENS: readonly Check[] = [
  {
    id: 'token.wrong',
    title: 'A random token is rejected',
    needs: ['auth.required'],
    async run(examination) {
      return await checkRejection(
        examination,
        await randomTokenResponse(examination),
        'verify tokens: the server accepts any string (mcp-gatekit: jwtVerifier or introspectionVerifier)',
      )
    },
  },
  refusesForgery(
    'forged',
    'A token that is signed with another key is rejected',
    'token.wrong',
    forgedToken,
    300,
  ),
  refusesForgery('unsigned', 'A token without a signature is rejected', 'token.forged', unsignedToken, 300),
  refusesForgery('expired', 'An expired forged token is rejected', 'token.forged', forgedToken, -3600),
  {
    id: 'token.login',
    title: 'Signing in returns a token',
    needs: ['server.endpoint'],
    async run(examination) {
      if (examination.options.login === undefined) throw new InconclusiveError('only with --login')
      if (!examination.mayCarryToken)
        throw new InconclusiveError('tokens are not sent over plain http: see server.tls')
      return await signIn(examination, examination.options.login)
    },
  },
  EDGE_PROXY,
  {
    id: 'token.accepted',
    title: 'The token is accepted',
    needs: ['auth.required'],
    async run(examination) {
      await refusal(examination)
      const response = await tokenResponse(examination)
      const { status } = response
      const seen = describeRefusal(response)
      if (isRefused(response) && (await losesToken(examination)))
        return fail(seen, 'see edge.proxy: the token does not reach the server')
      if (status === 503) return await unavailable(examination, response)
      if (status === 401) {
        const { status: compared } = await comparedToken(examination)
        return fail(seen, compared === 'ok' ? CHECK_VERIFIER : 'see token.claims')
      }
      if (status === 403) {
        const scope = bearerChallengeOf(response.header('www-authenticate'))?.parameters.get('scope')
        return fail(
          seen,
          `get a token with the scopes ${scope === undefined ? 'that the server requires' : quote(scope)}`,
        )
      }
      return status >= 500
        ? fail(seen, 'check the log of the server: it fails for a valid token')
        : ok(String(status))
    },
  },
  TOKEN_CLAIMS,
  {
    id: 'token.scheme-case',
    title: 'The Authorization scheme is case-insensitive',
    needs: ['token.accepted'],
    async run(examination) {
      const token = await goodToken(examination)
      const { headers, body } = initialize(NEWEST_LEGACY)
      const response = await examination.send(
        'POST',
        { ...headers, authorization: `bearer ${token}` },
        { body },
      )
      return response.status === 401
        ? warn(
            `${describeRefusal(response)} for "bearer" in lowercase`,
            'compare the scheme case-insensitively (RFC 9110 §11.1)',
          )
        : ok(String(response.status))
    },
  },
  {
    id: 'token.under-scoped',
    title: 'A token without a required scope gets a challenge',
    needs: ['auth.required'],
    async run(examination) {
      await refusal(examination)
      const response = await underScopedResponse(examination)
      const { status } = response
      const hint =
        'respond with 403 and WWW-Authenticate: Bearer error="insufficient_scope", scope="…", resource_metadata="…": otherwise clients do not request more scopes'
      if (response.succeeded) {
        const { message } = response
        return message?.result === undefined || memberOf(message.result, 'isError') === true
          ? fail(`an error in a response with status ${status}`, hint)
          : fail(
              `${status}: the token was accepted`,
              'check the scopes of the token for each operation; or use --call with a tool that requires another scope',
            )
      }
      if (status !== 403) return fail(describeRefusal(response), hint)
      const parameters = bearerChallengeOf(response.header('www-authenticate'))?.parameters
      if (parameters?.get('error') !== 'insufficient_scope')
        return fail('403 without error="insufficient_scope"', hint)
      const missing = ['scope', 'resource_metadata'].filter((name) => !parameters.has(name))
      return missing.length > 0
        ? warn(`403, insufficient_scope, without ${missing.join(' and ')}`, hint)
        : ok(`${describeRefusal(response)}, for ${quote(parameters.get('scope') ?? '')}`)
    },
  },
]
