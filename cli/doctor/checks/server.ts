import { counted } from '../../../src/base/options/counted.ts'
import { type EndpointRequest, initializeAs } from '../clients.ts'
import { wellKnownDocuments } from '../documents.ts'
import { type CheckFunctions, clientProblem, type Examination, observation } from '../examination.ts'
import { type Finding, fail, findingsOfEach, fixFor, ok, warn, worst } from '../finding.ts'
import { answerOf, type HttpExchange, NoResponseError } from '../http-exchange.ts'
import { initialize, modernMessage, NEWEST_LEGACY } from '../messages.ts'
import { quote } from '../quote.ts'

/** The transport that revision 2025-03-26 replaced. */
const NAME = 'the HTTP+SSE transport of revision 2024-11-05'

/** Returns the finding for a server that supports only the old transport, or `undefined`. @param status that of a POST */
export async function legacySse(
  examination: Examination,
  status: number,
  token?: string,
): Promise<Finding | undefined> {
  if (status < 400 || status >= 500 || status === 429) return undefined
  // The first event of that transport is named `endpoint`. A server that does not respond does not open a stream.
  const response = await examination
    .send('GET', { headers: { accept: 'text/event-stream' }, token, readsFirstEvent: true })
    .catch(() => undefined)
  const lines = response?.mediaType === 'text/event-stream' ? response.body.slice(0, 4_096).split('\n') : []
  if (!lines.some((line) => line.startsWith('event:') && line.slice(6).trim() === 'endpoint'))
    return undefined
  return fail(
    `${status} for a POST; a GET opens ${NAME} (event: endpoint)`,
    `serve Streamable HTTP, which replaced it: many clients no longer support ${NAME} (SDK: StreamableHTTPServerTransport or createMcpHandler; mcp-gatekit: mcpServer). If the server has both, use the URL of Streamable HTTP, often /mcp instead of /sse`,
  )
}

/**
 * Sends a request of a client to the MCP endpoint, or to another spelling of its URL.
 * @throws {NoResponseError} or, after a 429, {InconclusiveError}
 */
export async function requestEndpoint(
  examination: Examination,
  { method, message, userAgent, accept, protocolVersion }: EndpointRequest,
  url: URL = examination.url,
): Promise<HttpExchange> {
  const discovers = message === 'server/discover'
  const sent = discovers ? modernMessage('server/discover') : initialize(NEWEST_LEGACY)
  const headers = {
    ...(method === 'POST' && sent.headers),
    ...(accept !== undefined && { accept }),
    ...(userAgent !== undefined && { 'user-agent': userAgent }),
    ...(protocolVersion !== undefined && { 'mcp-protocol-version': protocolVersion }),
  }
  const body = method === 'POST' ? sent.body : undefined
  return examination.keep(await examination.fetchPlain(method, url, { headers, body }))
}

/** A certificate that expires earlier gets a warning. */
const MIN_CERTIFICATE_DAYS = 14

/** The response to the first request, which is a handshake without a token. */
export const firstResponse = observation((examination) => examination.post(initialize(NEWEST_LEGACY)))

/** Converts a missing response to a finding. */
export function noResponse({ detail, fix }: NoResponseError): Finding {
  return fail(`no response (${detail})`, fix)
}

/** The `User-Agent` headers that firewalls treat in a special way, with the quirk of the clients that send them. */
const USER_AGENTS: readonly (readonly [userAgent: string | undefined, quirk: string])[] = [
  ['Claude-User', 'claude-user-agent'],
  ['python-httpx/0.28.1', 'claude-user-agent'],
  ['openai-mcp/1.0.0', 'blocked-user-agent'],
  [undefined, 'missing-user-agent'],
]

/** A response, or the error of a missing one. */
type Answer = HttpExchange | NoResponseError

/** Returns `true` for the success of a request that the server rejects otherwise. */
function isOpened(answer: Answer, expected: number): boolean {
  return answer.succeeded && (expected < 200 || expected > 299)
}

/** Compares a response with that of other requests. */
function compare(examination: Examination, quirk: string, name: string, answer: Answer, wanted: number) {
  if (answer.status === wanted) return ok('no User-Agent is blocked')
  return clientProblem(examination, quirk, `${name}: ${describe(answer)}, other requests: ${wanted}`)
}

/** Compares the metadata document with and without a `User-Agent`, which some clients send only to the endpoint. */
async function checkMetadata(examination: Examination): Promise<Finding> {
  const [{ url, response } = {}] = await wellKnownDocuments(examination)
  if (url === undefined || response?.outgoing.url.href !== url.href) return ok('no User-Agent is blocked')
  const request = examination.fetchPlain('GET', url, { headers: { accept: 'application/json' } })
  const name = `${quote(url.pathname)} without User-Agent`
  return compare(examination, 'missing-user-agent', name, await answerOf(request), response.status)
}

/** Returns the status and the server that sent it, which is often a firewall. */
function describe(answer: Answer): string {
  if (answer instanceof NoResponseError) return answer.detail
  const by = answer.header('cf-ray') !== undefined ? 'cloudflare' : answer.header('server')
  return by === undefined ? answer.summary : `${answer.summary} from ${quote(by)}`
}

const ANNOUNCEMENTS = ['ratelimit', 'ratelimit-policy', 'ratelimit-limit', 'x-ratelimit-limit']

