import type { EndpointRequest } from '../clients/profiles.ts'
import type { QuirkId } from '../clients/quirks.ts'
import type { Check } from './check.ts'
import { clientProblem } from './client-problem.ts'
import { requestEndpoint, sendAsClient } from './client-requests.ts'
import type { Examination } from './examination.ts'
import { type Finding, fail, ok, warn, worst } from './finding.ts'
import { type HttpExchange, NoResponseError } from './http-exchange.ts'
import { wellKnownDocuments } from './metadata-documents.ts'
import { quote } from './quote.ts'
import { firstResponse } from './reachability.ts'

/** The `User-Agent` headers that firewalls treat in a special way, with the quirk of the clients that send them. */
const USER_AGENTS: readonly (readonly [userAgent: string | undefined, quirk: QuirkId])[] = [
  ['Claude-User', 'claude-user-agent'],
  ['python-httpx/0.28.1', 'claude-user-agent'],
  ['openai-mcp/1.0.0', 'blocked-user-agent'],
  [undefined, 'missing-user-agent'],
]

const handshakeOf = (userAgent: string | undefined): EndpointRequest => ({
  method: 'POST',
  message: 'initialize',
  userAgent,
  accept: 'application/json, text/event-stream',
})

export const EDGE: readonly Check[] = [
  {
    id: 'edge.user-agents',
    title: 'No firewall blocks the requests of a client',
    needs: ['server.endpoint'],
    async run(examination) {
      const expected = await firstResponse(examination)
      const findings: Finding[] = []
      for (const [userAgent, quirk] of USER_AGENTS) {
        const name = userAgent === undefined ? 'without User-Agent' : `User-Agent ${userAgent}`
        const received = await responseOf(requestEndpoint(examination, handshakeOf(userAgent)))
        findings.push(compare(examination, quirk, name, received, expected))
      }
      findings.push(await checkMetadata(examination))
      return worst(findings)
    },
  },
  {
    id: 'endpoint.trailing-slash',
    title: 'A slash at the end of the URL makes no difference',
    needs: ['server.endpoint'],
    async run(examination) {
      const { url } = examination
      if (url.pathname === '/') return ok('the URL has no path')
      const hasSlash = url.pathname.endsWith('/')
      const other = new URL(url)
      other.pathname = hasSlash ? url.pathname.slice(0, -1) : `${url.pathname}/`
      const expected = await firstResponse(examination)
      const received = await responseOf(
        requestEndpoint(examination, handshakeOf('mcp-gatekit-doctor'), other),
      )
      return compareSpellings(examination, quote(other.pathname), received, expected, hasSlash)
    },
  },
]

/** Returns the response, or the error code of a missing one. */
async function responseOf(response: Promise<HttpExchange>): Promise<HttpExchange | string> {
  try {
    return await response
  } catch (error) {
    if (error instanceof NoResponseError) return error.detail
    throw error
  }
}

function compare(
  examination: Examination,
  quirk: QuirkId,
  name: string,
  received: HttpExchange | string,
  expected: HttpExchange,
): Finding {
  if (typeof received !== 'string' && received.status === expected.status)
    return ok('no User-Agent is blocked')
  if (typeof received !== 'string' && received.succeeded && !expected.succeeded) {
    return fail(
      `${name}: ${received.status}, other requests: ${expected.status}`,
      'require the token for every User-Agent: any client can send this header',
    )
  }
  return clientProblem(
    examination,
    quirk,
    `${name}: ${describe(received)}, other requests: ${expected.status}`,
  )
}

/** Compares the metadata document with and without a `User-Agent`, which some clients send only to the endpoint. */
async function checkMetadata(examination: Examination): Promise<Finding> {
  const [first] = await wellKnownDocuments(examination)
  if (first?.response === undefined || first.response.outgoing.url.href !== first.url.href)
    return ok('no User-Agent is blocked')
  const received = await responseOf(
    sendAsClient(examination, { method: 'GET', url: first.url, headers: { accept: 'application/json' } }),
  )
  if (typeof received !== 'string' && received.status === first.response.status)
    return ok('no User-Agent is blocked')
  return clientProblem(
    examination,
    'missing-user-agent',
    `${quote(first.url.pathname)} without User-Agent: ${describe(received)}, other requests: ${first.response.status}`,
  )
}

/** Returns the status and the server that sent it, which is often a firewall. */
function describe(received: HttpExchange | string): string {
  if (typeof received === 'string') return received
  const by = received.header('cf-ray') !== undefined ? 'cloudflare' : received.header('server')
  return by === undefined ? received.summary : `${received.summary} from ${quote(by)}`
}

function compareSpellings(
  examination: Examination,
  path: string,
  received: HttpExchange | string,
  expected: HttpExchange,
  hasSlash: boolean,
): Finding {
  const status = typeof received === 'string' ? undefined : received.status
  if (status === expected.status) return ok(`${path}: ${status}`)
  if (typeof received !== 'string' && received.succeeded && !expected.succeeded) {
    return fail(
      `${path}: ${received.status} without a token, with the other spelling ${expected.status}`,
      'put the gate in front of both spellings of the path',
    )
  }
  const seen = `${path}: ${describe(received)}, with the other spelling ${expected.status}`
  // Clients remove a slash, but do not add one.
  if (hasSlash) return clientProblem(examination, 'strips-slash', seen)
  return status !== undefined && status >= 300 && status < 400
    ? warn(seen, 'respond at both spellings without a redirect: clients lose the body or the token')
    : ok(seen)
}
