import type { ServerContext } from '@modelcontextprotocol/server'
import { expect } from 'chai'
import { expectTypeOf } from 'expect-type'
import { z } from 'zod'
import { createMcpAdapter, KitMcpRouter, KitMcpServer } from '../../../src/index.ts'
import { checkedCall } from '../../../src/mcp/operations/operation.ts'
import { Policy } from '../../../src/mcp/operations/policy.ts'
import type { Authorize, PolicyQuery } from '../../../src/mcp/router/authorize.ts'
import type { Exchange } from '../../../src/mcp/wire/exchange.ts'
import { CALL_MODES, responseIn } from '../../support/mcp/call-modes.ts'
import { configError } from '../../support/mcp/config-error.ts'
import { ENTRY_POINTS, type Served, web } from '../../support/mcp/entry-points.ts'
import { oauth } from '../../support/mcp/notes.ts'
import { bearer, call, legacy, rpc } from '../../support/mcp/wire.ts'
import { keepingEvents } from '../../support/telemetry/recording.ts'

interface App {
  readonly tenant: string
}

let ran: string[] = []
let queries: PolicyQuery<App>[] = []
/** The policy of the current test. */
let policy: (query: PolicyQuery<App>) => unknown = () => true

const authorize = ((query) => {
  queries.push(query)
  return policy(query)
}) as Authorize<App>

const router = KitMcpRouter.create()
  .context((): App => ({ tenant: 'acme' }))
  .use((given, next) => {
    ran.push(`middleware of ${given.name}`)
    return next()
  })
  .tool('add', { description: 'x', input: z.object({ a: z.coerce.number() }) }, ({ a }) => {
    ran.push('add')
    return String(a + 1)
  })
  .tool('write', { description: 'x', scopes: ['mcp:write'] }, () => {
    ran.push('write')
    return 'written'
  })
  .prompt('greet', { input: z.object({ name: z.string().min(2) }) }, ({ name }) => {
    ran.push('greet')
    return name
  })
  .resource('today', { uri: 'notes://today' }, () => {
    ran.push('today')
    return 'Buy milk'
  })
  .resourceTemplate(
    'note',
    {
      uriTemplate: 'notes://{owner}/{id}',
      list: () => ['ada', 'bob'].map((owner) => ({ name: `${owner} 1`, uri: `notes://${owner}/1` })),
    },
    (_uri, { owner }) => {
      ran.push('note')
      return owner
    },
  )

const { telemetry, transport } = keepingEvents()
const denials = () => transport.getEvents().filter(({ name }) => name === 'kit.mcp.policy.denied')

const TOOL = { method: 'tools/call', params: { name: 'add', arguments: { a: '2' } } }
const PROMPT = { method: 'prompts/get', params: { name: 'greet', arguments: { name: 'Ada' } } }
const RESOURCE = { method: 'resources/read', params: { uri: 'NOTES://today' } }
const NOTE = { method: 'resources/read', params: { uri: 'notes://ada/1' } }

