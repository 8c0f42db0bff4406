import { McpServer, Server } from '@modelcontextprotocol/server'
import { expect } from 'chai'
import { z } from 'zod'
import { createMcpAdapter, KitMcpRouter, mcpHandler, type RouterOption } from '../../../src/index.ts'
import { endpointOf } from '../../../src/mcp/endpoint-of.ts'
import { onNode, type Served, serving, web } from '../../support/mcp/entry-points.ts'
import {
  call,
  legacy,
  modern,
  rpc,
  type Signalled,
  signalled,
  type WireAnswer,
  type WireRequest,
} from '../../support/mcp/wire.ts'
import { runs } from '../../support/runs.ts'
import { keepingEvents } from '../../support/telemetry/recording.ts'

/** Throws a value that is not an error at every access. */
const hostile = (): object => {
  const fail = () => {
    throw undefined
  }
  return new Proxy({}, { get: fail, has: fail, ownKeys: fail, getPrototypeOf: fail })
}

const circular = (): object => {
  const one: { self?: unknown } = {}
  one.self = one
  return one
}

const deep = (levels: number): unknown => {
  let value: unknown = 'x'
  for (let level = 0; level < levels; level++) value = [value]
  return value
}

const fails = (thrown: unknown) => () => {
  throw thrown
}

type Then = (resolve: (value: unknown) => void, reject: (why: unknown) => void) => void

/** A thenable that is not a promise. */
const thenable = (then: Then): object => Object.fromEntries([['then', then]])

const text = [{ type: 'text', text: 'x' }] as const

/** Unusual handlers. */
const ODD: Readonly<Record<string, () => unknown>> = {
  'returns undefined': () => undefined,
  'returns null': () => null,
  'returns a bigint': () => 1n,
  'returns a cycle': circular,
  'returns a symbol': () => Symbol('x'),
  'returns a function': () => () => 1,
  'returns a Response': () => new Response('x'),
  'returns an invalid date': () => new Date(Number.NaN),
  'returns a Map': () => new Map([[1, 2]]),
  'returns NaN': () => Number.NaN,
  'returns 2 MB': () => 'x'.repeat(2_000_000),
  'returns 100 000 levels': () => deep(100_000),
  'returns a proxy that throws': hostile,
  'returns something whose toJSON throws': () => ({ toJSON: fails(undefined) }),
  'returns something whose then throws': () => thenable(fails(undefined)),
  'resolves twice': () =>
    thenable((resolve, reject) => {
      resolve('x')
      reject(new Error('a secret'))
    }),
  'returns a frozen result': () => Object.freeze({ content: Object.freeze([Object.freeze(text[0])]) }),
  'returns a result with a bigint in _meta': () => ({ content: text, _meta: { n: 1n } }),
  'returns a result with a bigint': () => ({ content: text, structuredContent: { n: 1n } }),
  'returns a result with a cycle': () => ({ content: text, structuredContent: circular() }),
  'returns a result of 100 000 levels': () => ({ content: text, structuredContent: { deep: deep(100_000) } }),
  'returns a result whose text is a number': () => ({ content: [{ type: 'text', text: 5 }] }),
  'returns a result whose text cannot be read': () => ({
    content: [
      {
        type: 'text',
        get text() {
          throw undefined
        },
      },
    ],
  }),
  'throws a proxy of an error': () =>
    fails(new Proxy(new Error('a secret'), { get: fails(undefined), getPrototypeOf: fails(undefined) }))(),
  'rejects with undefined': () => Promise.reject(undefined),
  'rejects with an error of a wrong code': () =>
    Promise.reject(Object.assign(new Error('a secret'), { code: 'x', data: 1n })),
}

const slug = (what: string): string => what.replaceAll(' ', '-')

const router = Object.entries(ODD).reduce(
  (built: KitMcpRouter, [what, handler]) =>
    built
      .tool(slug(what), { description: 'x' }, handler as never)
      .tool(`${slug(what)}-checked`, { description: 'x', output: z.any() }, handler as never)
      .tool(`${slug(what)}-later`, { description: 'x' }, (async () => {
        await new Promise(setImmediate)
        return await handler()
      }) as never)
      .prompt(slug(what), {}, handler as never)
      .resource(slug(what), { uri: `x://${slug(what)}` }, handler as never)
      .resourceTemplate(
        slug(what),
        { uriTemplate: `y://${slug(what)}/{id}`, complete: { id: handler as never } },
        () => 'x',
      ),
  KitMcpRouter.create(),
)

/** Every way to have a handler of that name run. */
const waysTo = (name: string): readonly (readonly [string, Record<string, unknown>])[] => [
  ['tools/call', { name }],
  ['tools/call', { name: `${name}-checked` }],
  ['tools/call', { name: `${name}-later` }],
  ['prompts/get', { name }],
  ['resources/read', { uri: `x://${name}` }],
  [
    'completion/complete',
    { ref: { type: 'ref/resource', uri: `y://${name}/{id}` }, argument: { name: 'id', value: '' } },
  ],
]

