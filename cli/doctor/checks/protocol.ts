import { decodeToken } from '../decoded-token.ts'
import { type CheckFunctions, type Examination, observation } from '../examination.ts'
import { fail, InconclusiveError, ok, onlyIf, warn } from '../finding.ts'
import type { HttpExchange } from '../http-exchange.ts'
import {
  initialize,
  initialized,
  LEGACY_REVISIONS,
  legacyMessage,
  type McpMessage,
  MODERN_REVISION,
  modernMessage,
  NEWEST_LEGACY,
} from '../messages.ts'
import { callUnknownTool, hasPublicOperations, isGuarded } from './protection.ts'
import { firstResponse, legacySse } from './server.ts'

/** The response to a handshake with the token. @throws {InconclusiveError} without a token */
export const handshake = observation(async (examination) => {
  const { token, options, withheld } = examination
  if (token !== undefined) return await examination.post(initialize(NEWEST_LEGACY), { token })
  if ((options.token ?? options.login) !== undefined) examination.requireSafeWay()
  onlyIf(withheld === undefined, 'the token of the sign-in is for another resource: see token.claims')
  throw new InconclusiveError(
    options.login === undefined
      ? 'this check needs a token: use --token-env or --login'
      : 'the sign-in did not succeed: see token.login',
  )
})

/**
 * The response to a protected request with the token. A server with public operations can answer the handshake without
 * looking at the token. @throws {InconclusiveError} without a token
 */
export const tokenResponse = observation(async (examination) => {
  const response = await handshake(examination)
  return !isRefused(response) && (await hasPublicOperations(examination))
    ? await callUnknownTool(examination, examination.token)
    : response
})

/** Returns `true` if the server rejects the token of a request. */
export function isRefused({ status }: HttpExchange): boolean {
  return status === 401 || status === 403
}

/** Returns the token for further requests, or `undefined` if the server requires none. @throws {InconclusiveError} without a valid token */
export async function goodToken(examination: Examination): Promise<string | undefined> {
  if (!(await isGuarded(examination))) return undefined
  if (examination.token === undefined && (await hasPublicOperations(examination))) return undefined
  const response = await tokenResponse(examination)
  onlyIf(response.status !== 503, 'the server cannot verify the token: see token.accepted')
  onlyIf(!isRefused(response), 'the server rejects the token: see token.accepted')
  return examination.token
}

/**
 * The supported protocol revisions, the others each with the response, the summary of the last response without a result,
 * and the session and the capabilities of the newest supported revision.
 * @throws {InconclusiveError} if the server rejects the token
 */
export const revisions = observation(async (examination) => {
  const token = await goodToken(examination)
  const served: string[] = []
  const refused: string[] = []
  let rejection: string | undefined
  let sessionId: string | undefined
  let capabilities: unknown
  for (const revision of LEGACY_REVISIONS) {
    const response = await examination.post(initialize(revision), { token })
    const offered = response.result('protocolVersion')
    if (offered === revision) {
      served.push(revision)
      sessionId = response.header('mcp-session-id')
      capabilities = response.result('capabilities')
    } else {
      if (!response.hasResult) rejection = response.summary
      const answer = typeof offered === 'string' ? 'offers another revision' : response.status
      refused.push(`${revision} (${answer})`)
    }
  }
  const discovered = await examination.post(modernMessage('server/discover'), { token })
  if (discovered.succeeded && discovered.hasResult) {
    served.push(MODERN_REVISION)
    capabilities = discovered.result('capabilities')
  } else refused.push(`${MODERN_REVISION} (${discovered.status})`)
  return { served, refused, rejection, sessionId, capabilities }
})

type Params = Readonly<Record<string, unknown>>

/** The conversation of a client in the newest supported revision, after its handshake. @throws {InconclusiveError} if no revision is supported */
export const conversation = observation(async (examination) => {
  const token = await goodToken(examination)
  const { served, sessionId } = await revisions(examination)
  const revision = served.at(-1)
  onlyIf(revision !== undefined, 'no protocol revision is supported: see protocol.revisions')
  const modern = revision === MODERN_REVISION
  if (!modern) await examination.post(initialized(revision, sessionId), { token })
  const message = (method: string, params: Params = {}): McpMessage =>
    modern ? modernMessage(method, params) : legacyMessage(revision, method, params, sessionId)
  return {
    revision,
    modern,
    message,
    request: (method: string, params?: Params): Promise<HttpExchange> =>
      examination.post(message(method, params), { token }),
  }
})

/**
 * Sends a request for the tools, with changes that make it invalid.
 * @throws {InconclusiveError} if the server rejects it because it has no token, which is right for what is not a public operation
 */
