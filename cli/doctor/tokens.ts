import { bearerChallengeOf } from './challenges.ts'
import type { Check } from './check.ts'
import { conversation, goodToken, handshake, memberOf } from './conversation.ts'
import type { Examination } from './examination.ts'
import { type Finding, fail, InconclusiveError, ok, warn } from './finding.ts'
import { type ForgedClaims, forgedToken, randomToken, unsignedToken } from './forged-tokens.ts'
import type { HttpExchange } from './http-exchange.ts'
import { initialize, legacyMessage, type McpMessage, modernMessage, NEWEST_LEGACY } from './messages.ts'
import { textsOf } from './metadata-documents.ts'
import { bearerChallenge, refusal } from './protection.ts'
import { quote } from './quote.ts'
import { resourceMetadata } from './resource-metadata.ts'
import { signIn } from './sign-in.ts'

/** Sends a token that is none with the very request that was refused without one. */
async function tryToken(examination: Examination, token: string): Promise<HttpExchange> {
  const { method, headers, body } = (await refusal(examination)).outgoing
  return await examination.send(method, headers, { ...(body !== undefined && { body }), token })
}

/** What the protocol says behind the gate to a revision or message that it does not take. */
const BEHIND_THE_GATE: readonly unknown[] = [-32_022, -32_020, -32_600, -32_601, -32_602]

function judgeRefusal(answer: HttpExchange, accepted: string): Finding {
  const { status, message } = answer
  const code = memberOf(message?.error, 'code')
  if ((answer.succeeded && code === undefined) || (status === 400 && BEHIND_THE_GATE.includes(code)))
    return fail(`${status}: it was accepted`, accepted)
  const hint =
    'answer 401 with error="invalid_token": on nothing else do clients get a new token (RFC 6750 §3.1)'
  if (status !== 401) return fail(answer.succeeded ? `an error within a ${status}` : String(status), hint)
  const challenge = bearerChallengeOf(answer.header('www-authenticate'))
  if (challenge === undefined) return fail('401 without a Bearer challenge', hint)
  const error = challenge.parameters.get('error')
  return error === 'invalid_token'
    ? ok('401, invalid_token')
    : warn(`401 with ${error === undefined ? 'no error' : `error ${quote(error)}`}`, hint)
}

/** Claims that a server which looks at claims alone would like. */
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
  'verify the signature with the keys of the authorization server, and take asymmetric algorithms only (mcp-gatekit: jwtVerifier)'

/** What the token that lacks scopes is answered, or else ours where it turned out to lack some. */
export async function underScopedAnswer(
  examination: Examination,
  headers: Readonly<Record<string, string>> = {},
): Promise<HttpExchange> {
  const { underScopedToken: token, call, callArguments } = examination.options
  if (token !== undefined && !examination.mayCarryToken)
    throw new InconclusiveError('no token is sent in the clear: see server.tls')
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
  throw new InconclusiveError('it needs a token that lacks scopes: give --under-scoped-token-env')
}

function withToken(token: string | undefined): { readonly token?: string } {
  return token === undefined ? {} : { token }
}

/** In the revision that is served, where that is known. */
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

/** @param make the token, of claims that end in `expiresIn` seconds. */
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
      return judgeRefusal(await tryToken(examination, token), VERIFY)
    },
  }
}

export const TOKENS: readonly Check[] = [
  {
    id: 'token.wrong',
    title: 'A wrong token is refused',
    needs: ['auth.required'],
    async run(examination) {
      return judgeRefusal(
        await tryToken(examination, randomToken()),
        'verify the token: anything is let in (mcp-gatekit: jwtVerifier or introspectionVerifier)',
      )
    },
  },
  refusesForgery('forged', 'A token signed with another key is refused', 'token.wrong', forgedToken, 300),
  refusesForgery('unsigned', 'A token without a signature is refused', 'token.forged', unsignedToken, 300),
  refusesForgery('expired', 'A token that looks expired is refused', 'token.forged', forgedToken, -3600),
  {
    id: 'token.login',
    title: 'Signing in gives a token',
    needs: ['server.endpoint'],
    async run(examination) {
      if (examination.options.login === undefined) throw new InconclusiveError('only with --login')
      if (!examination.mayCarryToken)
        throw new InconclusiveError('no token is sent in the clear: see server.tls')
      return await signIn(examination, examination.options.login)
    },
  },
  {
    id: 'token.accepted',
    title: 'The given token is accepted',
    needs: ['auth.required'],
    async run(examination) {
      await refusal(examination)
      const { status, header } = await handshake(examination).then((answer) => ({
        status: answer.status,
        header: answer.header('www-authenticate'),
      }))
      const error = bearerChallengeOf(header)?.parameters.get('error')
      const seen = `${status}${error === undefined ? '' : `, ${quote(error)}`}`
      if (status === 401) {
        return fail(
          seen,
          'get a new token, whose issuer is the named authorization server and whose audience is the resource of the metadata',
        )
      }
      if (status === 403) {
        const scope = bearerChallengeOf(header)?.parameters.get('scope')
        return fail(
          seen,
          `get a token with the scopes ${scope === undefined ? 'that the server wants' : quote(scope)}`,
        )
      }
      return status >= 500
        ? fail(seen, 'look into the log of the server: it fails for a good token')
        : ok(seen)
    },
  },
  {
    id: 'token.scheme-case',
    title: 'The scheme is read in any case',
    needs: ['token.accepted'],
    async run(examination) {
      const token = await goodToken(examination)
      const { headers, body } = initialize(NEWEST_LEGACY)
      const answer = await examination.send(
        'POST',
        { ...headers, authorization: `bearer ${token}` },
        { body },
      )
      return answer.status === 401
        ? warn('401 to "bearer" in lower case', 'compare the scheme without regard to case (RFC 9110 §11.1)')
        : ok(String(answer.status))
    },
  },
  {
    id: 'token.under-scoped',
    title: 'A token that lacks a scope gets a challenge',
    needs: ['auth.required'],
    async run(examination) {
      await refusal(examination)
      const answer = await underScopedAnswer(examination)
      const { status } = answer
      const hint =
        'answer 403 with WWW-Authenticate: Bearer error="insufficient_scope", scope="…", resource_metadata="…": clients ask for more scopes on nothing else'
      if (answer.succeeded) {
        const { message } = answer
        return message?.result === undefined || memberOf(message.result, 'isError') === true
          ? fail(`an error within a ${status}`, hint)
          : fail(
              `${status}: it was accepted`,
              'check the scopes of the token for the operation; or give --call with a tool that this token may not use',
            )
      }
      if (status !== 403) return fail(String(status), hint)
      const parameters = bearerChallengeOf(answer.header('www-authenticate'))?.parameters
      if (parameters?.get('error') !== 'insufficient_scope')
        return fail('403 without error="insufficient_scope"', hint)
      const missing = ['scope', 'resource_metadata'].filter((name) => !parameters.has(name))
      return missing.length > 0
        ? warn(`403, insufficient_scope, without ${missing.join(' and ')}`, hint)
        : ok(`403, insufficient_scope, ${quote(parameters.get('scope') ?? '')}`)
    },
  },
]
