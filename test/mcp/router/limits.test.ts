import { expect } from 'chai'
import { expectTypeOf } from 'expect-type'
import { RateLimiterMemory, type RateLimiterRedis } from 'rate-limiter-flexible'
import { KitMcpRouter, type LimitStore, type LimitStoreOptions, type McpLimits } from '../../../src/index.ts'
import { createMcpAdapter } from '../../../src/mcp/adapter.ts'
import { configError } from '../../support/mcp/config-error.ts'

const calls = { max: 60, perSeconds: 60, by: 'user' } as const

/** Invalid limits, and the beginning of the error for the adapter. `<of>` is empty there, and names the tool of a tool. */
const INVALID: readonly (readonly [limits: any, error: string])[] = [
  [
    { calls: { ...calls, by: 'users' } },
    `limits.calls.by<of> must be 'user', 'client' or 'address'; received 'users'. Did you mean 'user'?`,
  ],
  [
    { concurrency: { max: 1, by: 'user', perSeconds: 1 } },
    `limits.concurrency<of> has no option 'perSeconds'.`,
  ],
  [{ timeoutMs: 0 }, 'limits.timeoutMs<of> must be a whole number from 1 to 2147483647; received 0.'],
  [
    { store: {} },
    'limits.store<of> must be a function; received an empty object. Set it to a function ({ points',
  ],
]

const build = (limits: any) => () => createMcpAdapter({ router: KitMcpRouter.create(), limits })
const toolWith = (limits: any) => KitMcpRouter.create().tool('a', { description: 'x', limits }, () => 'x')

describe('mcp: checks of the option limits', () => {
  for (const [limits, error] of INVALID) {
    it(`the adapter option limits ${JSON.stringify(limits)} is a configuration error that names the option`, () => {
      const { message, option, docs } = configError(build(limits))
      expect(message.startsWith(error.replace('<of>', '')), message).to.equal(true)
      expect(option).to.match(/^limits\b/)
      expect(docs).to.equal('docs/reference/errors.md#createmcpadapter')
    })

    it(`the limits ${JSON.stringify(limits)} of a tool are a configuration error that names the tool`, () => {
      const { message, docs } = configError(() => toolWith(limits))
      expect(message.startsWith(error.replace('<of>', ` of tool 'a'`)), message).to.equal(true)
      expect(docs).to.equal('docs/reference/errors.md#kitmcprouter')
    })
  }

  it('limits are copied, so that later changes have no effect', () => {
    const limits = { calls: { ...calls, max: 60 as number } }
    const router = toolWith(limits)
    limits.calls.max = 0
    createMcpAdapter({ router, limits: {} })
    expect(() => createMcpAdapter({ router, limits })).to.throw('limits.calls.max')
  })

  it('limits together with a router function are a configuration error that names the router', () => {
    const router = () => ({}) as never
    expect(() => createMcpAdapter({ router, limits: { calls } })).to.throw(
      'limits can be used only with a KitMcpRouter; a router function must limit its own calls.',
    )
  })

  it('a store is called once for each limit of calls, with the same prefixes in every adapter', () => {
    const made: LimitStoreOptions[] = []
    const store: LimitStore = (options) => {
      made.push(options)
      return new RateLimiterMemory(options)
    }
    const router = KitMcpRouter.create().merge('sub', toolWith({ calls: { ...calls, max: 5 } }))
    const own = router.tool(
      'own',
      { description: 'x', limits: { concurrency: { max: 1, by: 'user' } } },
      () => 'x',
    )
    for (let node = 0; node < 2; node++) createMcpAdapter({ router: own, limits: { calls, store } })
    const expected = [
      { points: 60, duration: 60, keyPrefix: 'mcp-gatekit:calls' },
      { points: 5, duration: 60, keyPrefix: 'mcp-gatekit:calls:sub_a' },
    ]
    expect(made).to.deep.equal([...expected, ...expected])
  })

  it('the store of a tool is used instead of that of the adapter', () => {
    const used: string[] = []
    const store =
      (name: string): LimitStore =>
      ({ keyPrefix }) => {
        used.push(`${name} ${keyPrefix}`)
        return { consume: async () => undefined }
      }
    createMcpAdapter({
      router: toolWith({ calls, store: store('tool') }),
      limits: { calls, store: store('adapter') },
    })
    expect(used).to.deep.equal(['adapter mcp-gatekit:calls', 'tool mcp-gatekit:calls:a'])
  })

  for (const [title, store, error] of [
    [
      'nothing',
      () => undefined,
      'limits.store must return a limiter of rate-limiter-flexible; received undefined.',
    ],
    [
      'a promise',
      async () => ({ consume() {} }),
      'limits.store must return a limiter of rate-limiter-flexible; received',
    ],
  ] as const) {
    it(`a store that returns ${title} is a configuration error`, () => {
      expect(configError(build({ calls, store })).message).to.include(error)
    })
  }

  it('the period of a limit with a store must have whole seconds', () => {
    const store = () => ({ consume: async () => undefined })
    const limits = { calls: { ...calls, perSeconds: 0.5 } }
    build(limits)()
    expect(configError(build({ ...limits, store })).message).to.include(
      'limits.calls.perSeconds must be a whole number of seconds together with a store; received 0.5.',
    )
    expect(() => createMcpAdapter({ router: toolWith({ ...limits, store }) })).to.throw(
      `limits.calls.perSeconds of tool 'a' must be a whole number of seconds`,
    )
  })

  it('the types of limits accept limiters of rate-limiter-flexible, and require every member', () => {
    expectTypeOf<(options: LimitStoreOptions) => RateLimiterMemory>().toExtend<LimitStore>()
    expectTypeOf<(options: LimitStoreOptions) => RateLimiterRedis>().toExtend<LimitStore>()
    expectTypeOf<{ calls: { max: number; perSeconds: number } }>().not.toExtend<McpLimits>()
    expectTypeOf<{ concurrency: { max: number; by: 'session' } }>().not.toExtend<McpLimits>()
    expectTypeOf<{ calls: { max: number; perSeconds: number; by: 'client' } }>().toExtend<McpLimits>()
  })
})
