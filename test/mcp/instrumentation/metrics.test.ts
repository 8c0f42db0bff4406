import { randomUUID } from 'node:crypto'
import type { DataPoint, Histogram } from '@opentelemetry/sdk-metrics'
import { SamplingDecision } from '@opentelemetry/sdk-trace-base'
import { expect } from 'chai'
import { KitMcpRouter } from '../../../src/mcp/router/router.ts'
import { ENTRY_POINTS, type Served } from '../../support/mcp/entry-points.ts'
import { oauth } from '../../support/mcp/notes.ts'
import { Otel } from '../../support/mcp/otel.ts'
import { bearer, call, LEGACY, legacy, modern, rpc } from '../../support/mcp/wire.ts'

const router = KitMcpRouter.create()
  .tool('echo', { description: 'x' }, () => 'x')
  .tool('denied', { description: 'x', authorize: () => ({ deny: 'No.' }) }, () => 'x')
  .tool('write', { description: 'x', scopes: ['mcp:write'] }, () => 'x')
  .tool(
    'limited',
    { description: 'x', limits: { calls: { max: 1, perSeconds: 60, by: 'user' }, maxResultBytes: 60 } },
    () => 'x'.repeat(100),
  )

const REFUSED = 'kit.mcp.auth.refused'
const LIMITED = 'kit.mcp.limit.reached'
const DENIED = 'kit.mcp.policy.denied'
const SESSIONS = 'mcp.server.session.duration'

const initialize = (protocolVersion: string) =>
  rpc('initialize', { protocolVersion, capabilities: {}, clientInfo: { name: 'c', version: '1' } })

for (const entryPoint of ENTRY_POINTS) {
  describe(`metrics of ${entryPoint.name}`, () => {
    let otel: Otel
    /** The names with which spans began. */
    let started: string[]
    let server: Served
    beforeEach(async () => {
      started = []
      const shouldSample = (_context: unknown, _traceId: string, name: string) => {
        started.push(name)
        return { decision: SamplingDecision.RECORD_AND_SAMPLED }
      }
      otel = new Otel({ shouldSample, toString: () => 'all' }).register()
      server = await entryPoint.serve({ router, oauth: oauth(), sessions: true })
    })
    afterEach(async () => {
      await server.close()
      Otel.unregister()
    })

    const metric = async (name: string) =>
      (await otel.metrics()).find(({ descriptor }) => descriptor.name === name)

    it('refused requests are counted by reason, and accepted requests are not', async () => {
      const { send } = server
      const refused = 'a-token-that-is-refused'
      await send(legacy(call('echo')))
      await send(legacy(call('echo'), bearer(refused)))
      await send(legacy(call('echo'), { ...bearer(refused), 'mcp-protocol-version': refused }))
      await send(legacy(call('echo'), { authorization: 'Bearer a b' }))
      await send(legacy(call('write'), bearer('stranger')))
      await send(legacy(initialize(LEGACY), bearer('reader')))
      const counted = await metric(REFUSED)
      expect(counted?.descriptor.unit).to.equal('{request}')
      const byReason = counted?.dataPoints.map(({ attributes, value }) => [attributes, value])
      const reason = (name: string) => ({ 'kit.mcp.auth.refused.reason': name })
      expect(byReason).to.have.deep.members([
        [reason('missing'), 1],
        [reason('invalid'), 2],
        [reason('malformed'), 1],
        [reason('insufficient_scope'), 1],
      ])
    })

    it('calls that reach a limit are counted by limit and tool, and other calls are not', async () => {
      for (const name of ['echo', 'limited', 'limited', 'limited'])
        await server.send(modern('tools/call', { name }, bearer('reader')))
      const counted = await metric(LIMITED)
      expect(counted?.descriptor.unit).to.equal('{call}')
      expect(counted?.dataPoints.map(({ attributes, value }) => [attributes, value])).to.have.deep.members([
        [{ limit: 'result_size', 'gen_ai.tool.name': 'limited' }, 1],
        [{ limit: 'calls', 'gen_ai.tool.name': 'limited' }, 2],
      ])
    })

    it('calls that a policy denies are counted by method and tool, and other calls are not', async () => {
      for (const name of ['denied', 'denied', 'echo', 'unknown'])
        await server.send(legacy(call(name), bearer('reader')))
      const points = (await metric(DENIED))?.dataPoints.map(({ attributes, value }) => [attributes, value])
      expect(points).to.deep.equal([[{ 'mcp.method.name': 'tools/call', 'gen_ai.tool.name': 'denied' }, 2]])
    })

    it('the names of unknown notifications are neither in metrics nor in spans, when they begin and end', async () => {
      const names = (): string[] => Array.from({ length: 5 }, () => `x/${randomUUID()}`)
      for (const method of names()) {
        await server.send(legacy({ jsonrpc: '2.0', method }, bearer('reader')))
        await server.send(legacy({ jsonrpc: '2.0', id: null, method }, bearer('reader')))
        await server.send(legacy({ jsonrpc: '2.0', method, params: { name: method } }, bearer('reader')))
        const { body, headers } = modern(method, {}, bearer('reader'))
        const { id: _id, ...notification } = JSON.parse(body as string)
        await server.send(legacy(notification, headers))
      }
      await server.send(legacy({ jsonrpc: '2.0', method: 'notifications/initialized' }, bearer('reader')))
      const durations = await metric('mcp.server.operation.duration')
      const methods = durations?.dataPoints.map(({ attributes }) => attributes['mcp.method.name'])
      expect(new Set(methods)).to.deep.equal(new Set(['_OTHER', 'notifications/initialized']))
      expect(durations?.dataPoints).to.have.length.below(10)
      const spans = ['MCP POST', 'notifications/initialized']
      for (const found of [started, otel.spans.map(({ name }) => name)])
        expect(new Set(found)).to.deep.equal(new Set(spans))
      const named = otel.spans.map(({ attributes }) => attributes['mcp.method.name'])
      expect(new Set(named)).to.deep.equal(new Set(['_OTHER', 'notifications/initialized']))
    })

    for (const { revision, recorded } of [
      { revision: LEGACY, recorded: { 'mcp.protocol.version': LEGACY } },
      { revision: 'a-revision-that-does-not-exist', recorded: {} },
    ]) {
      it(`the duration of a session of ${revision} is recorded when the session has ended`, async () => {
        const before = performance.now()
        const begun = await server.send(legacy(initialize(revision), bearer('reader')))
        const id = begun.headers.get('mcp-session-id') as string
        expect(id).to.be.a('string')
        expect(await metric(SESSIONS)).to.equal(undefined)
        const headers = { ...bearer('reader'), 'mcp-session-id': id, 'mcp-protocol-version': LEGACY }
        expect((await server.send({ method: 'DELETE', headers })).status).to.equal(200)
        const elapsedMs = performance.now() - before
        const ended = await metric(SESSIONS)
        expect(ended?.descriptor.unit).to.equal('s')
        const [point, ...others] = (ended?.dataPoints ?? []) as DataPoint<Histogram>[]
        expect(others).to.deep.equal([])
        expect(point?.attributes).to.deep.equal({
          'network.transport': 'tcp',
          'network.protocol.name': 'http',
          'mcp.client.name': '_OTHER',
          ...recorded,
        })
        expect(point?.value.count).to.equal(1)
        expect(point?.value.sum).to.be.within(0, elapsedMs / 1000)
      })
    }
  })
}
