import { counted } from '../../src/options/counted.ts'
import type { Check } from './check.ts'
import { memberOf } from './conversation.ts'
import { InconclusiveError, ok, warn, worst } from './finding.ts'
import { randomToken } from './forged-tokens.ts'
import { legacyMessage, modernMessage, NEWEST_LEGACY } from './messages.ts'
import { answersWithoutToken, hasPublicOperations, isGuarded, openTools } from './protection.ts'
import { firstResponse } from './reachability.ts'

/** Returns the `securitySchemes` of a listed tool, or `undefined` if it has none. */
function schemesOf(tool: unknown): readonly unknown[] | undefined {
  const schemes = memberOf(memberOf(tool, '_meta'), 'securitySchemes') ?? memberOf(tool, 'securitySchemes')
  return Array.isArray(schemes) ? schemes : undefined
}

export const PUBLIC_OPERATIONS: readonly Check[] = [
  {
    id: 'public.operations',
    title: 'Clients can distinguish public operations from protected ones',
    needs: ['auth.required'],
    async run(examination) {
      if (!(await answersWithoutToken(examination))) return ok('none: every request requires a token')
      if (!(await hasPublicOperations(examination)))
        throw new InconclusiveError(
          (await isGuarded(examination))
            ? 'no call gets a 401 after a list without a token: see auth.required'
            : 'the server requires no token: see auth.required',
        )
      const tools = await openTools(examination)
      const marked = tools.map(schemesOf).filter((schemes) => schemes !== undefined)
      const open = marked.filter((schemes) => schemes.some((scheme) => memberOf(scheme, 'type') === 'noauth'))
      const seen = `initialize and tools/list work without a token (${counted(tools.length, 'tool')}, ${open.length} of them marked as public); calls get a 401`
      const first = await firstResponse(examination)
      const message =
        first.message?.result === undefined
          ? modernMessage('tools/list')
          : legacyMessage(NEWEST_LEGACY, 'tools/list', {}, { sessionId: first.header('mcp-session-id') })
      const { status } = await examination.post(message, { token: randomToken() })
      return worst([
        ok(seen),
        ...(status === 401
          ? []
          : [
              warn(
                `tools/list with an invalid token gets ${status}`,
                'verify every token that is sent, also for public operations: otherwise clients keep using an expired token',
              ),
            ]),
        ...(marked.length === tools.length
          ? []
          : [
              warn(
                `${tools.length - marked.length} of ${counted(tools.length, 'tool')} without securitySchemes`,
                'add _meta.securitySchemes to each listed tool: ChatGPT uses it to find out which tools need a sign-in',
              ),
            ]),
      ])
    },
  },
]
