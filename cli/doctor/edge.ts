import { initializeAs } from '../clients/profiles.ts'
import type { QuirkId } from '../clients/quirks.ts'
import type { CheckFunctions } from './check.ts'
import { clientProblem } from './client-problem.ts'
import type { Examination } from './examination.ts'
import { type Finding, fail, ok, warn, worst } from './finding.ts'
import { answerOf, type HttpExchange, NoResponseError } from './http-exchange.ts'
import { wellKnownDocuments } from './metadata-documents.ts'
import { quote } from './quote.ts'
import { firstResponse } from './reachability.ts'
import { requestEndpoint } from './request-endpoint.ts'

/** The `User-Agent` headers that firewalls treat in a special way, with the quirk of the clients that send them. */
const USER_AGENTS: readonly (readonly [userAgent: string | undefined, quirk: QuirkId])[] = [
  ['Claude-User', 'claude-user-agent'],
  ['python-httpx/0.28.1', 'claude-user-agent'],
  ['openai-mcp/1.0.0', 'blocked-user-agent'],
  [undefined, 'missing-user-agent'],
]

/** A response, or the error of a missing one. */
type Answer = HttpExchange | NoResponseError

export const EDGE: CheckFunctions = {
  async 'edge.user-agents'(examination) {
    const { status: expected } = await firstResponse(examination)
    const findings: Finding[] = []
    for (const [userAgent, quirk] of USER_AGENTS) {
      const name = userAgent === undefined ? 'without User-Agent' : `User-Agent ${userAgent}`
      const answer = await answerOf(requestEndpoint(examination, initializeAs(userAgent)))
      findings.push(
        isOpened(answer, expected)
          ? fail(
              `${name}: ${statusOf(answer)}, other requests: ${expected}`,
              'require the token for every User-Agent: any client can send this header',
            )
          : compare(examination, quirk, name, answer, expected),
      )
    }
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
    if (statusOf(answer) === expected) return ok(`${path}: ${expected}`)
    if (isOpened(answer, expected))
      return fail(
        `${path}: ${statusOf(answer)} without a token, with the other spelling ${expected}`,
        'put the gate in front of both spellings of the path',
      )
    const seen = `${path}: ${describe(answer)}, with the other spelling ${expected}`
    // Clients remove a slash, but do not add one.
    if (hasSlash) return clientProblem(examination, 'strips-slash', seen)
    if (answer instanceof NoResponseError || answer.redirect === undefined) return ok(seen)
    return warn(seen, 'respond at both spellings without a redirect: clients lose the body or the token')
  },
}

function statusOf(answer: Answer): number | undefined {
  return answer instanceof NoResponseError ? undefined : answer.status
}

/** Returns `true` for the success of a request that the server rejects otherwise. */
function isOpened(answer: Answer, expected: number): boolean {
  return !(answer instanceof NoResponseError) && answer.succeeded && (expected < 200 || expected > 299)
}

/** Compares a response with that of other requests. */
function compare(
  examination: Examination,
  quirk: QuirkId,
  name: string,
  answer: Answer,
  expected: number,
): Finding {
  if (statusOf(answer) === expected) return ok('no User-Agent is blocked')
  return clientProblem(examination, quirk, `${name}: ${describe(answer)}, other requests: ${expected}`)
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
