import { isScopeToken } from '../../src/options/scope-token.ts'
import { bearerChallengeOf, type Challenge, ChallengeSyntaxError, parseChallenges } from './challenges.ts'
import type { Check } from './check.ts'
import { type Examination, type Observation, observation } from './examination.ts'
import { fail, InconclusiveError, ok, warn, worst } from './finding.ts'
import type { HttpExchange } from './http-exchange.ts'
import { legacyMessage, modernMessage, NEWEST_LEGACY } from './messages.ts'
import { metadataUrls, publishedDocuments } from './metadata-documents.ts'
import { quote } from './quote.ts'
import { firstResponse } from './reachability.ts'

/** The response to `tools/list` without a token, after a handshake without a token. */
const openListing: Observation<HttpExchange> = observation(async (examination) => {
  const first = await firstResponse(examination)
  // Without a handshake, the server supports only 2026-07-28.
  if (first.message?.result === undefined) return await examination.post(modernMessage('tools/list'))
  const sessionId = first.header('mcp-session-id')
  return await examination.post(legacyMessage(NEWEST_LEGACY, 'tools/list', {}, { sessionId }))
})

/** The name of a tool that no server has, so that nothing is called. */
const UNKNOWN_TOOL = 'mcp-gatekit-doctor-unknown'

/** Calls a tool that does not exist. A server with public operations treats the name like that of a protected tool. */
export async function callUnknownTool(
  examination: Examination,
  token: string | undefined,
): Promise<HttpExchange> {
  const first = await firstResponse(examination)
  const params = { name: UNKNOWN_TOOL, arguments: {} }
  if (first.message?.result === undefined)
    return await examination.post(modernMessage('tools/call', params), { token })
  const sessionId = first.header('mcp-session-id')
  return await examination.post(legacyMessage(NEWEST_LEGACY, 'tools/call', params, { sessionId }), { token })
}

const openCall: Observation<HttpExchange> = observation((examination) =>
  callUnknownTool(examination, undefined),
)

/** Returns `true` if the result of a call contains a challenge, which some clients accept instead of a 401. */
function isChallengedInResult({ message }: HttpExchange): boolean {
  const { _meta } = (message?.result ?? {}) as {
    readonly _meta?: { readonly [name: string]: unknown } | null
  }
  return _meta?.['mcp/www_authenticate'] !== undefined
}

/** Returns `true` if the handshake and the lists work without a token, and protected calls get a 401. */
export async function hasPublicOperations(examination: Examination): Promise<boolean> {
  if (!(await answersWithoutToken(examination)) || (await openListing(examination)).status === 401)
    return false
  return (await openCall(examination)).status === 401
}

/** Returns the tools that are listed without a token. */
export async function openTools(examination: Examination): Promise<readonly unknown[]> {
  const { tools } = ((await openListing(examination)).message?.result ?? {}) as { readonly tools?: unknown }
  return Array.isArray(tools) ? tools : []
}

/** Returns `true` if the MCP server itself responds to the handshake, instead of a gate. */
async function isAnswered(examination: Examination): Promise<boolean> {
  const { status, message } = await firstResponse(examination)
  return message !== undefined && status !== 401 && status !== 403
}

/** Returns `true` if the handshake or `tools/list` works without a token, or if the server has no tools. */
async function isOpen(examination: Examination): Promise<boolean> {
  if ((await firstResponse(examination)).message?.result !== undefined) return true
  const { message } = await openListing(examination)
  return message?.result !== undefined || (message?.error as { code?: unknown } | undefined)?.code === -32_601
}

/** The 401 response to a request without a token. @throws {InconclusiveError} if there is none */
export const refusal: Observation<HttpExchange> = observation(async (examination) => {
  const first = await firstResponse(examination)
  if (first.status === 401) return first
  if (await isAnswered(examination)) {
    const listing = await openListing(examination)
    if (listing.status === 401) return listing
    if (await hasPublicOperations(examination)) return await openCall(examination)
  }
  throw new InconclusiveError('the server never responds with 401: see auth.required')
})

