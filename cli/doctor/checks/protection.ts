import { randomUUID } from 'node:crypto'
import { counted } from '../../../src/base/options/counted.ts'
import { isScopeToken } from '../../../src/base/options/scope-token.ts'
import { ChallengeSyntaxError, parseChallenges } from '../challenges.ts'
import { metadataUrls, publishedDocuments } from '../documents.ts'
import { type CheckFunctions, type Examination, observation } from '../examination.ts'
import { fail, findingsOfEach, InconclusiveError, ok, onlyIf, warn, worst } from '../finding.ts'
import type { HttpExchange } from '../http-exchange.ts'
import { legacyMessage, type McpMessage, modernMessage, NEWEST_LEGACY } from '../messages.ts'
import { quote } from '../quote.ts'
import { entriesOf, memberOf, urlOf } from '../values.ts'
import { firstResponse } from './server.ts'

/** Returns a random string that no authorization server has issued. */
export function randomToken(): string {
  return `doctor-${randomUUID()}`
}

/** Returns a message in the revision of the handshake without a token. Without a handshake, that is 2026-07-28. */
async function openMessage(
  examination: Examination,
  method: string,
  params: Readonly<Record<string, unknown>> = {},
): Promise<McpMessage> {
  const first = await firstResponse(examination)
  return first.hasResult
    ? legacyMessage(NEWEST_LEGACY, method, params, first.header('mcp-session-id'))
    : modernMessage(method, params)
}

/** The response to `tools/list` without a token, after a handshake without a token. */
const openListing = observation(async (examination) =>
  examination.post(await openMessage(examination, 'tools/list')),
)

/** Calls a tool that does not exist. A server with public operations treats the name like that of a protected tool. */
export async function callUnknownTool(examination: Examination, token?: string): Promise<HttpExchange> {
  const params = { name: 'mcp-gatekit-doctor-unknown', arguments: {} }
  return await examination.post(await openMessage(examination, 'tools/call', params), { token })
}

const openCall = observation((examination) => callUnknownTool(examination))

/** Returns `true` if the result of a call contains a challenge, which some clients accept instead of a 401. */
function isChallengedInResult(response: HttpExchange): boolean {
  return response.result('_meta', 'mcp/www_authenticate') !== undefined
}

/** Returns `true` if the handshake and the lists work without a token, and protected calls get a 401. */
export async function hasPublicOperations(examination: Examination): Promise<boolean> {
  if (!(await answersWithoutToken(examination)) || (await openListing(examination)).status === 401)
    return false
  return (await openCall(examination)).status === 401
}

/** Returns `true` if the MCP server itself responds to the handshake, instead of a gate. */
async function isAnswered(examination: Examination): Promise<boolean> {
  const { status, message } = await firstResponse(examination)
  return message !== undefined && status !== 401 && status !== 403
}

/** Returns `true` if the handshake or `tools/list` works without a token, or if the server has no tools. */
async function isOpen(examination: Examination): Promise<boolean> {
  if ((await firstResponse(examination)).hasResult) return true
  const { hasResult, errorCode } = await openListing(examination)
  return hasResult || errorCode === -32_601
}

