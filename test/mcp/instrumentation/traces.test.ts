import { execFile } from 'node:child_process'
import { once } from 'node:events'
import { setTimeout } from 'node:timers/promises'
import { promisify } from 'node:util'
import { McpServer } from '@modelcontextprotocol/server'
import { context, propagation, SpanKind, SpanStatusCode, trace } from '@opentelemetry/api'
import { InMemoryLogRecordExporter, LoggerProvider, SimpleLogRecordProcessor } from '@opentelemetry/sdk-logs'
import { AlwaysOffSampler, type ReadableSpan } from '@opentelemetry/sdk-trace-base'
import { expect } from 'chai'
import fc from 'fast-check'
import { z } from 'zod'
import { VERSION } from '../../../src/base/version.ts'
import { createMcpAdapter, KitMcpRouter, mcpAuth, type VerifyToken } from '../../../src/index.ts'
import { VerifierUnavailableError } from '../../../src/oauth/errors.ts'
import {
  InMemoryTransportAdapter,
  KitTelemetry,
  OtlpTransportAdapter,
  type TelemetryEnvelope,
} from '../../../src/telemetry/index.ts'
import { expectNoSecret } from '../../support/expect-no-secret.ts'
import { ENTRY_POINTS, onExpress, type Served, type Setup, web } from '../../support/mcp/entry-points.ts'
import { oauth } from '../../support/mcp/notes.ts'
import { Otel } from '../../support/mcp/otel.ts'
import {
  bearer,
  call,
  LEGACY,
  legacy,
  MODERN,
  modern,
  rpc,
  signalled,
  type WireRequest,
} from '../../support/mcp/wire.ts'
import { runs } from '../../support/runs.ts'

const run = promisify(execFile)
const INDEX = new URL('../../../src/index.js', import.meta.url).href

const TRACE = '4bf92f3577b34da6a3ce929d0e0e4736'
const PARENT = '00f067aa0ba902b7'
const TRACEPARENT = `00-${TRACE}-${PARENT}-01`
const SECRET = 'secret-of-the-application'

const router = KitMcpRouter.create()
  .context(({ request }) => {
    if (request.headers.has('x-no-context')) throw new Error(SECRET)
    return {}
  })
  .tool('echo', { description: 'x', input: z.object({ text: z.string() }) }, async ({ text }) => {
    await null
    trace.getTracer('app').startActiveSpan('work', (span) => {
      manager.emit('notes.read')
      span.end()
    })
    return { said: text, baggage: propagation.getActiveBaggage()?.getAllEntries() ?? [] }
  })
  .tool('write', { description: 'x', scopes: ['mcp:write'] }, () => 'x')
  .tool('crash', { description: 'x' }, () => {
    throw new TypeError(SECRET)
  })
  .tool('quote', { description: 'x' }, (_args, { auth }) => {
    throw new Error(`no access with ${auth?.token}`, { cause: new Error(String(auth?.token)) })
  })

/** A server of the official SDK, which tells its own errors. */
const existing: Setup['router'] = () => {
  const server = new McpServer({ name: 'existing', version: '1.0.0' })
  const inputSchema = z.object({ text: z.string() })
  server.registerTool('greet', { description: 'x', inputSchema }, async ({ text }) => ({
    content: [{ type: 'text', text }],
    ...(text === 'fail' && { isError: true }),
  }))
  server.registerPrompt('hello', { description: 'x' }, () => ({ messages: [] }))
  server.registerResource('page', 'page://one', {}, ({ href }) => ({ contents: [{ uri: href, text: 'x' }] }))
  return server
}

const transport = InMemoryTransportAdapter.create()
const logs = new InMemoryLogRecordExporter()
const loggerProvider = new LoggerProvider({ processors: [new SimpleLogRecordProcessor({ exporter: logs })] })
const manager = KitTelemetry.create()
  .withLogger(false)
  .withSampling({ debugRate: 1, infoRate: 1 })
  .withRedaction({ denylistKeys: ['password'] })
  .addTransport(transport)
  .addTransport(OtlpTransportAdapter.create({ loggerProvider }))
  .build()

const setup = (options: Partial<Setup> = {}): Setup => ({
  router,
  oauth: oauth(),
  telemetry: manager,
  ...options,
})
const served = (options?: Partial<Setup>): Served => web(createMcpAdapter(setup(options)).server)

const ERAS = [
  {
    era: LEGACY,
    request: (method: string, params: object, headers = {}) => legacy(rpc(method, params), headers),
  },
  {
    era: MODERN,
    request: (method: string, params: object, headers = {}) =>
      modern(method, params as Record<string, unknown>, headers),
  },
] as const
const ECHO = { name: 'echo', arguments: { text: 'x' } }

const onlySpan = (otel: Otel): ReadableSpan => {
  expect(otel.spans.map(({ name }) => name)).to.have.length(1)
  return otel.spans[0] as ReadableSpan
}
const named = (name: string): TelemetryEnvelope | undefined =>
  transport.getEvents().find((event) => event.name === name)