/** Returns `true` if the server requires a token for any request. */
export async function isGuarded(examination: Examination): Promise<boolean> {
  if (!(await isAnswered(examination)) || !(await isOpen(examination))) return true
  if ((await openListing(examination)).status === 401) return true
  const call = await openCall(examination)
  return call.status === 401 || isChallengedInResult(call)
}

/** Returns `true` if the handshake or `tools/list` works without a token. */
export async function answersWithoutToken(examination: Examination): Promise<boolean> {
  return (await isAnswered(examination)) && (await isOpen(examination))
}

/** Returns the `Bearer` challenge of the 401, or `undefined` if it cannot be parsed. */
export async function bearerChallenge(examination: Examination): Promise<Challenge | undefined> {
  return bearerChallengeOf((await refusal(examination)).header('www-authenticate'))
}

export const PROTECTION: readonly Check[] = [
  {
    id: 'auth.required',
    title: 'Requests without a token get a 401',
    needs: ['server.endpoint'],
    async run(examination) {
      const { status } = await firstResponse(examination)
      if (status === 401) return ok('401')
      const hint = 'respond with 401 and a WWW-Authenticate header: otherwise clients do not start a sign-in'
      if (!(await isAnswered(examination))) return fail(`${status} for a request without a token`, hint)
      if ((await openListing(examination)).status === 401) {
        return warn(
          'initialize works without a token, tools/list does not',
          'require the token from the first request on: some clients do not start a sign-in later',
        )
      }
      if (!(await isOpen(examination)))
        return fail(`a JSON-RPC error (${status}) for a request without a token`, hint)
      if (await hasPublicOperations(examination))
        return ok('initialize and tools/list work without a token, calls get a 401: see public.operations')
      if (isChallengedInResult(await openCall(examination))) {
        return warn(
          'a call without a token gets a challenge in a response with status 200',
          'respond with 401: most clients do not look for a challenge in the result of a call',
        )
      }
      const meantToBeGuarded =
        examination.options.token !== undefined ||
        examination.options.login !== undefined ||
        (await publishedDocuments(examination)).length > 0
      return meantToBeGuarded
        ? fail(
            'initialize and tools/list work without a token, although the server is expected to require one',
            'put the gate in front of the MCP route (mcp-gatekit: mcpAuth before the handler), on every path of that route',
          )
        : warn(
            'the server requires no token',
            'require a token unless all data is public (mcp-gatekit: mcpAuth)',
          )
    },
  },
  {
    id: 'auth.methods',
    title: 'GET and DELETE are protected',
    needs: ['auth.required'],
    async run(examination) {
      await refusal(examination)
      const hint = 'put the gate in front of every method of the route, not only of POST'
      const get = await examination.send('GET', { accept: 'text/event-stream' })
      const remove = await examination.send('DELETE', { accept: 'application/json' })
      const findings = [get, remove].map((response) => {
        const seen = `${response.outgoing.method}: ${response.status}`
        if (response.succeeded) return fail(`${seen} without a token`, hint)
        return response.status >= 500
          ? warn(seen, 'respond with 401, or with 405 for an unsupported method')
          : ok(seen)
      })
      return worst(findings)
    },
  },
  {
    id: 'challenge.present',
    title: 'The 401 contains a Bearer challenge',
    needs: ['auth.required'],
    async run(examination) {
      const header = (await refusal(examination)).header('www-authenticate')
      if (header === undefined) {
        return fail(
          'the 401 has no WWW-Authenticate header',
          'send WWW-Authenticate: Bearer resource_metadata="…" with every 401 (RFC 6750 §3), and check that no proxy removes it',
        )
      }
      // The header is searched, not parsed, so that a malformed challenge counts.
      return /(?:^|,)\s*bearer(?:\s|,|$)/i.test(header)
        ? ok(quote(header))
        : fail(
            `no Bearer challenge: ${quote(header)}`,
            'use the scheme Bearer: MCP clients support no other scheme',
          )
    },
  },
  {
    id: 'challenge.syntax',
    title: 'The challenge is well-formed',
    needs: ['challenge.present'],
    async run(examination) {
      const header = (await refusal(examination)).header('www-authenticate') ?? ''
      try {
        const challenges = parseChallenges(header)
        return ok(
          challenges
            .map(({ scheme, parameters }) => quote([scheme, ...parameters.keys()].join(' ')))
            .join(', '),
        )
      } catch (error) {
        if (!(error instanceof ChallengeSyntaxError)) throw error
        return fail(
          `${error.message} (${quote(header)})`,
          'use the syntax of RFC 9110 §11.6.1: Bearer name="value", name="value", with \\ before each " and \\ in a value',
        )
      }
    },
  },
  {
    id: 'challenge.order',
    title: 'All clients can read the challenge',
    needs: ['challenge.syntax'],
    async run(examination) {
      const header = (await refusal(examination)).header('www-authenticate') ?? ''
      const named = (await bearerChallenge(examination))?.parameters.get('resource_metadata')
      // The official SDK uses the first match in the whole header.
      const found = /resource_metadata=(?:"([^"]+)"|([^\s,]+))/.exec(header)
      const first = found?.[1] ?? found?.[2]
      if (named !== undefined && first !== named) {
        return fail(
          'the first resource_metadata= in the header is not the parameter of that name',
          'put resource_metadata before parameters that can contain the same text, such as error_description, and do not escape characters in it',
        )
      }
      return header.trim().toLowerCase().startsWith('bearer')
        ? ok('Bearer comes first')
        : warn(
            'another scheme comes before Bearer',
            'put the Bearer challenge first, in one header with the others: clients of SDK v1 read only the first challenge',
          )
    },
  },
  {
    id: 'challenge.resource-metadata',
    title: 'The challenge contains the URL of the metadata',
    needs: ['challenge.syntax'],
    async run(examination) {
      const named = (await bearerChallenge(examination))?.parameters.get('resource_metadata')
      const { path } = metadataUrls(examination.url)
      if (named === undefined) {
        const published = (await publishedDocuments(examination)).length > 0
        const hint = `add resource_metadata="${path.href}" to the challenge (RFC 9728 §5.1)`
        return published
          ? warn('no resource_metadata, although there is a document at a well-known URL', hint)
          : fail('no resource_metadata', hint)
      }
      const hint = `use the public URL of the document, such as ${path.href} (mcp-gatekit: set resource, or trustProxy behind a proxy)`
      if (!URL.canParse(named)) return fail(`resource_metadata is not an absolute URL: ${quote(named)}`, hint)
      const url = new URL(named)
      if (!examination.mayFetch(url))
        return fail(`resource_metadata is ${quote(named)}, which is not https`, hint)
      if (url.protocol !== examination.url.protocol)
        return fail(`resource_metadata is ${quote(named)}, with another scheme than the server`, hint)
      return url.host === examination.url.host
        ? ok(quote(named))
        : warn(`resource_metadata is on another host: ${quote(named)}`, hint)
    },
  },
  {
    id: 'challenge.scope',
    title: 'The challenge names valid scopes',
    needs: ['challenge.syntax'],
    async run(examination) {
      const scope = (await bearerChallenge(examination))?.parameters.get('scope')
      if (scope === undefined) return ok('no scope: clients request those of the metadata')
      const scopes = scope.split(' ')
      if (!scopes.every(isScopeToken))
        return fail(
          `scope is ${quote(scope) || 'empty'}`,
          'separate scopes with one space (RFC 6749 §3.3), or remove the parameter',
        )
      return scopes.includes('offline_access')
        ? warn(
            quote(scope),
            'remove offline_access: clients request it from the authorization server, not for a resource',
          )
        : ok(quote(scope))
    },
  },
]