async function sendInvalid(examination: Examination, changes: Partial<McpMessage>): Promise<HttpExchange> {
  const { message } = await conversation(examination)
  const token = await goodToken(examination)
  const response = await examination.post(message('tools/list'), { token, ...changes })
  onlyIf(
    token !== undefined || response.status !== 401,
    '401: only public operations work without a token: use --token-env or --login',
  )
  return response
}

export const PROTOCOL: CheckFunctions = {
  async 'protocol.revisions'(examination) {
    const { served, refused, rejection } = await revisions(examination)
    const hint = `support ${NEWEST_LEGACY} and ${MODERN_REVISION}: update the MCP library of the server (@modelcontextprotocol/server 2)`
    if (served.length === 0) {
      const token = await goodToken(examination)
      const first = token === undefined ? firstResponse : handshake
      const legacy = await legacySse(examination, (await first(examination)).status, token)
      const all = `none of ${[...LEGACY_REVISIONS, MODERN_REVISION].join(', ')}`
      return legacy ?? fail([all, rejection ?? []].flat().join(': '), hint)
    }
    const seen = `${served.join(', ')}${refused.length > 0 ? `; not ${refused.join(', ')}` : ''}`
    const current = served.includes(NEWEST_LEGACY) || served.includes(MODERN_REVISION)
    return current ? ok(seen) : warn(seen, hint)
  },
  async 'protocol.version-header'(examination) {
    const version = { 'mcp-protocol-version': '1999-12-31' }
    const { status, summary } = await sendInvalid(examination, { headers: version })
    if (status === 400) return ok('400')
    return warn(
      `${summary} with MCP-Protocol-Version: 1999-12-31`,
      'respond with 400 for an unsupported version, so that clients can try another one',
    )
  },
  async 'protocol.header-mismatch'(examination) {
    const { modern } = await conversation(examination)
    onlyIf(modern, `these headers require ${MODERN_REVISION}, which is not supported`)
    const headers = { 'mcp-method': 'server/discover' }
    const { status, summary } = await sendInvalid(examination, { headers })
    if (status === 400) return ok('400')
    return fail(
      `${summary} for tools/list with Mcp-Method: server/discover`,
      'compare Mcp-Method and Mcp-Name with the body and respond with 400 (-32020): otherwise rules of proxies can be bypassed',
    )
  },
  async 'protocol.bad-json'(examination) {
    const { status, succeeded, summary, errorCode } = await sendInvalid(examination, { body: '{"jsonrpc":' })
    const hint = 'respond with 400 and the error -32700 (Express: move express.json() behind mcpAuth)'
    if (succeeded) return fail(String(status), hint)
    if (status >= 500) return fail(summary, hint)
    return errorCode === -32_700 ? ok(`${status}, -32700`) : warn(`${summary} without the error -32700`, hint)
  },
  async 'session.other-user'(examination) {
    const { otherToken } = examination.options
    onlyIf(otherToken !== undefined, 'only with --other-token-env')
    examination.requireSafeWay()
    const token = await goodToken(examination)
    const { served, sessionId } = await revisions(examination)
    onlyIf(token !== undefined && sessionId !== undefined, 'the server opens no session for a token')
    onlyIf(userOf(token) !== userOf(otherToken), 'both tokens are of the same user (sub and iss)')
    const revision = served.findLast((one) => one !== MODERN_REVISION) ?? NEWEST_LEGACY
    await examination.post(initialized(revision, sessionId), { token })
    const list = (token: string): Promise<HttpExchange> =>
      examination.post(legacyMessage(revision, 'tools/list', {}, sessionId), { token })
    // Without both, a refusal would not be due to the user.
    const opening = await examination.post(initialize(revision), { token: otherToken })
    for (const needed of [opening, await list(token)])
      onlyIf(isServed(needed), `a user gets ${needed.summary} also without the other`)
    const response = await list(otherToken)
    if (!isServed(response)) return ok(response.summary)
    return fail(
      `${response.status}: the session of one user works with the token of another`,
      'bind each session to the user who opened it, and respond with 404 to others (mcp-gatekit: mcpAuth does, unless bindSessions is false)',
    )
  },
}

const isServed = ({ succeeded, message }: HttpExchange): boolean => succeeded && message !== undefined

/** Returns the issuer and the user of a token, or the token itself if it does not name them. */
function userOf(token: string): string {
  const decoded = decodeToken(token)
  return decoded.kind === 'jwt' ? JSON.stringify([decoded.claims.iss, decoded.claims.sub]) : token
}
