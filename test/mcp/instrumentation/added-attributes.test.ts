import { expect } from 'chai'
import { z } from 'zod'
import { createMcpAdapter, KitMcpRouter, mcpAuth, VerifierUnavailableError } from '../../../src/index.ts'
import {
  InMemoryTransportAdapter,
  KitTelemetry,
  LoggerTransportAdapter,
  type TelemetryEnvelope,
} from '../../../src/telemetry/index.ts'
import { ENTRY_POINTS, onExpress, type Served, type Setup, web } from '../../support/mcp/entry-points.ts'
import { oauth } from '../../support/mcp/notes.ts'
import {
  bearer,
  beginSession,
  call,
  LEGACY,
  legacy,
  MODERN,
  modern,
  rpc,
  signalled,
  type WireRequest,
} from '../../support/mcp/wire.ts'
import { RecordingLogger } from '../../support/telemetry/recording.ts'

const SECRET = 'secret-of-the-application'

const logger = new RecordingLogger()
const transport = InMemoryTransportAdapter.create()
const lines: string[] = []
const write = (line: string) => lines.push(line)
const manager = KitTelemetry.create()
  .withLogger(logger)
  .withSampling({ debugRate: 1, infoRate: 1 })
  .withRedaction({ denylistKeys: ['password'], hashKeys: ['email'] })
  .addTransport(transport)
  .addTransport(
    LoggerTransportAdapter.create({
      logger: { debug: write, info: write, warn: write, error: write },
      format: 'json',
    }),
  )
  .build()

let running = signalled()
let released = signalled()
/** The names of all attributes of the events of this package, which set() must not overwrite. */
let reserved: string[] = []

const router = KitMcpRouter.create()
  .context(({ request }) => {
    manager.set({ context: 'app' })
    if (request.headers.has('x-no-context')) throw new Error(SECRET)
    return {}
  })
  .use(async ({ session, auth }, next) => {
    session?.set({ 'client.id': auth?.clientId, cost: 'not known yet' })
    return await next()
  })
  .tool(
    'write-report',
    { description: 'x', input: z.object({ topic: z.string() }) },
    async ({ topic }, { session }) => {
      await null
      session?.set({ topic, cost: 12, user: { email: 'a@example.com', password: SECRET } })
      await manager.session().run(async () => {
        await null
        manager.set({ 'gen_ai.usage.output_tokens': 1200 })
      })
      return 'x'
    },
  )
  .tool('write', { description: 'x', scopes: ['mcp:write'] }, () => 'x')
  .tool('reserve', { description: 'x' }, (_args, { session }) => {
    session?.set(Object.fromEntries(reserved.map((name) => [name, 'mine'])))
    return 'x'
  })
  .tool('stream', { description: 'x' }, async (_args, { progress, session }) => {
    session?.set({ step: 1 })
    await progress(1)
    session?.set({ step: 2 })
    return 'x'
  })
  .tool('slow', { description: 'x' }, async (_args, { session }) => {
    running.resolve()
    await released.promise
    session?.set({ late: 1 })
    manager.set({ late: 1 })
    return 'x'
  })
  .prompt('hello', { description: 'x' }, () => {
    manager.set({ prompt: 1 })
    return 'x'
  })

const gate = oauth({
  verifyToken: async (input) => {
    await null
    manager.set({ verifier: 'v1' })
    if (input.bearerToken === 'outage') throw new VerifierUnavailableError('x')
    const verified = await oauth().verifyToken(input)
    return verified && { ...verified, clientId: 'editor' }
  },
})

const setup = (options: Partial<Setup> = {}): Setup => ({
  router,
  oauth: gate,
  telemetry: manager,
  ...options,
})

const named = (name: string): TelemetryEnvelope[] =>
  transport.getEvents().filter((event) => event.name === `kit.mcp.${name}`)
const only = (name: string): TelemetryEnvelope => {
  const found = named(name)
  expect(found, `events named ${name}`).to.have.length(1)
  return found[0] as TelemetryEnvelope
}

const REPORT = { name: 'write-report', arguments: { topic: 'tides' } }

const ERAS = [
  {
    era: LEGACY,
    request: (method: string, params: object, headers = {}): WireRequest =>
      legacy(rpc(method, params), headers),
  },
  {
    era: MODERN,
    request: (method: string, params: object, headers = {}): WireRequest =>
      modern(method, params as Record<string, unknown>, headers),
  },
] as const

