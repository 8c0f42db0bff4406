import { expect } from 'chai'
import { expectTypeOf } from 'expect-type'
import { z } from 'zod'
import { type AuthInfo, createMcpAdapter, KitToolError } from '../../../src/index.ts'
import type { Middleware, MiddlewareCall, MiddlewareResult } from '../../../src/mcp/router/middleware.ts'
import { KitMcpRouter, tableOf } from '../../../src/mcp/router/router.ts'
import { InMemoryTransportAdapter, KitTelemetry } from '../../../src/telemetry/index.ts'
import { CALL_MODES, responseIn } from '../../support/mcp/call-modes.ts'
import { type Served, web } from '../../support/mcp/entry-points.ts'
import { oauth } from '../../support/mcp/notes.ts'
import { call, legacy, modern } from '../../support/mcp/wire.ts'

interface App {
  tenant?: string
}

/** The handlers and the middleware that have run, in order. */
let steps: string[] = []
let calls: MiddlewareCall<App>[] = []
/** The behavior of the middleware `switched` in the current test. */
let behavior: Middleware<App> = (_call, next) => next()

const traced =
  (name: string): Middleware<any> =>
  async (_call, next) => {
    steps.push(`${name} begins`)
    try {
      return await next()
    } finally {
      steps.push(`${name} ends`)
    }
  }

const inner = KitMcpRouter.create<App>()
  .tool('late', { description: 'x' }, () => {
    steps.push('late')
    return 'late'
  })
  .use(traced('inner'))

const router = KitMcpRouter.create()
  .context((): App => ({}))
  .tool(
    'add',
    { description: 'x', input: z.object({ a: z.coerce.number() }), scopes: ['mcp:write'] },
    ({ a }, { context }) => {
      steps.push('add')
      return `${context.tenant ?? 'none'} ${a + 1}`
    },
  )
  .tool(
    'typed',
    {
      description: 'x',
      output: z.object({
        size: z
          .string()
          .transform((text) => text.length)
          .pipe(z.number()),
      }),
    },
    () => ({ size: 'four' }),
  )
  .tool('throws', { description: 'x' }, () => {
    throw new KitToolError('the reason')
  })
  .tool('crashes', { description: 'x' }, () => {
    throw new TypeError('a secret')
  })
  .use(traced('first'))
  .use((given, next) => {
    calls.push(given)
    return behavior(given, next)
  })
  .use(traced('third'))
  .merge('sub', KitMcpRouter.create<App>().merge('deep', inner).use(traced('middle')))
  .prompt('greet', { input: z.object({ name: z.string() }) }, ({ name }) => {
    steps.push('greet')
    return `Greet ${name}`
  })
  .resource('today', { uri: 'notes://today' }, () => {
    steps.push('today')
    return 'Buy milk'
  })
  .resource('gone', { uri: 'notes://gone' }, () => undefined)
  .resourceTemplate('note', { uriTemplate: 'notes://{owner}/{id}' }, (_uri, { owner, id }) => {
    steps.push('note')
    return `${owner} ${id}`
  })

const around = (...run: string[]) => ['first begins', 'third begins', ...run, 'third ends', 'first ends']
const text = (value: string) => ({ content: [{ type: 'text' as const, text: value }] })