describe('mcp: traces', () => {
  let otel: Otel
  beforeEach(() => {
    otel = new Otel().register()
    transport.clear()
    logs.reset()
  })
  afterEach(() => Otel.unregister())

  for (const entryPoint of ENTRY_POINTS) {
    describe(entryPoint.name, () => {
      let server: Served
      before(async () => {
        const verifyToken: VerifyToken = (input) => {
          if (input.bearerToken === 'outage') throw new VerifierUnavailableError(SECRET)
          return oauth().verifyToken(input)
        }
        server = await entryPoint.serve(setup({ oauth: oauth({ verifyToken }) }))
      })
      after(() => server.close())

      for (const { era, request } of ERAS) {
        it(`a call of ${era} has one SERVER span, whose parent is in _meta`, async () => {
          const params = { ...ECHO, _meta: { traceparent: TRACEPARENT, tracestate: 'rojo=1,congo=2' } }
          await server.send(request('tools/call', params, { ...bearer('reader'), 'mcp-session-id': 'ses-1' }))
          const span = onlySpan(otel)
          expect(span.name).to.equal('tools/call echo')
          expect(span.kind).to.equal(SpanKind.SERVER)
          expect(span.spanContext().traceId).to.equal(TRACE)
          expect(span.parentSpanContext).to.include({ spanId: PARENT, isRemote: true })
          expect(span.parentSpanContext?.traceState?.serialize()).to.equal('rojo=1,congo=2')
          expect(span.links).to.deep.equal([])
          expect(span.status).to.deep.equal({ code: SpanStatusCode.UNSET })
          expect(span.instrumentationScope).to.include({ name: 'mcp-gatekit', version: VERSION })
          expect(span.attributes).to.deep.equal({
            'mcp.method.name': 'tools/call',
            'mcp.protocol.version': era,
            ...(era === LEGACY
              ? { 'mcp.session.id': 'ses-1' }
              : { 'mcp.client.name': 'test', 'mcp.client.version': '1' }),
            'jsonrpc.request.id': '1',
            'gen_ai.tool.name': 'echo',
            'gen_ai.operation.name': 'execute_tool',
            'network.transport': 'tcp',
            'network.protocol.name': 'http',
            ...(entryPoint.wire && { 'network.protocol.version': '1.1' }),
            'http.response.status_code': 200,
          })
        })

        it(`the handler of ${era} runs inside the span, and so do its events`, async () => {
          await server.send(request('tools/call', ECHO, bearer('reader')))
          const span = onlySpan(otel)
          const work = otel.all.find(({ name }) => name === 'work') as ReadableSpan
          expect(work.parentSpanContext?.spanId).to.equal(span.spanContext().spanId)
          const { traceId, spanId } = span.spanContext()
          const records = logs.getFinishedLogRecords()
          expect(records.map(({ eventName }) => eventName)).to.deep.equal([
            'kit.mcp.auth.accepted',
            'notes.read',
            'kit.mcp.tool.completed',
            'kit.mcp.request.completed',
          ])
          for (const { eventName, spanContext } of records) {
            const expected = eventName === 'notes.read' ? work.spanContext().spanId : spanId
            expect(spanContext).to.include({ traceId, spanId: expected })
          }
        })
      }

      for (const [status, reason, headers] of [
        [401, 'missing', {}],
        [401, 'malformed', { authorization: 'Bearer a b' }],
        [401, 'invalid', bearer('unknown')],
        [403, 'insufficient_scope', bearer('stranger')],
        [503, undefined, bearer('outage')],
        [500, undefined, { ...bearer('reader'), 'x-no-context': '1' }],
      ] as const) {
        it(`a refused request has a span with its event: ${status} ${reason ?? ''}`, async () => {
          const answer = await server.send(legacy(call('echo', { text: 'x' }), headers))
          expect(answer.status).to.equal(status)
          const span = onlySpan(otel)
          // Only the complete handlers know the message before they judge its scopes.
          expect(span.name).to.equal(status === 403 && !entryPoint.auth ? 'tools/call echo' : 'MCP POST')
          expect(span.attributes).to.include({
            'http.response.status_code': status,
            'error.type': String(status),
          })
          expect(span.attributes['kit.mcp.auth.refused.reason']).to.equal(reason)
          expect(span.status.code).to.equal(SpanStatusCode.ERROR)
          const records = logs.getFinishedLogRecords()
          expect(records).to.have.length(1)
          expect(records[0]?.spanContext?.spanId).to.equal(span.spanContext().spanId)
        })
      }

      it('the span of a call without a scope names the operation', async () => {
        await server.send(legacy(call('write'), bearer('reader')))
        const span = onlySpan(otel)
        expect(span.name).to.equal('tools/call write')
        expect(span.attributes).to.include({ 'kit.mcp.auth.refused.reason': 'insufficient_scope' })
      })

      it('the duration of each operation is measured, but not of requests that were refused before their body was read', async () => {
        await server.send(legacy(rpc('tools/list'), bearer('reader')))
        await server.send(modern('tools/call', ECHO, bearer('reader')))
        await server.send(legacy(call('crash'), bearer('reader')))
        await server.send(legacy(call('nothing-of-the-kind'), bearer('reader')))
        await server.send(legacy(rpc('tools/list'), bearer('unknown')))
        const about = {
          'network.transport': 'tcp',
          'network.protocol.name': 'http',
          ...(entryPoint.wire && { 'network.protocol.version': '1.1' }),
        }
        const tool = { 'mcp.method.name': 'tools/call', 'gen_ai.operation.name': 'execute_tool' }
        const points = await otel.durations()
        expect(points.map(({ attributes }) => attributes)).to.deep.equal([
          { ...about, 'mcp.method.name': 'tools/list', 'mcp.protocol.version': LEGACY },
          {
            ...about,
            ...tool,
            'mcp.protocol.version': MODERN,
            'mcp.client.name': '_OTHER',
            'gen_ai.tool.name': 'echo',
          },
          {
            ...about,
            ...tool,
            'mcp.protocol.version': LEGACY,
            'gen_ai.tool.name': 'crash',
            'error.type': 'tool_error',
          },
          { ...about, ...tool, 'rpc.response.status_code': '-32602' },
        ])
        for (const { value } of points) {
          expect(value.count).to.equal(1)
          expect(value.sum).to.be.within(0, 5)
          expect(value.buckets.boundaries).to.deep.equal([
            0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60, 120, 300,
          ])
        }
        const [metric] = await otel.metrics()
        expect(metric?.descriptor).to.include({ name: 'mcp.server.operation.duration', unit: 's' })
      })

      it('the duration of a message without a response ends with its request', async () => {
        const before = performance.now()
        const message = { jsonrpc: '2.0', method: 'notifications/initialized' }
        expect((await server.send(legacy(message, bearer('reader')))).status).to.equal(202)
        const elapsedMs = performance.now() - before
        const [point] = await otel.durations()
        expect(point?.attributes).to.include({ 'mcp.method.name': 'notifications/initialized' })
        expect(point?.value.sum).to.be.within(0, elapsedMs / 1000)
      })

      it('no span or event contains a token, of accepted or refused requests', async () => {
        const token = `eyJhbGciOiJub25lIn0.eyJzdWIiOiJ1c2VyLTEyMzQ1In0.${'c2lnbmF0dXJl'.repeat(20)}`
        const refused = 'mF_9.B5f-4.1JqM-refused'
        const verifyToken: VerifyToken = ({ bearerToken, request }) => {
          const fails = request.headers.get('x-verifier')
          if (fails === 'throws') throw new Error(`cannot read ${bearerToken}`)
          if (fails === 'is away')
            throw new VerifierUnavailableError('away', { cause: new Error(`GET /?token=${bearerToken}`) })
          return bearerToken === token ? { valid: true, scopes: ['mcp:read'], clientId: 'c1' } : undefined
        }
        const onVerified = ({ request }: { request: Request }): void => {
          if (request.headers.has('x-hook')) throw new Error(String(request.headers.get('authorization')))
        }
        const options = { oauth: oauth({ verifyToken, onVerified }), recordPayloads: true }
        const leaky = await entryPoint.serve(setup(options))
        try {
          const meta = { traceparent: TRACEPARENT, tracestate: `t=${token}`, baggage: `token=${token}` }
          for (const request of [
            legacy(call('echo', { text: token }), bearer(token)),
            legacy(call(token, { [token]: token }), bearer(token)),
            legacy(rpc(token, { _meta: meta }, token), { ...bearer(token), 'mcp-session-id': token }),
            legacy(rpc('tools/call', { ...ECHO, _meta: meta }), bearer(token)),
            legacy(rpc('resources/read', { uri: `page://${token}` }), bearer(token)),
            legacy(rpc('tools/list'), { ...bearer(token), 'mcp-protocol-version': token }),
            legacy(call('quote', {}, token), bearer(token)),
            legacy(rpc(`${'x'.repeat(100)}${token}`), bearer(token)),
            legacy(call('write'), bearer(token)),
            legacy(call('echo', { text: 'x' }), { ...bearer(token), 'x-hook': '1' }),
            legacy(call('echo'), bearer(refused)),
            legacy(call('echo'), { authorization: `Bearer ${refused} ${refused}` }),
            legacy(call('echo'), { ...bearer(refused), 'x-verifier': 'throws' }),
            legacy(call('echo'), { ...bearer(refused), 'x-verifier': 'is away' }),
          ])
            await leaky.send(request)
        } finally {
          await leaky.close()
        }
        expect(otel.spans).to.have.length(14)
        const recorded = {
          spans: otel.all.map(({ name, attributes, events, links, status, parentSpanContext }) => ({
            name,
            attributes,
            events,
            links,
            status,
            parent: parentSpanContext?.traceState?.serialize(),
          })),
          metrics: await otel.metrics(),
          events: transport.getEvents(),
          logs: logs.getFinishedLogRecords().map(({ attributes, body }) => ({ attributes, body })),
        }
        // The beginnings as well: what is cut must have been erased before.
        expectNoSecret(recorded, [token, refused, ...token.split('.'), token.slice(0, 20), 'c2lnbmF0dXJl'])
        const [thrown, away] = transport.getEvents().slice(-2)
        expect(thrown?.error).to.equal(undefined)
        expect(thrown?.attributes).to.include({ reason: 'invalid', 'error.type': 'Error' })
        expect(away?.error?.stack).to.contain('GET /?token=[token]')
      })
    })
  }

  it('the span covers the whole request, including the verification of the token', async () => {
    let asked = 0
    const verifyToken: VerifyToken = async (input) => {
      asked = Date.now()
      await setTimeout(5)
      return await oauth().verifyToken(input)
    }
    await served({ oauth: oauth({ verifyToken }) }).send(legacy(rpc('tools/list'), bearer('reader')))
    const { startTime, endTime, duration } = onlySpan(otel)
    const ms = ([seconds, nanoseconds]: readonly [number, number]): number =>
      seconds * 1e3 + nanoseconds / 1e6
    expect(ms(startTime)).to.be.at.most(asked)
    expect(ms(endTime)).to.be.at.least(asked + 4)
    const [point] = await otel.durations()
    expect(ms(duration) / 1000).to.be.closeTo(point?.value.sum as number, 1e-6)
  })

  describe('parents', () => {
    it('the parent is the ambient span if _meta has none', async () => {
      const { span: http } = await otel.ambient(() =>
        served().send(legacy(call('echo', ECHO.arguments), bearer('reader'))),
      )
      const span = onlySpan(otel)
      expect(span.parentSpanContext?.spanId).to.equal(http.spanContext().spanId)
      expect(span.links).to.deep.equal([])
    })

    it('the parent of a refused request is the ambient span, whatever is in its body', async () => {
      const request = legacy(rpc('tools/list', { _meta: { traceparent: TRACEPARENT } }))
      const { span: http } = await otel.ambient(() => served().send(request))
      expect(onlySpan(otel).parentSpanContext?.spanId).to.equal(http.spanContext().spanId)
    })

    it('the parent is the span in _meta, and the ambient span is linked', async () => {
      const request = legacy(rpc('tools/list', { _meta: { traceparent: TRACEPARENT } }), bearer('reader'))
      const { span: http } = await otel.ambient(() => served().send(request))
      const span = onlySpan(otel)
      expect(span.parentSpanContext).to.include({ traceId: TRACE, spanId: PARENT })
      expect(span.links.map((link) => link.context)).to.deep.equal([http.spanContext()])
    })

    it('a span has no parent if neither exists', async () => {
      await served().send(legacy(rpc('tools/list'), bearer('reader')))
      expect(onlySpan(otel).parentSpanContext).to.equal(undefined)
    })

    for (const [title, meta] of Object.entries<unknown>({
      'no object': 'traceparent',
      'an array': [TRACEPARENT],
      null: null,
      'a number': { traceparent: 5 },
      'an object': { traceparent: { toString: TRACEPARENT } },
      'an array of one': { traceparent: [TRACEPARENT] },
      'the empty text': { traceparent: '' },
      'upper case': { traceparent: TRACEPARENT.toUpperCase() },
      'no trace': { traceparent: `00-${'0'.repeat(32)}-${PARENT}-01` },
      'no span': { traceparent: `00-${TRACE}-${'0'.repeat(16)}-01` },
      'version ff': { traceparent: `ff-${TRACE}-${PARENT}-01` },
      'more than version 00 has': { traceparent: `${TRACEPARENT}-more` },
      'a text around it': { traceparent: `x${TRACEPARENT}` },
      'too short an id': { traceparent: `00-${TRACE.slice(1)}-${PARENT}-01` },
      'a text without end': { traceparent: `${TRACEPARENT}-${'x'.repeat(1_000_000)}` },
    })) {
      it(`a traceparent that is ${title} is ignored`, async () => {
        const params = { ...ECHO, _meta: meta }
        const { result, span: http } = await otel.ambient(() =>
          served().send(legacy(rpc('tools/call', params), bearer('reader'))),
        )
        expect(result.status).to.be.oneOf([200, 400])
        const span = onlySpan(otel)
        expect(span.parentSpanContext?.spanId).to.equal(http.spanContext().spanId)
        expect(span.links).to.deep.equal([])
      })
    }

    it('a traceparent of a later version with further fields is accepted', async () => {
      const meta = { traceparent: `01-${TRACE}-${PARENT}-01-more` }
      await served().send(legacy(rpc('tools/list', { _meta: meta }), bearer('reader')))
      expect(onlySpan(otel).parentSpanContext?.spanId).to.equal(PARENT)
    })

    it('any _meta gets the same response and a span', async () => {
      const adapter = served()
      const plain = web(createMcpAdapter({ router }).server)
      const texts = fc.oneof(fc.string(), fc.constantFrom(TRACEPARENT, 'a=b;c,d=%zz,=,e', '__proto__=x'))
      const metas = fc.oneof(
        fc.dictionary(fc.constantFrom('traceparent', 'tracestate', 'baggage', '__proto__', 'x'), texts),
        fc.jsonValue(),
      )
      await fc.assert(
        fc.asyncProperty(metas, async (meta) => {
          const body = JSON.stringify(rpc('tools/call', { name: 'none', _meta: 0 })).replace(
            '"_meta":0',
            `"_meta":${JSON.stringify(meta)}`,
          )
          const expected = await plain.send(legacy(body))
          otel.clear()
          const answer = await adapter.send(legacy(body, bearer('reader')))
          expect(answer.text).to.equal(expected.text)
          expect(otel.spans).to.have.length(1)
        }),
        { numRuns: runs(100) },
      )
    })

    it('_meta is read by the propagators of the application, if there are any', async () => {
      const seen: string[] = []
      propagation.setGlobalPropagator({
        inject: () => undefined,
        fields: () => ['x-trace', 'traceparent'],
        extract: (active, carrier, getter) => {
          seen.push(...getter.keys(carrier), String(getter.get(carrier, 'x-trace')))
          const read = propagation.setBaggage(active, propagation.createBaggage({ a: { value: 'b' } }))
          return trace.setSpanContext(read, { traceId: TRACE, spanId: PARENT, traceFlags: 1 })
        },
      })
      const meta = { 'x-trace': 'of mine', traceparent: 'none', baggage: 'a=b' }
      const { message } = await served().send(
        legacy(rpc('tools/call', { ...ECHO, _meta: meta }), bearer('reader')),
      )
      expect(seen).to.deep.equal(['x-trace', 'traceparent', 'baggage', 'of mine'])
      expect(onlySpan(otel).parentSpanContext?.spanId).to.equal(PARENT)
      expect(JSON.parse(message.result.content[0].text).baggage).to.deep.equal([['a', { value: 'b' }]])
    })
  })

  describe('what becomes of a message', () => {
    it('a JSON-RPC error is recorded on the span', async () => {
      for (const { era, request } of ERAS) {
        otel.clear()
        await served().send(request('tools/call', { name: 'none' }, bearer('reader')))
        const span = onlySpan(otel)
        expect(span.name, era).to.equal('tools/call')
        expect(span.attributes).to.include({
          'gen_ai.tool.name': 'none',
          'rpc.response.status_code': '-32602',
        })
        expect(span.attributes).not.to.have.property('error.type')
        expect(span.status).to.deep.equal({ code: SpanStatusCode.UNSET })
        expect(named('kit.mcp.request.completed')?.attributes).to.include({
          'rpc.response.status_code': '-32602',
        })
      }
    })

    it('a failed tool is recorded on the span', async () => {
      await served().send(legacy(call('crash'), bearer('reader')))
      const span = onlySpan(otel)
      expect(span.name).to.equal('tools/call crash')
      expect(span.attributes).to.include({ 'error.type': 'tool_error' })
      expect(span.attributes).not.to.have.property('rpc.response.status_code')
      expect(span.status).to.deep.equal({ code: SpanStatusCode.ERROR })
    })

    for (const [title, name, type, request] of [
      ['an unknown method, of which there may be many', 'MCP POST', '-32601', legacy(rpc('x/y'))],
      ['an unknown method of 2026-07-28', 'MCP POST', '-32601', modern('x/y')],
      ['a body that is no JSON', 'MCP POST', '-32700', legacy('{')],
      [
        'a header that differs from the body',
        'tools/list',
        '-32020',
        modern('tools/list', {}, { 'mcp-method': 'x' }),
      ],
      ['another content type', 'MCP POST', '-32000', legacy('x', { 'content-type': 'text/plain' })],
      ['PUT', 'MCP', '-32000', { method: 'PUT' }],
      ['DELETE', 'MCP DELETE', '-32000', { method: 'DELETE' }],
    ] as const) {
      it(`${title} is recorded on the span`, async () => {
        const { headers = {} }: WireRequest = request
        await served().send({ ...request, headers: { ...headers, ...bearer('reader') } })
        const span = onlySpan(otel)
        expect(span.name).to.equal(name)
        expect(span.attributes['rpc.response.status_code']).to.equal(type)
        // By the conventions, these codes are mistakes of the client.
        const isMistake = ['-32601', '-32700'].includes(type)
        expect(span.attributes['error.type']).to.equal(isMistake ? undefined : type)
        expect(span.status.code).to.equal(isMistake ? SpanStatusCode.UNSET : SpanStatusCode.ERROR)
        for (const { attributes } of await otel.durations())
          expect(attributes['mcp.method.name']).to.be.oneOf(['_OTHER', 'tools/list'])
      })
    }

    it('a notification is recorded on a span without an id', async () => {
      const { status } = await served().send(
        legacy({ jsonrpc: '2.0', method: 'notifications/initialized' }, bearer('reader')),
      )
      expect(status).to.equal(202)
      const span = onlySpan(otel)
      expect(span.name).to.equal('notifications/initialized')
      expect(span.attributes).not.to.have.any.keys(
        'jsonrpc.request.id',
        'error.type',
        'gen_ai.operation.name',
      )
    })

    it('another JSON-RPC version is recorded on the span', async () => {
      await served().send(legacy({ ...rpc('tools/list'), jsonrpc: '1.0' }, bearer('reader')))
      expect(onlySpan(otel).attributes).to.include({ 'jsonrpc.protocol.version': '1.0' })
    })

    it('each message of a batch has a span with its own parent', async () => {
      const message = (id: number, name: string, span: string) =>
        rpc('tools/call', { ...ECHO, name, _meta: { traceparent: `00-${TRACE}-${span}-01` } }, id)
      const batch = [
        message(1, 'echo', '1'.repeat(16)),
        message(2, 'crash', '2'.repeat(16)),
        message(3, 'echo', '3'.repeat(16)),
        { jsonrpc: '2.0', method: 'notifications/initialized' },
      ]
      await served().send(legacy(batch, { ...bearer('reader'), 'mcp-protocol-version': undefined }))
      const spans = otel.spans
      expect(
        spans.map(({ name, parentSpanContext, attributes }) => [
          name,
          parentSpanContext?.spanId,
          attributes['error.type'],
        ]),
      ).to.deep.equal([
        ['tools/call echo', '1'.repeat(16), undefined],
        ['tools/call crash', '2'.repeat(16), 'tool_error'],
        ['tools/call echo', '3'.repeat(16), undefined],
        ['notifications/initialized', undefined, undefined],
      ])
      const [echo, crash] = spans.map((span) => span.spanContext().spanId)
      const work = otel.all.filter(({ name }) => name === 'work')
      expect(work[0]?.parentSpanContext?.spanId).to.equal(echo)
      const failed = logs.getFinishedLogRecords().find(({ eventName }) => eventName === 'kit.mcp.tool.failed')
      expect(failed?.spanContext?.spanId).to.equal(crash)
    })

    it('the span of a stream ends with the stream', async () => {
      const aborted = signalled()
      const streaming = KitMcpRouter.create().tool('stream', { description: 'x' }, async (_args, context) => {
        await context.progress(1)
        await once(context.signal, 'abort')
        aborted.resolve()
      })
      const { server } = createMcpAdapter({ router: streaming, telemetry: manager })
      const { headers, body } = legacy(rpc('tools/call', { name: 'stream', _meta: { progressToken: 1 } }))
      const init = { method: 'POST', headers: headers as Record<string, string>, body: body as string }
      const response = await server(new Request('http://localhost/mcp', init))
      const reader = response.body?.getReader()
      await reader?.read()
      expect(otel.spans).to.have.length(0)
      await reader?.cancel()
      await aborted.promise
      expect(onlySpan(otel).name).to.equal('tools/call stream')
    })

    it('the event stream of a 2025 client has a span', async () => {
      const { server } = createMcpAdapter(setup())
      const headers = { ...bearer('reader'), accept: 'text/event-stream' }
      const response = await server(new Request('http://localhost/mcp', { headers }))
      expect(otel.spans).to.have.length(0)
      await response.body?.cancel()
      expect(onlySpan(otel).name).to.equal('MCP GET')
      expect(await otel.durations()).to.deep.equal([])
    })
  })

  describe('a server of the official SDK', () => {
    for (const { era, request } of ERAS) {
      it(`responses of a server of the SDK are recorded (${era})`, async () => {
        const adapter = served({ router: existing })
        const tools: [string, object, string, string | undefined][] = [
          ['tools/call', { name: 'greet', arguments: { text: 'hi' } }, 'tools/call greet', undefined],
          ['tools/call', { name: 'greet', arguments: { text: 'fail' } }, 'tools/call greet', 'tool_error'],
          ['prompts/get', { name: 'hello' }, 'prompts/get hello', undefined],
          ['prompts/get', { name: 'none' }, 'prompts/get', undefined],
          ['resources/read', { uri: 'page://one' }, 'resources/read', undefined],
        ]
        for (const [method, params, name, error] of tools) {
          otel.clear()
          const { uri } = params as { uri?: string }
          await adapter.send(
            request(method, params, { ...bearer('reader'), ...(uri && { 'mcp-name': uri }) }),
          )
          const span = onlySpan(otel)
          expect(span.name).to.equal(name)
          expect(span.attributes['error.type']).to.equal(error)
          expect(span.attributes['gen_ai.operation.name']).to.equal(
            method === 'tools/call' ? 'execute_tool' : undefined,
          )
          expect(span.attributes['mcp.resource.uri']).to.equal(uri)
          expect(span.attributes['gen_ai.prompt.name']).to.equal(
            method === 'prompts/get' ? (params as { name: string }).name : undefined,
          )
        }
        const events = transport.getEvents().filter(({ name }) => name.startsWith('kit.mcp.tool.'))
        expect(events.map(({ name, level }) => `${name} ${level}`)).to.deep.equal([
          'kit.mcp.tool.completed info',
          'kit.mcp.tool.failed error',
        ])
        expect(events[0]?.attributes).to.include({ 'gen_ai.tool.name': 'greet', 'jsonrpc.request.id': '1' })
        expect(events[1]?.attributes).to.include({ 'error.type': 'tool_error' })
      })
    }

    it('a server of the SDK that serves several requests is recorded for each', async () => {
      const one = (existing as () => McpServer)()
      const adapter = served({ router: () => one })
      const connect = async (): Promise<unknown> => {
        otel.clear()
        transport.clear()
        await adapter.send(
          legacy(rpc('tools/call', { name: 'greet', arguments: { text: 'x' } }), bearer('reader')),
        )
        return one.connect
      }
      const first = await connect()
      expect(await connect()).to.equal(first)
      expect(onlySpan(otel).name).to.equal('tools/call greet')
      expect(transport.getEvents().filter(({ name }) => name === 'kit.mcp.tool.completed')).to.have.length(1)
    })
  })

  describe('recordPayloads', () => {
    const SENT = { text: 'x', deep: [{ password: 'hunter2-hunter2' }] }
    const open = KitMcpRouter.create()
      .tool('open', { description: 'x', input: z.object({}).loose() }, () => ({
        password: 'hunter2-hunter2',
        ok: 1,
      }))
      .tool('text', { description: 'x', output: z.object({ ok: z.number() }) }, () => ({ ok: 1 }))

    it('without recordPayloads, neither arguments nor results are recorded', async () => {
      await served({ router: open }).send(legacy(call('open', SENT), bearer('reader')))
      expectNoSecret([onlySpan(otel).attributes, transport.getEvents()], ['hunter2-hunter2', '"ok"'])
    })

    for (const [title, made] of [
      ['the typed router', open],
      ['a server of the official SDK', existing],
    ] as const) {
      it(`recordPayloads records both, redacted, in event and span of ${title}`, async () => {
        const adapter = served({ router: made, recordPayloads: true })
        const name = made === open ? 'open' : 'greet'
        await adapter.send(legacy(call(name, SENT), bearer('reader')))
        const { attributes } = onlySpan(otel)
        const event = named('kit.mcp.tool.completed')?.attributes as Record<string, unknown>
        const args = { text: 'x', deep: [{}] }
        const result = [{ type: 'text', text: made === open ? '{"password":"hunter2-hunter2","ok":1}' : 'x' }]
        expect(event['gen_ai.tool.call.arguments']).to.deep.equal(args)
        expect(event['gen_ai.tool.call.result']).to.deep.equal(result)
        expect(JSON.parse(String(attributes['gen_ai.tool.call.arguments']))).to.deep.equal(args)
        expect(JSON.parse(String(attributes['gen_ai.tool.call.result']))).to.deep.equal(result)
      })
    }

    it('recordPayloads records structured content if there is any, and no result of a failure', async () => {
      const adapter = served({ router: open, recordPayloads: true })
      await adapter.send(legacy(call('text'), bearer('reader')))
      expect(onlySpan(otel).attributes).to.include({ 'gen_ai.tool.call.result': '{"ok":1}' })
      otel.clear()
      await served({ recordPayloads: true }).send(legacy(call('crash', { a: 1 }), bearer('reader')))
      const { attributes } = onlySpan(otel)
      expect(attributes).to.include({ 'gen_ai.tool.call.arguments': '{"a":1}' })
      expect(attributes).not.to.have.property('gen_ai.tool.call.result')
      expect(named('kit.mcp.tool.failed')?.attributes).to.deep.include({
        'gen_ai.tool.call.arguments': { a: 1 },
      })
    })

    it('recordPayloads shortens long values on a span', async () => {
      const text = 'y'.repeat(100_000)
      await served({ recordPayloads: true }).send(legacy(call('echo', { text }), bearer('reader')))
      const { attributes } = onlySpan(otel)
      expect(String(attributes['gen_ai.tool.call.arguments']).length).to.be.at.most(16_384)
    })
  })

  describe('where less is there', () => {
    const request = legacy(call('echo', { text: 'x' }), bearer('reader'))

    it('without telemetry, the span and the duration are the same, and no event is emitted', async () => {
      const record = async (telemetry: typeof manager | undefined) => {
        otel.clear()
        const { message } = await served({ telemetry }).send(request)
        expect(message.result.isError).to.equal(undefined)
        const { name, attributes, status, kind, parentSpanContext } = onlySpan(otel)
        return { name, attributes, status, kind, parent: parentSpanContext?.spanId }
      }
      const without = await record(undefined)
      expect(await otel.durations()).to.have.length(1)
      expect(transport.getEvents().map(({ name }) => name)).to.deep.equal(['notes.read'])
      transport.clear()
      expect(without).to.deep.equal(await record(manager))
      expect(transport.getEvents()).to.have.length(4)
    })

    it('without telemetry, handlers get no session, and spans no arguments, because no manager could redact them', async () => {
      const router = KitMcpRouter.create().tool('session', { description: 'x' }, (_args, { session }) =>
        String(session),
      )
      const { message } = await served({ router, telemetry: undefined, recordPayloads: true }).send(
        legacy(call('session'), bearer('reader')),
      )
      expect(message.result.content).to.deep.equal([{ type: 'text', text: 'undefined' }])
      expect(onlySpan(otel).attributes).to.not.have.any.keys(
        'gen_ai.tool.call.arguments',
        'gen_ai.tool.call.result',
      )
    })

    const REGISTER = "globalThis[Symbol.for('opentelemetry.js.api.1')] = { version: '1.9.0' }"
    const HIDE = 'register(hooks)'
    for (const [title, builds, loaded, before] of [
      ['a server does not load OpenTelemetry if nothing is registered with it', '', false, ''],
      [
        'a server with telemetry does not load OpenTelemetry if nothing is registered with it',
        'telemetry',
        false,
        '',
      ],
      ['a server loads only the API of OpenTelemetry if something is registered with it', '', true, REGISTER],
      [
        'a server serves requests if the API of OpenTelemetry is not installed',
        'telemetry',
        false,
        `${HIDE}; ${REGISTER}`,
      ],
    ] as const) {
      it(title, async () => {
        const program = `
          import { createRequire, register } from 'node:module'
          const hooks = 'data:text/javascript,' + encodeURIComponent(\`export async function resolve(name, context, next) {
            if (!name.startsWith('@opentelemetry/')) return await next(name, context)
            throw Object.assign(new Error('not installed'), { code: 'ERR_MODULE_NOT_FOUND' })
          }\`)
          ${before}
          const { createMcpAdapter, KitMcpRouter, KitTelemetry, InMemoryTransportAdapter } = await import(${JSON.stringify(INDEX)})
          const router = KitMcpRouter.create().tool('echo', { description: 'x' }, () => 'x')
          const transport = InMemoryTransportAdapter.create()
          const telemetry = KitTelemetry.create().withLogger(false).withSampling({ infoRate: 1 }).addTransport(transport).build()
          const { server } = createMcpAdapter({ router, ${builds} })
          const body = JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'tools/call', params: { name: 'echo' } })
          const headers = { 'content-type': 'application/json' }
          const response = await server(new Request('http://localhost/mcp', { method: 'POST', headers, body }))
          await response.text()
          const modules = Object.keys(createRequire(${JSON.stringify(INDEX)}).cache)
          const packages = modules.map((path) => /@opentelemetry.([^\\/\\\\]+)/.exec(path)?.[1]).filter((name) => name !== undefined)
          const events = transport.getEvents().length
          console.log(JSON.stringify({ status: response.status, packages: [...new Set(packages)], events }))
        `
        const { stdout } = await run(process.execPath, ['--input-type=module', '--eval', program])
        expect(JSON.parse(stdout)).to.deep.equal({
          status: 200,
          packages: loaded ? ['api'] : [],
          events: builds === '' ? 0 : 2,
        })
      })
    }

    it('a request that mcpAuth accepts and another server serves has a span', async () => {
      const ended = signalled()
      const adapter = createMcpAdapter(setup())
      const listening = await onExpress(mcpAuth(adapter), (_req, res) => {
        res.once('close', () => setImmediate(ended.resolve))
        res.statusCode = 418
        res.end('tea')
      })
      try {
        await listening.send(request)
        await ended.promise
      } finally {
        await listening.close()
      }
      expect(onlySpan(otel).attributes).to.include({ 'http.response.status_code': 418, 'error.type': '418' })
    })

    it('events are emitted without a provider, and a provider that is registered later is used', async () => {
      Otel.unregister()
      const adapter = served()
      expect((await adapter.send(request)).status).to.equal(200)
      expect(transport.getEvents()).to.have.length(4)
      expect(logs.getFinishedLogRecords()[0]?.spanContext).to.equal(undefined)
      expect(otel.spans).to.deep.equal([])
      const later = new Otel().register()
      await adapter.send(request)
      expect(later.spans).to.have.length(1)
      expect(await later.durations()).to.have.length(1)
      Otel.unregister()
      otel.register()
      await adapter.send(request)
      expect(later.spans).to.have.length(1)
      expect(otel.spans).to.have.length(1)
    })

    it('durations are measured without a tracer, and spans are created without a meter', async () => {
      const adapter = served()
      trace.disable()
      await adapter.send(request)
      expect(otel.spans).to.deep.equal([])
      expect(await otel.durations()).to.have.length(1)
      Otel.unregister()
      const tracing = new Otel()
      trace.setGlobalTracerProvider(tracing.tracers)
      await adapter.send(request)
      expect(tracing.spans).to.have.length(1)
      expect(await tracing.durations()).to.deep.equal([])
    })

    it('the decision not to sample is passed on', async () => {
      Otel.unregister()
      const unsampled = new Otel(new AlwaysOffSampler()).register()
      await served().send(request)
      expect(unsampled.all).to.deep.equal([])
      const [record] = logs.getFinishedLogRecords()
      expect(record?.spanContext?.traceFlags).to.equal(0)
      expect(record?.spanContext?.spanId).to.have.length(16)
    })
  })

  describe('tracing never changes a response', () => {
    const fail = (): never => {
      throw new Error('tracing is broken')
    }
    const working = () => new Otel().tracers.getTracer('x').startSpan('x')
    for (const [title, break_] of Object.entries<() => void>({
      'has a tracer provider that throws': () => trace.setGlobalTracerProvider({ getTracer: fail }),
      'has a tracer that throws': () =>
        trace.setGlobalTracerProvider({ getTracer: () => ({ startSpan: fail, startActiveSpan: fail }) }),
      'has spans that throw': () =>
        trace.setGlobalTracerProvider({
          getTracer: () => ({
            startSpan: () =>
              new Proxy(working(), { get: (_span, key) => (key === 'then' ? undefined : fail()) }),
            startActiveSpan: fail,
          }),
        }),
      'has a context manager that throws': () => {
        const contexts = { active: fail, with: fail, bind: fail, enable: fail, disable: () => contexts }
        context.setGlobalContextManager(contexts as never)
      },
      'has a context manager that runs nothing': () => {
        const manager = new Otel()
        const contexts = { active: () => ({}), with: () => undefined, disable: () => contexts }
        context.setGlobalContextManager(contexts as never)
        trace.setGlobalTracerProvider(manager.tracers)
      },
      'has a propagator that throws': () =>
        propagation.setGlobalPropagator({ inject: fail, extract: fail, fields: fail }),
    })) {
      it(`a response does not change if the application ${title}`, async () => {
        const meta = { traceparent: TRACEPARENT }
        const requests = [
          legacy(rpc('tools/list', { _meta: meta }), bearer('reader')),
          legacy(rpc('tools/list', { _meta: meta })),
          legacy([rpc('tools/list', {}, 1), rpc('ping', {}, 2)], {
            ...bearer('reader'),
            'mcp-protocol-version': undefined,
          }),
          modern('x/y', {}, bearer('reader')),
        ]
        const answers = async (telemetry: typeof manager | undefined) => {
          const adapter = served({ telemetry })
          const all = await Promise.all(requests.map(async (request) => await adapter.send(request)))
          return all.map(({ status, text }) => ({ status, text }))
        }
        Otel.unregister()
        const expected = await answers(undefined)
        break_()
        expect(await answers(manager)).to.deep.equal(expected)
        expect(await answers(undefined)).to.deep.equal(expected)
        expect(transport.getEvents().length).to.be.greaterThan(3)
      })
    }
  })
})
