import { isScopeToken } from '../../src/options/scope-token.ts'
import { bearerChallengeOf, type Challenge, ChallengeSyntaxError, parseChallenges } from './challenges.ts'
import type { Check } from './check.ts'
import { type Examination, type Observation, observation } from './examination.ts'
import { fail, InconclusiveError, ok, warn, worst } from './finding.ts'
import type { HttpExchange } from './http-exchange.ts'
import { legacyMessage, modernMessage, NEWEST_LEGACY } from './messages.ts'
import { metadataUrls, publishedDocuments } from './metadata-documents.ts'
import { quote } from './quote.ts'
import { firstAnswer } from './reachability.ts'

/** What a list of tools is answered with, without a token, where the handshake was answered without one. */
const openListing: Observation<HttpExchange> = observation(async (examination) => {
  const first = await firstAnswer(examination)
  // No handshake: a server of 2026-07-28 alone.
  if (first.message?.result === undefined) return await examination.post(modernMessage('tools/list'))
  const sessionId = first.header('mcp-session-id')
  return await examination.post(legacyMessage(NEWEST_LEGACY, 'tools/list', {}, { sessionId }))
})

/** Whether the handshake is answered by something else than a gate. */
async function isAnswered(examination: Examination): Promise<boolean> {
  const { status, message } = await firstAnswer(examination)
  return message !== undefined && status !== 401 && status !== 403
}

/** Whether anything is served to everybody: the handshake, or the list of tools. A list that there is not counts too. */
async function isOpen(examination: Examination): Promise<boolean> {
  if ((await firstAnswer(examination)).message?.result !== undefined) return true
  const { message } = await openListing(examination)
  return message?.result !== undefined || (message?.error as { code?: unknown } | undefined)?.code === -32_601
}

/** The 401 that a client without a token gets. @throws {InconclusiveError} where there is none */
export const refusal: Observation<HttpExchange> = observation(async (examination) => {
  const first = await firstAnswer(examination)
  if (first.status === 401) return first
  if (await isAnswered(examination)) {
    const listing = await openListing(examination)
    if (listing.status === 401) return listing
  }
  throw new InconclusiveError('no request was answered 401: see auth.required')
})

/** Whether the server wants a token, for anything, however it says so. */
export async function isGuarded(examination: Examination): Promise<boolean> {
  if (!(await isAnswered(examination)) || !(await isOpen(examination))) return true
  return (await openListing(examination)).status === 401
}

/** The `Bearer` challenge of that 401; undefined when it cannot be read. */
export async function bearerChallenge(examination: Examination): Promise<Challenge | undefined> {
  return bearerChallengeOf((await refusal(examination)).header('www-authenticate'))
}