describe('mcp: router middleware', () => {
  beforeEach(() => {
    steps = []
    calls = []
    behavior = (_call, next) => next()
  })

  for (const mode of CALL_MODES) {
    describe(mode.name, () => {
      let served: Served
      before(async () => {
        served = await mode.serve({ router, oauth: oauth() })
      })
      after(() => served.close())

      const responseTo = async (method: string, params: Record<string, unknown>, token = 'writer') =>
        responseIn(await mode.send(served, method, params, token))
      const called = async (name: string, args: Record<string, unknown> = {}) =>
        (await responseTo('tools/call', { name, arguments: args })).result

      const operations = [
        {
          title: 'a tool call',
          method: 'tools/call',
          params: { name: 'add', arguments: { a: '2' } },
          runs: around('add'),
          seen: { kind: 'tool', name: 'add', args: { a: 2 } },
        },
        {
          title: 'a prompt get',
          method: 'prompts/get',
          params: { name: 'greet', arguments: { name: 'Ada' } },
          runs: around('greet'),
          seen: { kind: 'prompt', name: 'greet', args: { name: 'Ada' } },
        },
        {
          title: 'a resource read',
          method: 'resources/read',
          params: { uri: 'NOTES://today' },
          runs: around('today'),
          seen: { kind: 'resource', name: 'today', uri: 'notes://today', args: {} },
        },
        {
          title: 'a read through a template',
          method: 'resources/read',
          params: { uri: 'notes://ada/1' },
          runs: around('note'),
          seen: { kind: 'resource', name: 'note', uri: 'notes://ada/1', args: { owner: 'ada', id: '1' } },
        },
        {
          title: 'a call of a merged tool',
          method: 'tools/call',
          params: { name: 'sub_deep_late', arguments: {} },
          runs: around('middle begins', 'inner begins', 'late', 'inner ends', 'middle ends'),
          seen: { kind: 'tool', name: 'sub_deep_late', args: {} },
        },
      ]
      for (const { title, method, params, runs, seen } of operations) {
        it(`middleware runs around ${title}, the first outermost, and receives the call`, async () => {
          const response = await responseTo(method, params)
          expect(response.result.isError, JSON.stringify(response)).to.equal(undefined)
          expect(steps).to.deep.equal(runs)
          const [{ request, signal, auth, context, session, ...rest } = {} as MiddlewareCall<App>] = calls
          expect(rest).to.deep.equal(seen)
          expect(request?.headers.get('content-type')).to.equal('application/json')
          expect(signal).to.be.instanceOf(AbortSignal)
          expect(auth?.user).to.deep.equal({ id: 'u2' })
          expect({ context, session }).to.deep.equal({ context: {}, session: undefined })
        })
      }

      const refused = [
        ['scopes are missing', 'tools/call', { name: 'add', arguments: { a: 1 } }, 'reader'],
        ['arguments of a tool are invalid', 'tools/call', { name: 'add', arguments: { a: 'x' } }, 'writer'],
        ['arguments of a prompt are invalid', 'prompts/get', { name: 'greet', arguments: {} }, 'writer'],
        ['the tool does not exist', 'tools/call', { name: 'none', arguments: {} }, 'writer'],
        ['the resource does not exist', 'resources/read', { uri: 'notes://none' }, 'writer'],
      ] as const
      for (const [condition, method, params, token] of refused) {
        it(`middleware does not run if ${condition}`, async () => {
          await mode.send(served, method, params, token)
          expect(steps).to.deep.equal([])
        })
      }

      it('data that middleware sets in the context reaches the handler', async () => {
        behavior = ({ context, auth }, next) => {
          context.tenant = `tenant of ${(auth?.user as { id?: string } | undefined)?.id}`
          return next()
        }
        expect(await called('add', { a: 1 })).to.deep.include(text('tenant of u2 2'))
      })

      it('next() resolves to the MCP result, which middleware may replace', async () => {
        let result: MiddlewareResult | undefined
        behavior = async (_call, next) => {
          result = await next()
          return text('replaced')
        }
        expect(await called('add', { a: 1 })).to.deep.include(text('replaced'))
        expect(result).to.deep.equal(text('none 2'))
      })

      it('middleware that does not call next() returns its own result, and the handler does not run', async () => {
        behavior = ({ kind }) => {
          if (kind === 'tool') return text('own')
          if (kind === 'resource') return { contents: [{ uri: 'notes://today', text: 'own' }] }
          return { messages: [{ role: 'user', content: { type: 'text', text: 'own' } }] }
        }
        expect((await called('add', { a: 1 })).content[0].text).to.equal('own')
        const read = await responseTo('resources/read', { uri: 'notes://today' })
        expect(read.result.contents[0].text).to.equal('own')
        const got = await responseTo('prompts/get', { name: 'greet', arguments: { name: 'Ada' } })
        expect(got.result.messages[0].content.text).to.equal('own')
        expect(steps).to.deep.equal([
          'first begins',
          'first ends',
          'first begins',
          'first ends',
          'first begins',
          'first ends',
        ])
      })

      it('next() rejects with the error that the handler threw, which middleware may replace', async () => {
        let thrown: unknown
        behavior = async (_call, next) => {
          try {
            return await next()
          } catch (error) {
            thrown = error
            return text('recovered')
          }
        }
        expect(await called('throws')).to.deep.include(text('recovered'))
        expect(KitToolError.is(thrown)).to.equal(true)
        expect((await called('crashes')).content).to.deep.equal(text('recovered').content)
        expect((thrown as Error).message).to.equal('a secret')
      })

      it('the client receives the message of a KitToolError from middleware, and of no other error', async () => {
        behavior = () => {
          throw new KitToolError('closed today')
        }
        expect(await called('add', { a: 1 })).to.deep.include({ isError: true, ...text('closed today') })
        const read = await responseTo('resources/read', { uri: 'notes://today' })
        expect(read.error).to.deep.include({ code: -32_603, message: 'closed today' })
        behavior = async () => {
          throw new Error('a secret')
        }
        expect((await called('add', { a: 1 })).content[0].text).to.match(/^The tool failed\. Reference: /)
        const got = await responseTo('prompts/get', { name: 'greet', arguments: { name: 'Ada' } })
        expect(got.error.message).to.match(/^The prompt failed\. Reference: /)
      })

      it('a second next() rejects, and the handler runs once', async () => {
        let second: unknown
        behavior = async (_call, next) => {
          const result = await next()
          second = await next().catch((error: unknown) => error)
          return result
        }
        expect(await called('add', { a: 1 })).to.deep.include(text('none 2'))
        expect((second as Error).message).to.equal('Middleware called next() more than once')
        expect(steps).to.deep.equal(around('add'))
      })

      it('an error after middleware has returned without waiting for next() harms nothing', async () => {
        behavior = (_call, next) => {
          void next()
          return text('early')
        }
        const unhandled: unknown[] = []
        const listener = (error: unknown): unknown => unhandled.push(error)
        process.on('unhandledRejection', listener)
        try {
          expect(await called('crashes')).to.deep.include(text('early'))
          await new Promise(setImmediate)
          expect(unhandled).to.deep.equal([])
        } finally {
          process.off('unhandledRejection', listener)
        }
      })

      it('a missing resource stays missing behind middleware', async () => {
        const read = await responseTo('resources/read', { uri: 'notes://gone' })
        expect(read.error.message).to.contain('notes://gone')
      })

      for (const [title, returned] of [
        ['undefined', undefined],
        ['a string', 'plain'],
        ['an object that is not an MCP result', { a: 1 }],
      ] as const) {
        it(`${title} from middleware fails the operation`, async () => {
          behavior = () => returned as never
          expect((await called('add', { a: 1 })).content[0].text).to.match(/^The tool failed\. /)
          const got = await responseTo('prompts/get', { name: 'greet', arguments: { name: 'Ada' } })
          expect(got.error?.code).to.equal(-32_603)
          const read = await responseTo('resources/read', { uri: 'notes://today' })
          expect(read.error?.code).to.equal(-32_603)
        })
      }

      for (const [title, tool, change, outcome] of [
        ['a text', 'add', (result) => result.content.push({ type: 'text', text: 'more' }), /^more$/],
        [
          'a number as text',
          'add',
          (result) => result.content.push({ type: 'text', text: 5 }),
          /^The tool failed/,
        ],
        ['an unknown type', 'add', (result) => result.content.push({ type: 'x' }), /^The tool failed/],
        [
          'a bigint as metadata',
          'add',
          (result) => Object.assign(result, { _meta: { a: 1n } }),
          /^The tool failed/,
        ],
        [
          'a string as content',
          'add',
          (result) => Object.assign(result, { content: 'x' }),
          /^The tool failed/,
        ],
        [
          'no structured content, which the output schema requires',
          'typed',
          (result) => Reflect.deleteProperty(result, 'structuredContent'),
          /^The tool failed/,
        ],
      ] as readonly (readonly [string, string, (result: any) => unknown, RegExp])[]) {
        it(`middleware that changes the result of next() to have ${title} gets the same checks as for a new result`, async () => {
          for (const copy of [false, true]) {
            behavior = async (_call, next) => {
              const result: any = await next()
              const returned = copy ? { ...result, content: [...result.content] } : result
              change(returned)
              return returned
            }
            expect((await called(tool, { a: 1 })).content.at(-1).text).to.match(outcome)
          }
        })
      }

      it('structured content that next() returned is not validated again, and other content is', async () => {
        expect((await called('typed')).structuredContent).to.deep.equal({ size: 4 })
        behavior = async (_call, next) => ({ ...(await next()), structuredContent: { size: 'seven..' } })
        expect((await called('typed')).structuredContent).to.deep.equal({ size: 7 })
        behavior = async () => ({ content: [], structuredContent: { size: [] } })
        expect((await called('typed')).content[0].text).to.match(/^The tool failed\. /)
      })
    })
  }

  it('use() does not change its router, and an operation without middleware keeps its entry', () => {
    const plain = KitMcpRouter.create().tool('a', { description: 'x' }, () => 'a')
    const wrapped = plain.use((_call, next) => next())
    expect(tableOf(plain).tools.get('a')?.around).to.equal(undefined)
    expect(tableOf(wrapped).tools.get('a')?.around).to.be.a('function')
    const merged = tableOf(plain.merge('sub', wrapped)).tools
    expect(merged.get('a')?.around).to.equal(undefined)
    expect(merged.get('sub_a')?.around).to.be.a('function')
  })

  it('a tool that fails in middleware emits kit.mcp.tool.failed once, with the error', async () => {
    const transport = InMemoryTransportAdapter.create()
    const telemetry = KitTelemetry.create().addTransport(transport).build()
    behavior = () => {
      throw new Error('the cause')
    }
    await web(createMcpAdapter({ router, telemetry }).server).send(legacy(call('crashes')))
    const failed = transport.getEvents().filter(({ name }) => name === 'kit.mcp.tool.failed')
    expect(failed.map(({ error }) => error?.message)).to.deep.equal(['the cause'])
    expect(calls[0]?.session).to.not.equal(undefined)
  })

  for (const [title, passOn] of [
    ['its copy of a result', (result: object) => ({ ...result })],
    ['a result that it passes on', (result: object) => result],
  ] as const) {
    it(`middleware runs in every round of a call, and ${title} keeps the state`, async () => {
      const rounds = KitMcpRouter.create()
        .use(async (given, next) => {
          steps.push(given.name)
          return passOn(await next()) as MiddlewareResult
        })
        .tool('ask', { description: 'x' }, (_args, { state, inputRequired }) =>
          state === undefined ? inputRequired({}, { round: 1 }) : JSON.stringify(state),
        )
      const { send } = web(createMcpAdapter({ router: rounds, authorize: () => true }).server)
      const first = await send(modern('tools/call', { name: 'ask', arguments: {} }))
      const { requestState } = first.message.result
      expect(requestState).to.be.a('string').that.does.not.contain('round')
      const second = await send(modern('tools/call', { name: 'ask', arguments: {}, requestState }))
      expect(second.message.result.content[0].text).to.equal('{"round":1}')
      expect(steps).to.deep.equal(['ask', 'ask'])
    })
  }

  it('middleware gets the types of the context and of the user', () => {
    KitMcpRouter.create()
      .context(() => ({ tenant: 'acme' }))
      .user<{ id: string }>()
      .use((given, next) => {
        expectTypeOf(given.context).toEqualTypeOf<{ tenant: string }>()
        expectTypeOf(given.auth).toEqualTypeOf<AuthInfo<{ id: string }> | undefined>()
        expectTypeOf(given.kind).toEqualTypeOf<'tool' | 'prompt' | 'resource'>()
        expectTypeOf(next).returns.toEqualTypeOf<Promise<MiddlewareResult>>()
        return next()
      })
    // @ts-expect-error middleware returns an MCP result
    KitMcpRouter.create().use(() => 'text')
  })
})