/** A request of each era. */
function both(method: string, params: Record<string, unknown>): readonly WireRequest[] {
  const uri = typeof params.uri === 'string' ? { 'mcp-name': params.uri } : {}
  return [modern(method, params, uri), legacy(rpc(method, params))]
}

/** Expects exactly one response to the request, without internal details. */
function expectAnswer({ status, messages, text: said }: WireAnswer): void {
  expect(status).to.equal(200)
  expect(messages).to.have.length(1)
  expect(messages[0]).to.include({ jsonrpc: '2.0', id: 1 })
  expect('result' in messages[0] !== 'error' in messages[0]).to.equal(true)
  expect(said).not.to.contain('a secret')
}

function adapter(direct: boolean, given: RouterOption = router) {
  const made = createMcpAdapter({ router: given })
  const service = endpointOf(made)
  if (service !== undefined) service.sdkHandler.usesFastPath = direct
  return made
}

const withoutReference = (said: string): string => said.replace(/Reference: [\w-]+/, 'Reference: …')

describe('mcp: a handler that', () => {
  const short = serving(async () => web(adapter(true).server))
  const long = serving(async () => web(adapter(false).server))
  const wired = serving(async () => onNode(mcpHandler(adapter(true))))
  for (const what of Object.keys(ODD)) {
    it(`a handler that ${what} gets one response, the same on the fast path and by the SDK`, async () => {
      for (const [method, params] of waysTo(slug(what))) {
        for (const request of both(method, params)) {
          const answers = await Promise.all(
            [short(), long(), wired()].map((one: Served) => one.send(request)),
          )
          for (const answer of answers) expectAnswer(answer)
          const [first, ...others] = answers.map((answer) => withoutReference(answer.text))
          for (const other of others) expect(other === first, `${method} differs`).to.equal(true)
        }
      }
    })
  }

  it('a handler that returns a value that is not JSON in a batch does not affect the other responses', async () => {
    const names = [
      'returns a bigint',
      'returns a result with a bigint',
      'throws a proxy of an error',
      'returns null',
    ]
    const batch = names.map((name, id) => call(slug(name), {}, id))
    const { messages } = await short().send(legacy(batch, { 'mcp-protocol-version': '2025-03-26' }))
    expect(messages.map(({ id }) => id).sort()).to.deep.equal([0, 1, 2, 3])
  })

  it('a template that lists invalid resources fails only that list', async () => {
    for (const list of [() => 5, () => undefined, hostile, () => [{ uri: 'x://x', name: 'x', size: 1n }]]) {
      const listing = KitMcpRouter.create().resourceTemplate(
        'x',
        { uriTemplate: 'x://{id}', list: list as never },
        () => 'x',
      )
      const { send } = web(createMcpAdapter({ router: listing }).server)
      for (const request of both('resources/list', {})) {
        const { message } = await send(request)
        expect(message.error.message).to.match(/^Listing the resources failed\. Reference: /)
      }
      expect(
        (await send(legacy(rpc('resources/templates/list')))).message.result.resourceTemplates,
      ).to.have.length(1)
    }
  })

  it('a handler that destructures its context gets all members', async () => {
    const apart = KitMcpRouter.create().tool(
      'apart',
      { description: 'x' },
      async (
        _args,
        { progress, log, accepted, inputRequired, inputResponses, clientCapabilities, request, signal },
      ) => {
        await progress(1, 2)
        await log('info', 'x')
        const asked = accepted('x', z.object({}))
        return [
          asked,
          typeof inputRequired,
          inputResponses,
          clientCapabilities,
          request.method,
          signal.aborted,
        ]
      },
    )
    const { send } = web(createMcpAdapter({ router: apart }).server)
    const params = { name: 'apart', _meta: { progressToken: 1 } }
    const expected = (capabilities: unknown) => [null, 'function', {}, capabilities, 'POST', false]
    const present = await send(modern('tools/call', params))
    expect(JSON.parse(present.message.result.content[0].text)).to.deep.equal(expected({}))
    const old = await send(legacy(rpc('tools/call', params)))
    expect(JSON.parse(old.message.result.content[0].text)).to.deep.equal(expected(null))
    for (const { messages } of [present, old])
      expect(messages[0].params).to.include({ progressToken: 1, progress: 1, total: 2 })
  })

  it('a handler that is called with a copy of its context gets all members', async () => {
    const wrapped = KitMcpRouter.create()
      .context(() => ({ tenant: 'acme' }))
      .tool('wrapped', { description: 'x' }, async (_args, context) => {
        const { request, log, progress, ...copy } = { ...context, more: 1 }
        await progress(1)
        await log('info', 'x')
        return [request.method, Object.keys(copy).sort()]
      })
    const { send } = web(createMcpAdapter({ router: wrapped }).server)
    const members =
      'accepted clientCapabilities context inputRequired inputResponses more releaseStream signal state'
    const params = { name: 'wrapped', _meta: { progressToken: 1 } }
    for (const request of both('tools/call', params)) {
      const { message, messages } = await send(request)
      expect(JSON.parse(message.result.content[0].text)).to.deep.equal(['POST', members.split(' ')])
      expect(messages[0].params).to.include({ progressToken: 1, progress: 1 })
    }
  })

  it('progress that a handler reports after its end has no effect', async () => {
    const sent: Promise<void>[] = []
    let answered: Signalled = signalled()
    const late = KitMcpRouter.create().tool(
      'late',
      { description: 'x' },
      async (_args, { progress, log }) => {
        const tell = async (): Promise<void> => {
          await answered.promise
          await progress(2)
          await log('info', 'late')
        }
        sent.push(tell())
        await progress(1)
        return 'done'
      },
    )
    for (const direct of [true, false]) {
      const served = await onNode(mcpHandler(adapter(direct, late)))
      try {
        for (const request of both('tools/call', { name: 'late', _meta: { progressToken: 1 } })) {
          answered = signalled()
          const { messages } = await served.send(request)
          answered.resolve()
          await sent.at(-1)
          expect(messages).to.have.length(2)
          expect(messages[1].result.content).to.deep.equal([{ type: 'text', text: 'done' }])
        }
      } finally {
        await served.close()
      }
    }
    expect(sent).to.have.length(4)
  })

  const reports = runs(10_000)
  it(`progress that a handler reports ${reports} times is received each time, in order, before its result`, async () => {
    const chatty = KitMcpRouter.create().tool('chatty', { description: 'x' }, async (_args, { progress }) => {
      for (let n = 0; n < reports; n++) await progress(n)
      return 'done'
    })
    const served = await onNode(mcpHandler(adapter(true, chatty)))
    try {
      for (const request of both('tools/call', { name: 'chatty', _meta: { progressToken: 1 } })) {
        const { messages } = await served.send(request)
        expect(messages).to.have.length(reports + 1)
        expect(messages.slice(0, -1).every(({ params }, n) => params.progress === n)).to.equal(true)
        expect(messages.at(-1).result.content[0].text).to.equal('done')
      }
    } finally {
      await served.close()
    }
  })
})