describe('attributes that an application adds to the event of a request', () => {
  beforeEach(() => {
    transport.clear()
    lines.length = 0
    logger.warnings.length = 0
    running = signalled()
    released = signalled()
    reserved = []
  })

  for (const entryPoint of ENTRY_POINTS) {
    describe(entryPoint.name, () => {
      let served: Served
      before(async () => {
        served = await entryPoint.serve(setup())
      })
      after(() => served.close())

      for (const { era, request } of ERAS) {
        it(`one line of a ${era} call says who called what, with which client, how long it took, and what it cost`, async () => {
          await served.send(request('tools/call', REPORT, bearer('reader')))
          const line = lines.map((text) => JSON.parse(text)).find(({ attributes }) => 'cost' in attributes)
          expect(line).to.deep.include({
            name: 'kit.mcp.request.completed',
            actor: { type: 'user', id: 'u1' },
          })
          const { duration_ms, user, ...rest } = line.attributes
          expect(rest).to.deep.equal({
            verifier: 'v1',
            context: 'app',
            'client.id': 'editor',
            topic: 'tides',
            cost: 12,
            'gen_ai.usage.output_tokens': 1200,
            'mcp.method.name': 'tools/call',
            'mcp.protocol.version': era,
            ...(era === MODERN && { 'mcp.client.name': 'test', 'mcp.client.version': '1' }),
            'jsonrpc.request.id': '1',
            'gen_ai.tool.name': 'write-report',
            'gen_ai.operation.name': 'execute_tool',
            'http.response.status_code': 200,
          })
          expect(duration_ms).to.be.within(0, 5000)
          expect(user).to.have.all.keys('email')
          expect(user.email).to.match(/^[0-9a-f]{64}$/)
          expect(lines.join('\n')).not.to.include(SECRET)
        })

        it(`one line of a refused ${era} call says why, with the attributes that were added by then`, async () => {
          await served.send(request('tools/call', REPORT, bearer('unknown')))
          const { duration_ms, ...rest } = only('auth.refused').attributes ?? {}
          // Nothing that the client has sent is in the event of a refused request.
          expect(rest).to.deep.equal({
            reason: 'invalid',
            'kit.mcp.auth.invalid.cause': 'verifier',
            verifier: 'v1',
            context: 'app',
          })
          expect(duration_ms).to.be.within(0, 5000)
          expect(named('request.completed')).to.deep.equal([])
        })

        it(`a ${era} call without a scope has the attributes that were added by then`, async () => {
          await served.send(request('tools/call', { name: 'write' }, bearer('reader')))
          const { actor, attributes } = only('auth.refused')
          expect(actor).to.deep.equal({ type: 'user', id: 'u1' })
          expect(attributes).to.include({ reason: 'insufficient_scope', verifier: 'v1' })
        })

        it(`a ${era} prompt adds attributes through the manager`, async () => {
          await served.send(request('prompts/get', { name: 'hello' }, bearer('reader')))
          expect(only('request.completed').attributes).to.include({
            prompt: 1,
            'gen_ai.prompt.name': 'hello',
          })
        })

        it(`the attributes of a ${era} event stream have the values at its end`, async () => {
          const params = { name: 'stream', arguments: {}, _meta: { progressToken: 'p' } }
          const response = await served.send(request('tools/call', params, bearer('reader')))
          expect(response.headers.get('content-type')).to.match(/^text\/event-stream/)
          expect(only('request.completed').attributes).to.include({ step: 2 })
        })

        it(`set() cannot overwrite any attribute of the events of a ${era} call`, async () => {
          await served.send(request('tools/call', { name: 'reserve' }, bearer('reader')))
          const before = only('request.completed').attributes ?? {}
          reserved = Object.keys(before).filter(
            (name) => !['verifier', 'context', 'cost', 'client.id'].includes(name),
          )
          expect(reserved).to.include.members(['duration_ms', 'http.response.status_code', 'mcp.method.name'])
          transport.clear()
          await served.send(request('tools/call', { name: 'reserve' }, bearer('reader')))
          const { attributes } = only('request.completed')
          expect(Object.values(attributes ?? {})).not.to.include('mine')
        })
      }

      it('a request whose verifier is not available has the attributes that were added by then', async () => {
        await served.send(legacy(call('write-report', REPORT.arguments), bearer('outage')))
        expect(only('auth.unavailable').attributes).to.include({ verifier: 'v1' })
      })

      it('a request whose context() throws has the attributes that were added by then', async () => {
        await served.send(
          legacy(call('write-report', REPORT.arguments), { ...bearer('reader'), 'x-no-context': '1' }),
        )
        expect(only('request.failed').attributes).to.include({ context: 'app' })
      })

      it('requests at the same time do not share added attributes', async () => {
        const topics = ['a', 'b', 'c', 'd']
        await Promise.all(
          topics.map((topic) => served.send(legacy(call('write-report', { topic }), bearer('reader')))),
        )
        expect(named('request.completed').map(({ attributes }) => attributes?.topic)).to.have.members(topics)
      })
    })
  }

  it('a session of MCP adds attributes only to the request of the call', async () => {
    const served = web(createMcpAdapter(setup({ sessions: true })).server)
    const headers = { ...bearer('reader'), ...(await beginSession(served, bearer('reader'))) }
    await served.send(legacy(rpc('tools/call', REPORT, 2), headers))
    await served.send(legacy(rpc('tools/list', {}, 3), headers))
    expect(
      named('request.completed').map(({ attributes }) => [
        attributes?.topic,
        attributes?.['gen_ai.usage.output_tokens'],
      ]),
    ).to.deep.equal([
      [undefined, undefined],
      ['tides', 1200],
      [undefined, undefined],
    ])
  })

  it('attributes that are added after the client has disconnected are ignored with a report', async () => {
    const { server } = createMcpAdapter(setup())
    const disconnect = new AbortController()
    const { headers, body } = legacy(call('slow'), bearer('reader'))
    const responded = server(
      new Request('http://localhost:3000/mcp', {
        method: 'POST',
        headers: headers as Record<string, string>,
        body: body as string,
        signal: disconnect.signal,
      }),
    )
    await running.promise
    disconnect.abort()
    await Promise.resolve(responded).catch(() => undefined)
    expect(only('request.completed').attributes).not.to.have.property('late')
    const reported = signalled<string>()
    const { warn } = logger
    logger.warn = (message: string) => reported.resolve(message)
    released.resolve()
    expect(await reported.promise).to.match(/^set\(\) was ignored, because it was called after the end/)
    logger.warn = warn
    expect(named('request.completed')).to.have.length(1)
  })

  it('a server behind mcpAuth adds attributes through the manager', async () => {
    const served = await onExpress(mcpAuth(gate, { telemetry: manager }), (_req, res) => {
      manager.set({ legacy: 1 })
      res.end('x')
    })
    try {
      await served.send(legacy(rpc('tools/list'), bearer('reader')))
      expect(only('request.completed').attributes).to.include({ legacy: 1, verifier: 'v1' })
    } finally {
      await served.close()
    }
  })
})
