import { counted } from '../../src/options/counted.ts'
import type { CheckFunctions } from './check.ts'
import { InconclusiveError, ok, warn, worst } from './finding.ts'
import { randomToken } from './forged-tokens.ts'
import { memberOf } from './json-object.ts'
import { answersWithoutToken, hasPublicOperations, isGuarded, openMessage, openTools } from './protection.ts'

/** Returns the `securitySchemes` of a listed tool, or `undefined` if it has none. */
function schemesOf(tool: unknown): readonly unknown[] | undefined {
  const schemes = memberOf(memberOf(tool, '_meta'), 'securitySchemes') ?? memberOf(tool, 'securitySchemes')
  return Array.isArray(schemes) ? schemes : undefined
}

export const PUBLIC_OPERATIONS: CheckFunctions = {
  async 'public.operations'(examination) {
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
    const message = await openMessage(examination, 'tools/list')
    const { status, summary } = await examination.post(message, { token: randomToken() })
    const findings = [
      ok(
        `initialize and tools/list work without a token (${counted(tools.length, 'tool')}, ${open.length} of them marked as public); calls get a 401`,
      ),
    ]
    if (status !== 401)
      findings.push(
        warn(
          `tools/list with an invalid token gets ${summary}`,
          'verify every token that is sent, also for public operations: otherwise clients keep using an expired token',
        ),
      )
    if (marked.length < tools.length)
      findings.push(
        warn(
          `${tools.length - marked.length} of ${counted(tools.length, 'tool')} without securitySchemes`,
          'add _meta.securitySchemes to each listed tool: ChatGPT uses it to find out which tools need a sign-in',
        ),
      )
    return worst(findings)
  },
}