export const SERVER: CheckFunctions = {
  async 'server.reachable'(examination) {
    const response = await answerOf(firstResponse(examination))
    if (!(response instanceof NoResponseError))
      return ok(`${response.summary} within ${response.durationMs} ms`)
    // The next check covers the certificate.
    return response.kind === 'certificate' ? ok('it responds over TLS') : noResponse(response)
  },
  async 'server.tls'(examination) {
    if (examination.url.protocol === 'http:')
      return examination.isLocal
        ? ok('http, which is safe on this machine')
        : fail('http: tokens are sent unencrypted', 'serve it over https, and redirect every http request')
    const response = await answerOf(firstResponse(examination))
    if (response instanceof NoResponseError)
      // The first check reports any other reason.
      return fail(
        `the certificate is not trusted (${response.detail})`,
        'use a certificate of a known authority and send the intermediate certificates; for a private authority, set NODE_EXTRA_CA_CERTS',
      )
    const { protocol, validTo } = response.tls ?? {}
    if (validTo === undefined) return ok(`${protocol}`)
    const seen = `${protocol}, certificate valid until ${validTo.toISOString().slice(0, 10)}`
    const days = (validTo.getTime() - Date.now()) / 86_400_000
    return days < MIN_CERTIFICATE_DAYS
      ? warn(seen, 'renew the certificate, and automate the renewal')
      : ok(seen)
  },
  async 'server.endpoint'(examination) {
    const response = await firstResponse(examination)
    const { status, summary, redirect } = response
    if (status === 401) return ok('401: it is protected')
    const fix = fixFor(summary)
    if (fix !== undefined) return fail(`${summary} for a correct initialize request`, fix)
    if (status === 403) return ok(`${summary}: it is protected`)
    if (response.message !== undefined && status < 500) return ok(`${summary}, a JSON-RPC response`)
    if (redirect !== undefined)
      return fail(
        `${status}, ${redirect}`,
        'give clients the target URL: many clients do not follow a redirect of a POST, or drop the token',
      )
    const legacy = await legacySse(examination, status)
    if (legacy !== undefined) return legacy
    if (status === 404 || status === 405)
      return fail(
        `${summary} for a POST`,
        'use the URL of the MCP endpoint with its path (such as /mcp), and make it accept POST (Streamable HTTP)',
      )
    if (status === 429) return fail('429: too many requests from this address', 'wait, and run doctor again')
    if (status >= 500) return fail(summary, 'check the logs of the server and of the proxy in front of it')
    return fail(
      `${summary}, which is not a JSON-RPC response`,
      'use the URL of the MCP endpoint; it must respond to a POST with application/json or text/event-stream',
    )
  },
  async 'edge.user-agents'(examination) {
    const { status: expected } = await firstResponse(examination)
    const findings = await findingsOfEach(USER_AGENTS, async ([userAgent, quirk]) => {
      const name = userAgent === undefined ? 'without User-Agent' : `User-Agent ${userAgent}`
      const answer = await answerOf(requestEndpoint(examination, initializeAs(userAgent)))
      if (!isOpened(answer, expected)) return compare(examination, quirk, name, answer, expected)
      return fail(
        `${name}: ${answer.status}, other requests: ${expected}`,
        'require the token for every User-Agent: any client can send this header',
      )
    })
    return worst([...findings, await checkMetadata(examination)])
  },
  async 'endpoint.trailing-slash'(examination) {
    const { pathname } = examination.url
    if (pathname === '/') return ok('the URL has no path')
    const hasSlash = pathname.endsWith('/')
    const other = new URL(examination.url)
    other.pathname = hasSlash ? pathname.slice(0, -1) : `${pathname}/`
    const { status: expected } = await firstResponse(examination)
    const answer = await answerOf(requestEndpoint(examination, initializeAs('mcp-gatekit-doctor'), other))
    const path = quote(other.pathname)
    if (answer.status === expected) return ok(`${path}: ${expected}`)
    if (isOpened(answer, expected))
      return fail(
        `${path}: ${answer.status} without a token, with the other spelling ${expected}`,
        'put the gate in front of both spellings of the path',
      )
    const seen = `${path}: ${describe(answer)}, with the other spelling ${expected}`
    // Clients remove a slash, but do not add one.
    if (hasSlash) return clientProblem(examination, 'strips-slash', seen)
    if (answer.redirect === undefined) return ok(seen)
    return warn(seen, 'respond at both spellings without a redirect: clients lose the body or the token')
  },
  async 'limit.rate'({ exchanges }) {
    const limited = exchanges.find(({ status }) => status === 429)
    const announced = ANNOUNCEMENTS.flatMap((name) => {
      const value = exchanges.find((response) => response.header(name) !== undefined)?.header(name)
      return value === undefined ? [] : [`${name}: ${quote(value)}`]
    })
    if (limited === undefined)
      return ok([`no rate limit in ${counted(exchanges.length, 'request')}`, ...announced].join('; '))
    const seen = `429 after ${counted(exchanges.indexOf(limited), 'request')}`
    const wait = limited.header('retry-after')
    if (wait === undefined)
      return warn(`${seen} without Retry-After`, 'send Retry-After with every 429 (RFC 6585 §4)')
    const stated = `${seen}, Retry-After: ${quote(wait)}`
    return /^\d+$/.test(wait.trim()) || !Number.isNaN(Date.parse(wait))
      ? ok(stated)
      : fail(stated, 'send Retry-After as a number of seconds or an HTTP date (RFC 9110 §10.2.3)')
  },
}