describe('mcp: a server of the official SDK that', () => {
  const lowLevel = (handler: () => unknown) => () => {
    const server = new Server({ name: 'x', version: '1' }, { capabilities: { tools: {}, prompts: {} } })
    server.setRequestHandler('prompts/get', handler as never)
    server.setRequestHandler('prompts/list', () => ({ prompts: [] }))
    return server
  }
  const handlers: Readonly<Record<string, () => unknown>> = {
    'returns nothing': () => undefined,
    'returns a bigint': () => ({ messages: [], _meta: { n: 1n } }),
    'returns a cycle': () => ({ messages: [], _meta: circular() }),
    'throws undefined': fails(undefined),
    'throws an error with a bigint': () =>
      fails(Object.assign(new Error('x'), { code: -32_000, data: 1n }))(),
    'throws a proxy that throws': () => fails(hostile())(),
  }
  for (const [what, handler] of Object.entries(handlers)) {
    it(`a server of the official SDK that ${what} gets one response`, async () => {
      const { send } = web(createMcpAdapter({ router: lowLevel(handler) }).server)
      for (const request of both('prompts/get', { name: 'x' })) {
        const { status, messages } = await send(request)
        expect(status).to.equal(200)
        expect(messages).to.have.length(1)
        expect(messages[0]).to.include({ id: 1 })
        expect(messages[0]).to.have.property('error')
      }
      const batch = ['prompts/get', 'prompts/list', 'prompts/get'].map((method, id) =>
        rpc(method, { name: 'x' }, id),
      )
      const { messages } = await send(legacy(batch, { 'mcp-protocol-version': undefined }))
      expect(messages.map(({ id, error }) => [id, error !== undefined]).sort()).to.deep.equal([
        [0, true],
        [1, false],
        [2, true],
      ])
    })
  }

  it('a server of the official SDK that is the same for every request responds to each call of a tool that returns a bigint', async () => {
    const { telemetry, transport } = keepingEvents()
    const errors: string[] = []
    const mcp = new McpServer({ name: 'x', version: '1' })
    mcp.server.onerror = ({ message }) => errors.push(message)
    mcp.registerTool('big', {}, () => ({ content: [], structuredContent: { n: 1n } }) as never)
    const { send } = web(createMcpAdapter({ router: () => mcp, telemetry }).server)
    for (let time = 0; time < 3; time++) {
      const { messages } = await send(legacy(call('big')))
      expect(messages).to.have.length(1)
      expect(messages[0].error.code).to.equal(-32_603)
    }
    expect(errors).to.deep.equal([])
    await telemetry.flush()
    const completed = transport.getEvents().filter(({ name }) => name === 'kit.mcp.request.completed')
    expect(completed.map(({ attributes }) => attributes?.['rpc.response.status_code'])).to.deep.equal(
      Array.from({ length: 3 }, () => '-32603'),
    )
  })
})