/** The 401 response to a request without a token. @throws {InconclusiveError} if there is none */
export const refusal = observation(async (examination) => {
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

/** Returns the scopes in the challenge of the 401, or `undefined` if it has none or the server sends no 401. */
export async function challengedScope(examination: Examination): Promise<string | undefined> {
  return (await refusal(examination).catch(() => undefined))?.parameter('scope')
}

/** Returns the `securitySchemes` of a listed tool, or `undefined` if it has none. */
function schemesOf(tool: unknown): readonly unknown[] | undefined {
  const schemes = memberOf(tool, '_meta', 'securitySchemes') ?? memberOf(tool, 'securitySchemes')
  return Array.isArray(schemes) ? schemes : undefined
}

export const PROTECTION: CheckFunctions = {
  async 'auth.required'(examination) {
    const { status, summary } = await firstResponse(examination)
    if (status === 401) return ok('401')
    const hint = 'respond with 401 and a WWW-Authenticate header: otherwise clients do not start a sign-in'
    if (!(await isAnswered(examination))) return fail(`${summary} for a request without a token`, hint)
    if ((await openListing(examination)).status === 401)
      return warn(
        'initialize works without a token, tools/list does not',
        'require the token from the first request on: some clients do not start a sign-in later',
      )
    if (!(await isOpen(examination))) return fail(`${summary} for a request without a token`, hint)
    if (await hasPublicOperations(examination))
      return ok('initialize and tools/list work without a token, calls get a 401: see public.operations')
    if (isChallengedInResult(await openCall(examination)))
      return warn(
        'a call without a token gets a challenge in a response with status 200',
        'respond with 401: most clients do not look for a challenge in the result of a call',
      )
    const { token, login } = examination.options
    if ((token ?? login) !== undefined || (await publishedDocuments(examination)).length > 0)
      return fail(
        'initialize and tools/list work without a token, although the server is expected to require one',
        'put the gate in front of the MCP route (mcp-gatekit: mcpAuth before the handler), on every path of that route',
      )
    return warn(
      'the server requires no token',
      'require a token unless all data is public (mcp-gatekit: mcpAuth)',
    )
  },
  async 'auth.methods'(examination) {
    await refusal(examination)
    const findings = await findingsOfEach(['GET', 'DELETE'], async (method) => {
      const accept = method === 'GET' ? 'text/event-stream' : 'application/json'
      const { status, succeeded, summary } = await examination.send(method, { headers: { accept } })
      const seen = `${method}: ${summary}`
      const hint = 'put the gate in front of every method of the route, not only of POST'
      if (succeeded) return fail(`${seen} without a token`, hint)
      if (status < 500) return ok(seen)
      return warn(seen, 'respond with 401, or with 405 for an unsupported method')
    })
    return worst(findings)
  },
  async 'challenge.present'(examination) {
    const header = (await refusal(examination)).header('www-authenticate')
    if (header === undefined)
      return fail(
        'the 401 has no WWW-Authenticate header',
        'send WWW-Authenticate: Bearer resource_metadata="…" with every 401 (RFC 6750 §3), and check that no proxy removes it',
      )
    // The header is searched, not parsed, so that a malformed challenge counts.
    if (/(?:^|,)\s*bearer(?:\s|,|$)/i.test(header)) return ok(quote(header))
    return fail(
      `no Bearer challenge: ${quote(header)}`,
      'use the scheme Bearer: MCP clients support no other scheme',
    )
  },
  async 'challenge.syntax'(examination) {
    const header = (await refusal(examination)).header('www-authenticate') ?? ''
    try {
      const names = parseChallenges(header).map(({ scheme, parameters }) => [scheme, ...parameters.keys()])
      return ok(names.map((all) => quote(all.join(' '))).join(', '))
    } catch (error) {
      if (!(error instanceof ChallengeSyntaxError)) throw error
      return fail(
        `${error.message} (${quote(header)})`,
        'use the syntax of RFC 9110 §11.6.1: Bearer name="value", name="value", with \\ before each " and \\ in a value',
      )
    }
  },
  async 'challenge.order'(examination) {
    const response = await refusal(examination)
    const header = response.header('www-authenticate') ?? ''
    const named = response.parameter('resource_metadata')
    // The official SDK uses the first match in the whole header.
    const found = /resource_metadata=(?:"([^"]+)"|([^\s,]+))/.exec(header)
    if (named !== undefined && (found?.[1] ?? found?.[2]) !== named)
      return fail(
        'the first resource_metadata= in the header is not the parameter of that name',
        'put resource_metadata before parameters that can contain the same text, such as error_description, and do not escape characters in it',
      )
    if (header.trim().toLowerCase().startsWith('bearer')) return ok('Bearer comes first')
    return warn(
      'another scheme comes before Bearer',
      'put the Bearer challenge first, in one header with the others: clients of SDK v1 read only the first challenge',
    )
  },
  async 'challenge.resource-metadata'(examination) {
    const named = (await refusal(examination)).parameter('resource_metadata')
    const { path } = metadataUrls(examination.url)
    if (named === undefined) {
      const hint = `add resource_metadata="${path.href}" to the challenge (RFC 9728 §5.1)`
      return (await publishedDocuments(examination)).length > 0
        ? warn('no resource_metadata, although there is a document at a well-known URL', hint)
        : fail('no resource_metadata', hint)
    }
    const hint = `use the public URL of the document, such as ${path.href} (mcp-gatekit: set resource, or trustProxy behind a proxy)`
    const url = urlOf(named)
    if (url === undefined) return fail(`resource_metadata is not an absolute URL: ${quote(named)}`, hint)
    const seen = `resource_metadata is ${quote(named)}`
    if (!examination.mayFetch(url)) return fail(`${seen}, which is not https`, hint)
    if (url.protocol !== examination.url.protocol)
      return fail(`${seen}, with another scheme than the server`, hint)
    return url.host === examination.url.host
      ? ok(quote(named))
      : warn(`resource_metadata is on another host: ${quote(named)}`, hint)
  },
  async 'challenge.scope'(examination) {
    const scope = (await refusal(examination)).parameter('scope')
    if (scope === undefined) return ok('no scope: clients request those of the metadata')
    const scopes = scope.split(' ')
    if (!scopes.every(isScopeToken))
      return fail(
        `scope is ${quote(scope) || 'empty'}`,
        'separate scopes with one space (RFC 6749 §3.3), or remove the parameter',
      )
    if (!scopes.includes('offline_access')) return ok(quote(scope))
    return warn(
      quote(scope),
      'remove offline_access: clients request it from the authorization server, not for a resource',
    )
  },
  async 'public.operations'(examination) {
    if (!(await answersWithoutToken(examination))) return ok('none: every request requires a token')
    const reason = (await isGuarded(examination))
      ? 'no call gets a 401 after a list without a token: see auth.required'
      : 'the server requires no token: see auth.required'
    onlyIf(await hasPublicOperations(examination), reason)
    const tools = entriesOf((await openListing(examination)).message, 'result', 'tools')
    const marked = tools.map(schemesOf).filter((schemes) => schemes !== undefined)
    const open = marked.filter((schemes) => schemes.some((scheme) => memberOf(scheme, 'type') === 'noauth'))
    const message = await openMessage(examination, 'tools/list')
    const { status, summary } = await examination.post(message, { token: randomToken() })
    return worst([
      ok(
        `initialize and tools/list work without a token (${counted(tools.length, 'tool')}, ${open.length} of them marked as public); calls get a 401`,
      ),
      status !== 401 &&
        warn(
          `tools/list with an invalid token gets ${summary}`,
          'verify every token that is sent, also for public operations: otherwise clients keep using an expired token',
        ),
      marked.length < tools.length &&
        warn(
          `${tools.length - marked.length} of ${counted(tools.length, 'tool')} without securitySchemes`,
          'add _meta.securitySchemes to each listed tool: ChatGPT uses it to find out which tools need a sign-in',
        ),
    ])
  },
}
