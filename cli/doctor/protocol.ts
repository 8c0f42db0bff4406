import type { Check } from './check.ts'
import { conversation, goodToken, memberOf, revisions } from './conversation.ts'
import { fail, InconclusiveError, ok, warn } from './finding.ts'
import { LEGACY_REVISIONS, MODERN_REVISION, NEWEST_LEGACY } from './messages.ts'

export const PROTOCOL: readonly Check[] = [
  {
    id: 'protocol.revisions',
    title: 'It speaks a current protocol revision',
    needs: ['server.endpoint'],
    async run(examination) {
      const { served, refused } = await revisions(examination)
      const hint = `serve ${NEWEST_LEGACY} and ${MODERN_REVISION}: update the MCP library of the server (@modelcontextprotocol/server 2)`
      if (served.length === 0)
        return fail(`none of ${[...LEGACY_REVISIONS, MODERN_REVISION].join(', ')}`, hint)
      const seen = `${served.join(', ')}${refused.length > 0 ? `; not ${refused.join(', ')}` : ''}`
      const current = served.includes(NEWEST_LEGACY) || served.includes(MODERN_REVISION)
      return current ? ok(seen) : warn(seen, hint)
    },
  },
  {
    id: 'protocol.version-header',
    title: 'An unknown protocol version is refused',
    needs: ['protocol.revisions'],
    async run(examination) {
      const talk = await conversation(examination)
      const { headers, body } = talk.message('tools/list')
      const token = await goodToken(examination)
      const answer = await examination.post(
        { headers: { ...headers, 'mcp-protocol-version': '1999-12-31' }, body },
        withToken(token),
      )
      return answer.status === 400
        ? ok('400')
        : warn(
            `${answer.status} with MCP-Protocol-Version: 1999-12-31`,
            'answer 400 for a version that is not served, so that clients can try another',
          )
    },
  },
  {
    id: 'protocol.header-mismatch',
    title: 'Headers that contradict the message are refused',
    needs: ['protocol.revisions'],
    async run(examination) {
      const talk = await conversation(examination)
      if (!talk.modern)
        throw new InconclusiveError(`these headers are new in ${MODERN_REVISION}, which is not served`)
      const { headers, body } = talk.message('tools/list')
      const token = await goodToken(examination)
      const answer = await examination.post(
        { headers: { ...headers, 'mcp-method': 'server/discover' }, body },
        withToken(token),
      )
      return answer.status === 400
        ? ok('400')
        : fail(
            `${answer.status} to a tools/list that Mcp-Method calls server/discover`,
            'compare Mcp-Method and Mcp-Name with the body and answer 400 (-32020): what a proxy decides by them is void otherwise',
          )
    },
  },
  {
    id: 'protocol.bad-json',
    title: 'A body that is no JSON is refused',
    needs: ['protocol.revisions'],
    async run(examination) {
      const talk = await conversation(examination)
      const { headers } = talk.message('tools/list')
      const answer = await examination.post(
        { headers, body: '{"jsonrpc":' },
        withToken(await goodToken(examination)),
      )
      const hint = 'answer 400 with a JSON-RPC error -32700'
      if (answer.status >= 500 || answer.succeeded) return fail(answer.summary, hint)
      const code = memberOf(answer.message?.error, 'code')
      return code === -32_700
        ? ok(`${answer.status}, -32700`)
        : warn(`${answer.summary} without the error -32700`, hint)
    },
  },
]

function withToken(token: string | undefined): { readonly token?: string } {
  return token === undefined ? {} : { token }
}
