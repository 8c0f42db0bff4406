import type { CheckFunctions } from './check.ts'
import { conversation, goodToken, handshake, revisions } from './conversation.ts'
import type { Examination } from './examination.ts'
import { fail, InconclusiveError, ok, warn } from './finding.ts'
import type { HttpExchange } from './http-exchange.ts'
import { legacySse } from './legacy-sse.ts'
import { LEGACY_REVISIONS, type McpMessage, MODERN_REVISION, NEWEST_LEGACY } from './messages.ts'
import { firstResponse } from './reachability.ts'

/**
 * Sends a request for the tools, with changes that make it invalid.
 * @throws {InconclusiveError} if the server rejects it because it has no token, which is right for what is not a public operation
 */
async function sendInvalid(
  examination: Examination,
  { headers, body }: Partial<McpMessage>,
): Promise<HttpExchange> {
  const { message } = await conversation(examination)
  const valid = message('tools/list')
  const changed = { headers: { ...valid.headers, ...headers }, body: body ?? valid.body }
  const token = await goodToken(examination)
  const response = await examination.post(changed, { token })
  if (token === undefined && response.status === 401)
    throw new InconclusiveError(
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
      return legacy ?? fail(rejection === undefined ? all : `${all}: ${rejection}`, hint)
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
    if (!(await conversation(examination)).modern)
      throw new InconclusiveError(`these headers require ${MODERN_REVISION}, which is not supported`)
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
}