describe('mcp: the option authorize', () => {
  beforeEach(() => {
    ran = []
    queries = []
    policy = () => true
    transport.clear()
  })

  for (const mode of CALL_MODES) {
    describe(mode.name, () => {
      let served: Served
      before(async () => {
        served = await mode.serve({ router, oauth: oauth(), telemetry, authorize, authorizeTimeoutMs: 40 })
      })
      after(() => served.close())

      const send = (
        { method, params }: { method: string; params?: Record<string, unknown> },
        token?: string,
      ) => mode.send(served, method, params, token)
      const responseTo = async (request: Parameters<typeof send>[0], token?: string) =>
        responseIn(await send(request, token))

      for (const [title, request, seen, runs] of [
        ['a tool call', TOOL, { kind: 'tool', name: 'add', args: { a: 2 } }, 'add'],
        ['a prompt get', PROMPT, { kind: 'prompt', name: 'greet', args: { name: 'Ada' } }, 'greet'],
        [
          'a resource read',
          RESOURCE,
          { kind: 'resource', name: 'today', uri: 'notes://today', args: {} },
          'today',
        ],
        [
          'a read through a template',
          NOTE,
          { kind: 'resource', name: 'note', uri: 'notes://ada/1', args: { owner: 'ada', id: '1' } },
          'note',
        ],
      ] as const) {
        it(`${title} that the policy permits runs once, and the policy is asked once`, async () => {
          policy = async () => true
          expect((await responseTo(request)).result.isError).to.equal(undefined)
          expect(ran.at(-1)).to.equal(runs)
          expect(ran).to.have.length(2)
          expect(queries).to.have.length(1)
          const [{ request: http, auth, ...rest }] = queries as [PolicyQuery<App>]
          expect(rest).to.deep.equal({ purpose: 'call', context: { tenant: 'acme' }, ...seen })
          expect(http.headers.get('content-type')).to.equal('application/json')
          expect(auth?.user).to.deep.equal({ id: 'u1' })
          expect(denials()).to.deep.equal([])
        })
      }

      const denying: readonly { title: string; decide: typeof policy; text?: string; failed?: string }[] = [
        { title: 'false', decide: () => false },
        { title: 'a promise of false', decide: async () => false },
        { title: 'a reason', decide: () => ({ deny: 'Not on Sundays.' }), text: 'Not on Sundays.' },
        { title: 'an empty reason', decide: () => ({ deny: '' }) },
        {
          title: 'a reason with an empty list of scopes',
          decide: () => ({ deny: 'No.', scopes: [] }),
          text: 'No.',
        },
        { title: 'undefined', decide: () => undefined, failed: 'TypeError' },
        { title: 'a truthy value', decide: () => 1, failed: 'TypeError' },
        { title: 'an object without a reason', decide: () => ({ allow: true }), failed: 'TypeError' },
        { title: 'an invalid scope', decide: () => ({ deny: 'x', scopes: ['a b'] }), failed: 'TypeError' },
        {
          title: 'an error',
          decide: () => {
            throw new RangeError('a secret')
          },
          failed: 'RangeError',
        },
        {
          title: 'a rejection',
          decide: () => Promise.reject(new RangeError('a secret')),
          failed: 'RangeError',
        },
        {
          title: 'a promise that does not settle',
          decide: () => new Promise(() => {}),
          failed: 'TimeoutError',
        },
        {
          title: 'an object that throws when it is read',
          decide: () => ({
            get deny(): string {
              throw new RangeError('a secret')
            },
          }),
          failed: 'RangeError',
        },
      ]
      for (const { title, decide, text, failed } of denying) {
        it(`${title} denies tools, prompts, and resources, and one event per denial names the cause`, async () => {
          policy = decide
          const { result } = await responseTo(TOOL)
          expect(result).to.deep.include({
            isError: true,
            content: [{ type: 'text', text: text ?? 'You are not allowed to use this tool.' }],
          })
          expect((await responseTo(PROMPT)).error).to.deep.equal({
            code: -32_003,
            message: text ?? 'You are not allowed to use this prompt.',
          })
          expect((await responseTo(RESOURCE)).error).to.deep.equal({
            code: -32_003,
            message: text ?? 'You are not allowed to read this resource.',
          })
          expect(ran).to.deep.equal([])
          expect(denials().map(({ level }) => level)).to.deep.equal(['warn', 'warn', 'warn'])
          expect(denials().map(({ attributes }) => attributes?.['error.type'])).to.deep.equal(
            Array.from({ length: 3 }, () => failed),
          )
          const names = transport.getEvents().map(({ name }) => name)
          expect(names).to.not.include('kit.mcp.tool.failed')
          expect(names).to.not.include('kit.mcp.request.failed')
        })
      }

      for (const request of [TOOL, PROMPT, RESOURCE]) {
        it(`a denial of ${request.method} with scopes is the 403 challenge for them`, async () => {
          policy = () => ({ deny: 'x', scopes: ['mcp:admin', 'offline_access'] })
          const answer = await send(request)
          expect(answer.status).to.equal(403)
          expect(answer.headers.get('www-authenticate')).to.match(
            /^Bearer realm="mcp-server", error="insufficient_scope", scope="mcp:read mcp:admin", resource_metadata=/,
          )
          expect(JSON.parse(answer.text)).to.deep.include({ error: 'insufficient_scope' })
          expect(ran).to.deep.equal([])
          expect(denials()).to.have.length(1)
        })
      }

      const earlier = [
        { condition: 'the token is invalid', token: 'unknown', status: 401 },
        { condition: 'the token lacks the scopes of the endpoint', token: 'stranger', status: 403 },
        {
          condition: 'the token lacks the scopes of the tool',
          request: { method: 'tools/call', params: { name: 'write', arguments: {} } },
          status: 403,
        },
        {
          condition: 'the arguments of a tool are invalid',
          request: { method: 'tools/call', params: { name: 'add', arguments: { a: 'x' } } },
          text: /Invalid arguments for tool add/,
        },
        {
          condition: 'the arguments of a tool are not an object',
          request: { method: 'tools/call', params: { name: 'add', arguments: 'x' } },
          text: /-32602/,
        },
        {
          condition: 'the arguments of a prompt are invalid',
          request: { method: 'prompts/get', params: { name: 'greet', arguments: { name: 'A' } } },
          text: /Invalid arguments for prompt greet/,
        },
        {
          condition: 'the tool does not exist',
          request: { method: 'tools/call', params: { name: 'none', arguments: {} } },
          text: /Tool none not found/,
        },
        {
          condition: 'the resource does not exist',
          request: { method: 'resources/read', params: { uri: 'notes://none' } },
          text: /notes:\/\/none/,
        },
      ]
      for (const { condition, token, request = TOOL, status, text } of earlier) {
        it(`the policy is not asked, and the response does not mention it, if ${condition}`, async () => {
          policy = () => ({ deny: 'reason of the policy', scopes: ['mcp:policy'] })
          const answer = await send(request, token)
          expect(queries).to.deep.equal([])
          expect(`${answer.text} ${answer.headers.get('www-authenticate')}`).to.not.contain('policy')
          if (status !== undefined) expect(answer.status).to.equal(status)
          if (text !== undefined) expect(answer.text).to.match(text)
          expect(ran).to.deep.equal([])
        })
      }

      it('lists leave out what the policy denies, and failures, with one event per list', async () => {
        policy = async ({ purpose, name, uri, kind }) => {
          if (purpose === 'call' || name === 'write') throw new RangeError('a secret')
          if (kind === 'prompt') return false
          return uri !== 'notes://today' && uri !== 'notes://bob/1'
        }
        const listed = async (method: string) =>
          Object.values((await responseTo({ method })).result)
            .filter(Array.isArray)
            .map((list) => list.map(({ name }: { name: string }) => name))
        expect(await listed('tools/list')).to.deep.equal([['add']])
        expect(denials().map(({ attributes }) => attributes)).to.have.length(1)
        expect(denials()[0]?.attributes).to.include({
          'mcp.method.name': 'tools/list',
          'kit.mcp.policy.purpose': 'list',
          'error.type': 'RangeError',
        })
        transport.clear()
        expect(await listed('prompts/list')).to.deep.equal([[]])
        expect(await listed('resources/list')).to.deep.equal([['ada 1']])
        expect(await listed('resources/templates/list')).to.deep.equal([['note']])
        expect(denials()).to.deep.equal([])
        expect(
          queries.map(({ purpose, kind, name, uri, args }) => ({ purpose, kind, name, uri, args })),
        ).to.deep.equal(
          [
            { kind: 'tool', name: 'add' },
            { kind: 'tool', name: 'write' },
            { kind: 'prompt', name: 'greet' },
            { kind: 'resource', name: 'today', uri: 'notes://today' },
            { kind: 'resource', name: 'note', uri: 'notes://ada/1' },
            { kind: 'resource', name: 'note', uri: 'notes://bob/1' },
            { kind: 'resource', name: 'note' },
          ].map((query) => ({ purpose: 'list', uri: undefined, args: undefined, ...query })),
        )
      })
    })
  }

  it('a batch is refused as a whole if one denial has scopes, and none of its calls runs', async () => {
    policy = ({ name }) => (name === 'add' ? true : { deny: 'x', scopes: [`mcp:${name}`] })
    const { server } = createMcpAdapter({ router, oauth: oauth(), authorize })
    const batch = [
      call('add', { a: 1 }, 1),
      rpc('prompts/get', PROMPT.params, 2),
      rpc('resources/read', RESOURCE.params, 3),
    ]
    const answer = await web(server).send(
      legacy(batch, { ...bearer('reader'), 'mcp-protocol-version': '2025-03-26' }),
    )
    expect(answer.status).to.equal(403)
    expect(answer.headers.get('www-authenticate')).to.contain('scope="mcp:read mcp:greet mcp:today"')
    expect(ran).to.deep.equal([])
  })

  it('each call of a batch has its own verdict', async () => {
    policy = ({ args }) => args?.a === 2
    const { server } = createMcpAdapter({ router, oauth: oauth(), authorize })
    const batch = [call('add', { a: 1 }, 1), call('add', { a: 2 }, '1')]
    const answer = await web(server).send(
      legacy(batch, { ...bearer('reader'), 'mcp-protocol-version': '2025-03-26' }),
    )
    const texts = new Map(answer.messages.map(({ id, result }) => [id, result.content[0].text]))
    expect(texts.get(1)).to.equal('You are not allowed to use this tool.')
    expect(texts.get('1')).to.equal('3')
  })

  it('a denial with scopes is a 403 without a challenge if OAuth is disabled', async () => {
    policy = () => ({ deny: 'x', scopes: ['mcp:admin'] })
    const answer = await web(createMcpAdapter({ router, authorize }).server).send(
      legacy(call('add', { a: 1 })),
    )
    expect(answer.status).to.equal(403)
    expect(answer.headers.get('www-authenticate')).to.equal(null)
    expect(ran).to.deep.equal([])
  })

  it('lists and resources of a server with a policy are private to the client that caches them', async () => {
    const cache = { ttlMs: 1000, cacheScope: 'public' } as const
    const mode = CALL_MODES.find(({ name }) => name.startsWith('2026-07-28')) as (typeof CALL_MODES)[number]
    const served = await mode.serve({ router, authorize, cache })
    try {
      for (const request of [{ method: 'tools/list', params: {} }, RESOURCE]) {
        const { result } = responseIn(await mode.send(served, request.method, request.params))
        expect(result, request.method).to.include({ cacheScope: 'private' })
      }
    } finally {
      await served.close()
    }
  })

  for (const { name, serve } of ENTRY_POINTS) {
    it(`${name} asks the policy once per call, and sends its 403`, async () => {
      policy = ({ args }) => args?.a === 2 || { deny: 'x', scopes: ['mcp:admin'] }
      const served = await serve({ router, oauth: oauth(), authorize })
      try {
        const permitted = await served.send(legacy(call('add', { a: 2 }), bearer('reader')))
        expect(permitted.message.result.content[0].text).to.equal('3')
        const denied = await served.send(legacy(call('add', { a: 1 }), bearer('reader')))
        expect(denied.status).to.equal(403)
        expect(denied.headers.get('www-authenticate')).to.contain('scope="mcp:read mcp:admin"')
        expect(queries).to.have.length(2)
      } finally {
        await served.close()
      }
    })
  }

  it('a call that the policy was not asked about is denied', () => {
    const serving = { policy: new Policy(() => true, 1000), exchange: {} as Exchange }
    const sdk = { mcpReq: { id: 1 } } as ServerContext
    expect(checkedCall(serving, sdk, 'tool', router)).to.have.property('denied')
    serving.exchange.verdicts = new Map([[1, { args: {} }]])
    expect(checkedCall(serving, sdk, 'tool', router)).to.have.property('denied')
    serving.exchange.verdicts = new Map([[1, { operation: {}, args: {} }]])
    expect(checkedCall(serving, sdk, 'tool', router)).to.have.property('denied')
    serving.exchange.verdicts = new Map([[1, { operation: router, args: {} }]])
    expect(checkedCall(serving, sdk, 'tool', router)).to.not.have.property('denied')
  })

  it('authorize with a router function is a configuration error that names authorize', () => {
    const error = configError(() => createMcpAdapter({ router: () => ({}) as never, authorize: () => true }))
    expect(error).to.deep.include({ option: 'authorize' })
    expect(error.message).to.contain('KitMcpRouter')
  })

  it('authorize gets the types of the context and of the user', () => {
    createMcpAdapter({
      router,
      authorize: ({ context, args }) => {
        expectTypeOf(context).toEqualTypeOf<App>()
        expectTypeOf(args).toEqualTypeOf<Readonly<Record<string, unknown>> | undefined>()
        return true
      },
    })
    KitMcpServer.create()
      .router(router)
      .withOptions({
        authorize: ({ context }) => {
          expectTypeOf(context).toEqualTypeOf<App>()
          return { deny: 'x' }
        },
      })
  })
})