export const PROTECTION: readonly Check[] = [
  {
    id: 'auth.required',
    title: 'Without a token the answer is 401',
    needs: ['server.endpoint'],
    async run(examination) {
      const { status } = await firstAnswer(examination)
      if (status === 401) return ok('401')
      const hint = 'answer 401 with a WWW-Authenticate header: clients sign in on nothing else'
      if (!(await isAnswered(examination))) return fail(`${status} to a request without a token`, hint)
      if ((await openListing(examination)).status === 401) {
        return warn(
          'initialize is answered without a token, tools/list is not',
          'ask for the token from the first request on: some clients sign in on nothing else',
        )
      }
      if (!(await isOpen(examination)))
        return fail(`a JSON-RPC error (${status}) to a request without a token`, hint)
      const meantToBeGuarded =
        examination.options.token !== undefined ||
        examination.options.login !== undefined ||
        (await publishedDocuments(examination)).length > 0
      return meantToBeGuarded
        ? fail(
            'initialize and tools/list are answered without a token, although the server is said to want one',
            'put the gate in front of the MCP route itself (mcp-gatekit: mcpAuth before the handler), on every path that leads there',
          )
        : warn(
            'everybody may use this server',
            'that is fine for public data alone; otherwise ask for a token (mcp-gatekit: mcpAuth)',
          )
    },
  },
  {
    id: 'auth.methods',
    title: 'GET and DELETE are guarded too',
    needs: ['auth.required'],
    async run(examination) {
      await refusal(examination)
      const hint = 'put the gate in front of every method of the route, not of POST alone'
      const get = await examination.send('GET', { accept: 'text/event-stream' })
      const remove = await examination.send('DELETE', { accept: 'application/json' })
      const findings = [get, remove].map((answer) => {
        const seen = `${answer.outgoing.method}: ${answer.status}`
        if (answer.succeeded) return fail(`${seen} without a token`, hint)
        return answer.status >= 500
          ? warn(seen, 'answer 401, or 405 for a method that is not served')
          : ok(seen)
      })
      return worst(findings)
    },
  },
  {
    id: 'challenge.present',
    title: 'The 401 carries a Bearer challenge',
    needs: ['auth.required'],
    async run(examination) {
      const header = (await refusal(examination)).header('www-authenticate')
      if (header === undefined) {
        return fail(
          'the 401 has no WWW-Authenticate header',
          'send WWW-Authenticate: Bearer resource_metadata="…" with every 401 (RFC 6750 §3), and see that no proxy removes it',
        )
      }
      // Found by eye, so that a challenge that cannot be parsed is here all the same.
      return /(?:^|,)\s*bearer(?:\s|,|$)/i.test(header)
        ? ok(quote(header))
        : fail(`only ${quote(header)}`, 'offer the scheme Bearer: MCP clients know no other')
    },
  },
  {
    id: 'challenge.syntax',
    title: 'The challenge is well formed',
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
          'write it as RFC 9110 §11.6.1 has it: Bearer name="value", name="value", with \\ before " and \\ within a value',
        )
      }
    },
  },
  {
    id: 'challenge.order',
    title: 'Every client finds the challenge',
    needs: ['challenge.syntax'],
    async run(examination) {
      const header = (await refusal(examination)).header('www-authenticate') ?? ''
      const named = (await bearerChallenge(examination))?.parameters.get('resource_metadata')
      // The official SDK takes the first text of this kind, wherever it stands.
      const found = /resource_metadata=(?:"([^"]+)"|([^\s,]+))/.exec(header)
      const first = found?.[1] ?? found?.[2]
      if (named !== undefined && first !== named) {
        return fail(
          'the first resource_metadata= in the header is not the parameter of that name',
          'put resource_metadata before every text that could hold one, such as error_description, and escape nothing in it',
        )
      }
      return header.trim().toLowerCase().startsWith('bearer')
        ? ok('Bearer comes first')
        : warn(
            'another scheme comes before Bearer',
            'put the Bearer challenge first, in one header line with the others: clients of the v1 SDK read nothing else',
          )
    },
  },
  {
    id: 'challenge.resource-metadata',
    title: 'The challenge says where the metadata is',
    needs: ['challenge.syntax'],
    async run(examination) {
      const named = (await bearerChallenge(examination))?.parameters.get('resource_metadata')
      const { path } = metadataUrls(examination.url)
      if (named === undefined) {
        const published = (await publishedDocuments(examination)).length > 0
        const hint = `add resource_metadata="${path.href}" to the challenge (RFC 9728 §5.1)`
        return published
          ? warn('no resource_metadata, though a document is at a well-known place', hint)
          : fail('no resource_metadata', hint)
      }
      const hint = `name the document by its public URL, such as ${path.href} (mcp-gatekit: set resource; behind a proxy trustProxy)`
      if (!URL.canParse(named)) return fail(`resource_metadata is no absolute URL: ${quote(named)}`, hint)
      const url = new URL(named)
      if (!examination.mayFetch(url))
        return fail(`resource_metadata is ${quote(named)}, which is not https`, hint)
      if (url.protocol !== examination.url.protocol)
        return fail(`resource_metadata is ${quote(named)}, another scheme than the server's`, hint)
      return url.host === examination.url.host
        ? ok(quote(named))
        : warn(`resource_metadata is on another host: ${quote(named)}`, hint)
    },
  },
  {
    id: 'challenge.scope',
    title: 'The challenge names scopes that can be asked for',
    needs: ['challenge.syntax'],
    async run(examination) {
      const scope = (await bearerChallenge(examination))?.parameters.get('scope')
      if (scope === undefined) return ok('it names none: clients ask for those of the metadata')
      const scopes = scope.split(' ')
      if (!scopes.every(isScopeToken))
        return fail(
          `scope is ${quote(scope) || 'empty'}`,
          'give scopes with one space between them (RFC 6749 §3.3), or leave it out',
        )
      return scopes.includes('offline_access')
        ? warn(
            quote(scope),
            'leave offline_access out: it is asked of the authorization server, not of a resource',
          )
        : ok(quote(scope))
    },
  },
]
