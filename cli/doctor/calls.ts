import type { Check } from './check.ts'
import { conversation, memberOf } from './conversation.ts'
import { type Finding, fail, InconclusiveError, ok, warn } from './finding.ts'
import type { HttpExchange } from './http-exchange.ts'
import { isGuarded } from './protection.ts'
import { quote, quoteAll } from './quote.ts'

/** Names that every model's API takes. */
const TOOL_NAME = /^[A-Za-z0-9_.-]{1,128}$/

const LOOK = 'look into the log of the server'

/** What a JSON-RPC error is, without its text. */
function errorOf(answer: HttpExchange): string {
  const code = memberOf(answer.message?.error, 'code')
  return typeof code === 'number' ? `${answer.status}, JSON-RPC error ${code}` : answer.summary
}

export const CALLS: readonly Check[] = [
  {
    id: 'call.round-trip',
    title: 'A harmless request comes back',
    needs: ['protocol.revisions'],
    async run(examination) {
      const talk = await conversation(examination)
      const method = talk.modern ? 'server/discover' : 'ping'
      const answer = await talk.request(method)
      return answer.message?.result === undefined
        ? fail(`${method}: ${errorOf(answer)}`, LOOK)
        : ok(`${method} of ${talk.revision}: ${answer.durationMs} ms`)
    },
  },
  {
    id: 'call.tools-list',
    title: 'Its tools can be listed',
    needs: ['protocol.revisions'],
    async run(examination) {
      const answer = await (await conversation(examination)).request('tools/list')
      if (memberOf(answer.message?.error, 'code') === -32_601) return ok('it has no tools')
      const tools = memberOf(answer.message?.result, 'tools')
      if (!Array.isArray(tools)) return fail(errorOf(answer), LOOK)
      const more = memberOf(answer.message?.result, 'nextCursor') === undefined ? '' : ' on the first page'
      const seen = `${tools.length} tools${more}, ${answer.durationMs} ms`
      return (
        judgeTools(tools, seen) ??
        (await judgeCacheScope(answer, seen, await isGuarded(examination))) ??
        ok(seen)
      )
    },
  },
  {
    id: 'call.tool',
    title: 'The named tool can be called',
    needs: ['protocol.revisions'],
    async run(examination) {
      const { call: name, callArguments } = examination.options
      if (name === undefined) throw new InconclusiveError('no tool is called without --call')
      const answer = await (await conversation(examination)).request('tools/call', {
        name,
        arguments: callArguments,
      })
      if (answer.status === 403)
        return fail(`403 to ${quote(name)}`, 'get a token with the scopes that the challenge names')
      const { message } = answer
      if (message?.result === undefined)
        return fail(errorOf(answer), `check the name and --arguments, or ${LOOK}`)
      return memberOf(message.result, 'isError') === true
        ? fail(`${quote(name)} says that it failed`, `check --arguments, or ${LOOK}`)
        : ok(`${quote(name)}: ${answer.durationMs} ms`)
    },
  },
]

/** Returns what is wrong with a list of tools, or `undefined`. */
export function judgeTools(tools: readonly unknown[], seen: string): Finding | undefined {
  const names = tools.map((tool) => memberOf(tool, 'name'))
  const broken = tools.filter((tool) => memberOf(memberOf(tool, 'inputSchema'), 'type') !== 'object')
  if (!names.every((name) => typeof name === 'string' && name !== '') || broken.length > 0) {
    return fail(
      `${seen}; without a name, or an inputSchema of type object: ${broken.length}`,
      'give every tool a name and an inputSchema whose type is object: clients drop the whole list otherwise',
    )
  }
  const known = new Set<unknown>()
  const twice = names.filter((name) => known.size === known.add(name).size)
  if (twice.length > 0) return fail(`${seen}; twice: ${quoteAll(twice)}`, 'give every tool a name of its own')
  const odd = (names as string[]).filter((name) => !TOOL_NAME.test(name))
  return odd.length > 0
    ? warn(`${seen}; odd names: ${quoteAll(odd)}`, 'use 1 to 128 of A-Z a-z 0-9 _ . - in names of tools')
    : undefined
}

/** What a token opened is not for everybody's cache. */
async function judgeCacheScope(
  answer: HttpExchange,
  seen: string,
  guarded: boolean,
): Promise<Finding | undefined> {
  if (!guarded || memberOf(answer.message?.result, 'cacheScope') !== 'public') return undefined
  return warn(
    `${seen}; cacheScope is public, behind a token`,
    'say private where the list depends on the token: shared caches may hand it to others',
  )
}
