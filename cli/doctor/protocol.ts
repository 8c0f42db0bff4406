import type { Check } from './check.ts'
import { conversation, goodToken, handshake, memberOf, revisions } from './conversation.ts'
import { fail, InconclusiveError, ok, warn } from './finding.ts'
import { legacySse } from './legacy-sse.ts'
import { LEGACY_REVISIONS, MODERN_REVISION, NEWEST_LEGACY } from './messages.ts'
import { firstResponse } from './reachability.ts'

export const PROTOCOL: readonly Check[] = [
  {
    id: 'protocol.revisions',
    title: 'A current protocol revision is supported',
    needs: ['server.endpoint'],
    async run(examination) {
      const { served, refused } = await revisions(examination)
      const hint = `support ${NEWEST_LEGACY} and ${MODERN_REVISION}: update the MCP library of the server (@modelcontextprotocol/server 2)`
      if (served.length === 0) {
        const token = await goodToken(examination)
        const { status } =
          token === undefined ? await firstResponse(examination) : await handshake(examination)
        const legacy = await legacySse(examination, status, token)
        if (legacy !== undefined) return legacy
        return fail(`none of ${[...LEGACY_REVISIONS, MODERN_REVISION].join(', ')}`, hint)
      }
      const seen = `${served.join(', ')}${refused.length > 0 ? `; not ${refused.join(', ')}` : ''}`
      const current = served.includes(NEWEST_LEGACY) || served.includes(MODERN_REVISION)
      return current ? ok(seen) : warn(seen, hint)
    },
  },
  {
    id: 'protocol.version-header',
    title: 'An unknown protocol version is rejected',
    needs: ['protocol.revisions'],
    async run(examination) {
      const talk = await conversation(examination)
      const { headers, body } = talk.message('tools/list')
      const token = await goodToken(examination)
      const response = await examination.post(
        { headers: { ...headers, 'mcp-protocol-version': '1999-12-31' }, body },
        withToken(token),
      )
      return response.status === 400
        ? ok('400')
        : warn(
            `${response.status} with MCP-Protocol-Version: 1999-12-31`,
            'respond with 400 for an unsupported version, so that clients can try another one',
          )
    },
  },
  {
    id: 'protocol.header-mismatch',
    title: 'Headers that contradict the message are rejected',
    needs: ['protocol.revisions'],
    async run(examination) {
      const talk = await conversation(examination)
      if (!talk.modern)
        throw new InconclusiveError(`these headers require ${MODERN_REVISION}, which is not supported`)
      const { headers, body } = talk.message('tools/list')
      const token = await goodToken(examination)
      const response = await examination.post(
        { headers: { ...headers, 'mcp-method': 'server/discover' }, body },
        withToken(token),
      )
      return response.status === 400
        ? ok('400')
        : fail(
            `${response.status} for tools/list with Mcp-Method: server/discover`,
            'compare Mcp-Method and Mcp-Name with the body and respond with 400 (-32020): otherwise rules of proxies can be bypassed',
          )
    },
  },
  {
    id: 'protocol.bad-json',
    title: 'A body that is not JSON is rejected',
    needs: ['protocol.revisions'],
    async run(examination) {
      const talk = await conversation(examination)
      const { headers } = talk.message('tools/list')
      const response = await examination.post(
        { headers, body: '{"jsonrpc":' },
        withToken(await goodToken(examination)),
      )
      const hint = 'respond with 400 and the JSON-RPC error -32700'
      if (response.status >= 500 || response.succeeded) return fail(response.summary, hint)
      const code = memberOf(response.message?.error, 'code')
      return code === -32_700
        ? ok(`${response.status}, -32700`)
        : warn(`${response.summary} without the error -32700`, hint)
    },
  },
]

function withToken(token: string | undefined): { readonly token?: string } {
  return token === undefined ? {} : { token }
}
