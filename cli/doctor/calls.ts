import { counted } from '../../src/options/counted.ts'
import type { CheckFunctions } from './check.ts'
import { conversation } from './conversation.ts'
import { type Observation, observation } from './examination.ts'
import { type Finding, fail, InconclusiveError, ok, warn } from './finding.ts'
import type { HttpExchange } from './http-exchange.ts'
import { memberOf } from './json-object.ts'
import { isGuarded } from './protection.ts'
import { quote, quoteAll } from './quote.ts'
import { schemaProblems } from './schema-problems.ts'

export const SEE_LOG = 'check the log of the server'

/** The response to `tools/list`. */
export const toolsResponse: Observation<HttpExchange> = observation(
  async (examination) => await (await conversation(examination)).request('tools/list'),
)

/** The response to the call of `--call`, which is sent once. @throws {InconclusiveError} without `--call` */
export const callResponse: Observation<HttpExchange> = observation(async (examination) => {
  const { call: name, callArguments } = examination.options
  if (name === undefined) throw new InconclusiveError('only with --call')
  return await (await conversation(examination)).request('tools/call', { name, arguments: callArguments })
})

export const CALLS: CheckFunctions = {
  async 'call.round-trip'(examination) {
    const { modern, revision, request } = await conversation(examination)
    const method = modern ? 'server/discover' : 'ping'
    const response = await request(method)
    return response.message?.result === undefined
      ? fail(`${method}: ${response.summary}`, SEE_LOG)
      : ok(`${method} of ${revision}: ${response.durationMs} ms`)
  },
  async 'call.tools-list'(examination) {
    const response = await toolsResponse(examination)
    if (response.errorCode === -32_601) return ok('the server has no tools')
    const tools = response.result('tools')
    if (!Array.isArray(tools)) return fail(response.summary, SEE_LOG)
    const more = response.result('nextCursor') === undefined ? '' : ' on the first page'
    const seen = `${counted(tools.length, 'tool')}${more}, ${response.durationMs} ms`
    const problem = checkTools(tools, seen)
    if (problem !== undefined) return problem
    const guarded = await isGuarded(examination)
    if (!guarded || response.result('cacheScope') !== 'public') return ok(seen)
    return warn(
      `${seen}; cacheScope is public, although a token is required`,
      'set cacheScope to private if the list depends on the token: shared caches can serve it to other users',
    )
  },
  async 'call.tool'(examination) {
    const response = await callResponse(examination)
    const name = quote(examination.options.call ?? '')
    if (response.status === 403)
      return fail(`${name}: ${response.summary}`, 'get a token with the scopes that the challenge names')
    if (response.message?.result === undefined)
      return fail(response.summary, `check the name and --arguments, or ${SEE_LOG}`)
    return response.result('isError') === true
      ? fail(`${name} returned an error`, `check --arguments, or ${SEE_LOG}`)
      : ok(`${name}: ${response.durationMs} ms`)
  },
}

/** Returns the values that occur before in the list. */
export function repeated(values: readonly unknown[]): readonly unknown[] {
  const known = new Set<unknown>()
  return values.filter((value) => known.size === known.add(value).size)
}

/** Returns the first problem of a list of tools, or `undefined`. */
export function checkTools(tools: readonly unknown[], seen: string): Finding | undefined {
  const names = tools.map((tool) => memberOf(tool, 'name'))
  const broken = tools.filter((tool) => memberOf(memberOf(tool, 'inputSchema'), 'type') !== 'object')
  if (!names.every((name) => typeof name === 'string' && name !== '') || broken.length > 0)
    return fail(
      `${seen}; without a name or an inputSchema of type object: ${broken.length}`,
      'give every tool a name and an inputSchema of type object: clients ignore the whole list otherwise',
    )
  const twice = repeated(names)
  if (twice.length > 0)
    return fail(`${seen}; duplicate names: ${quoteAll(twice)}`, 'give every tool a unique name')
  for (const [member, report, reason] of [
    ['outputSchema', fail, 'clients of SDK v1 compile every outputSchema, and lose the whole list otherwise'],
    ['inputSchema', warn, 'some clients cannot use the tool otherwise'],
  ] as const) {
    const problems = tools.flatMap((tool) =>
      schemaProblems(memberOf(tool, member)).map((one) => `${memberOf(tool, 'name')}, ${member}: ${one}`),
    )
    if (problems.length > 0) return report(`${seen}; ${quoteAll(problems)}`, `correct the schema: ${reason}`)
  }
  return undefined
}
