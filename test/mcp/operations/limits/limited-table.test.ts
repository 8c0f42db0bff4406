import { expect } from 'chai'
import { tableWithLimits } from '../../../../src/mcp/operations/limits/limited-tool.ts'
import type { McpLimits } from '../../../../src/mcp/router/limits.ts'
import { KitMcpRouter, tableOf } from '../../../../src/mcp/router/router.ts'

const routerWith = (limits?: McpLimits) =>
  KitMcpRouter.create()
    .tool('plain', { description: 'x' }, () => 'x')
    .tool('limited', { description: 'x', limits }, () => 'x')

const limitedTools = (of: McpLimits | undefined, adapter: McpLimits | undefined) =>
  [...tableWithLimits(tableOf(routerWith(of)), adapter).tools.values()]
    .filter(({ limiter }) => limiter !== undefined)
    .map(({ definition }) => definition.name)

const store = () => ({ consume: async () => undefined })

describe('mcp: the tools with limits', () => {
  for (const [title, of, adapter, expected] of [
    ['no limits', undefined, undefined, []],
    ['empty limits', {}, {}, []],
    ['a store without limits', { store }, { store }, []],
    ['limits of a tool', { timeoutMs: 10 }, undefined, ['limited']],
    ['limits of a tool, and a store of the adapter', { timeoutMs: 10 }, { store }, ['limited']],
    ['limits of the adapter', undefined, { maxResultBytes: 10 }, ['plain', 'limited']],
    ['limits of both', { timeoutMs: 10 }, { maxResultBytes: 10 }, ['plain', 'limited']],
  ] as const) {
    it(`with ${title}, the tools that run within limits are [${expected}]`, () => {
      expect(limitedTools(of, adapter)).to.deep.equal(expected)
    })
  }

  it('tools without limits are not changed', () => {
    const other = tableOf(routerWith({ timeoutMs: 10 }))
    expect(tableWithLimits(other, undefined).tools.get('plain')).to.equal(other.tools.get('plain'))
  })

  it('two adapters of one router have separate counts', async () => {
    const table = tableOf(routerWith({ concurrency: { max: 1, by: 'user' } }))
    const call: any = { exchange: { context: {} }, context: { signal: new AbortController().signal } }
    const [one, two] = [0, 1].map(() => tableWithLimits(table, undefined).tools.get('limited')?.limiter)
    const never = () => new Promise<object>(() => undefined)
    void one?.run(call, never)
    expect(await two?.run(call, async () => ({ content: [] }))).to.deep.equal({ content: [] })
    let refused: unknown
    await one?.run(call, never).catch((error) => {
      refused = error
    })
    expect(refused).to.have.nested.property('reached.limit', 'concurrency')
  })
})
