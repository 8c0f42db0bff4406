import { ProtocolError } from '@modelcontextprotocol/server'
import { SpanKind, SpanStatusCode } from '@opentelemetry/api'
import type { DataPoint, Histogram, MetricData } from '@opentelemetry/sdk-metrics'
import type { ReadableSpan } from '@opentelemetry/sdk-trace-base'
import { expect } from 'chai'
import { KitMcpRouter } from '../../../src/mcp/router/router.ts'
import { ENTRY_POINTS, type Served, type Setup } from '../../support/mcp/entry-points.ts'
import { oauth } from '../../support/mcp/notes.ts'
import { Otel } from '../../support/mcp/otel.ts'
import { bearer, beginSession, LEGACY, legacy, modern, rpc } from '../../support/mcp/wire.ts'

/** `docs/gen-ai/mcp.md` and `model/mcp` of open-telemetry/semantic-conventions-genai, read in November 2026. */
const BUCKETS = [0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60, 120, 300]

const METRICS = [
  {
    name: 'mcp.server.operation.duration',
    unit: 's',
    description:
      'MCP request or notification duration as observed on the receiver from the time it was received until the result or ack is sent.',
    boundaries: BUCKETS,
    allowed: [
      'mcp.method.name',
      'error.type',
      'gen_ai.prompt.name',
      'gen_ai.tool.name',
      'rpc.response.status_code',
      'gen_ai.operation.name',
      'jsonrpc.protocol.version',
      'mcp.protocol.version',
      // Not part of the conventions.
      'mcp.client.name',
      'network.protocol.name',
      'network.protocol.version',
      'network.transport',
    ],
  },
  {
    name: 'mcp.server.session.duration',
    unit: 's',
    description: 'The duration of the MCP session as observed on the MCP server.',
    boundaries: BUCKETS,
    allowed: [
      'mcp.protocol.version',
      // Not part of the conventions.
      'mcp.client.name',
      'network.protocol.name',
      'network.transport',
      'error.type',
    ],
  },
  // Not part of the conventions.
  {
    name: 'kit.mcp.auth.refused',
    unit: '{request}',
    description: 'The number of requests that the gate has refused, by reason.',
    boundaries: undefined,
    allowed: ['kit.mcp.auth.refused.reason'],
  },
  {
    name: 'kit.mcp.limit.reached',
    unit: '{call}',
    description: 'The number of tool calls that have reached a limit, by limit and tool.',
    boundaries: undefined,
    allowed: ['limit', 'gen_ai.tool.name'],
  },
] as const

/**
 * The JSON-RPC codes that the conventions do not count as errors of a server, and others. -32002 is missing, because the SDK
 * sends -32602 in its place.
 */
const CODES = [
  { code: -32700, isError: false },
  { code: -32600, isError: false },
  { code: -32601, isError: false },
  { code: -32602, isError: false },
  { code: -32603, isError: true },
  { code: -32000, isError: true },
  { code: -32001, isError: true },
  { code: -32099, isError: true },
  { code: 1, isError: true },
] as const

const router = KitMcpRouter.create()
  .tool('echo', { description: 'x' }, () => 'x')
  .tool('write', { description: 'x', scopes: ['mcp:write'] }, () => 'x')
  .tool('limited', { description: 'x', limits: { maxResultBytes: 60 } }, () => 'x'.repeat(100))
  .prompt('hello', { description: 'x' }, () => 'x')
  .resource('page', { uri: 'x://page' }, (_variables, { request }) => {
    const code = Number(request.headers.get('x-code'))
    if (code !== 0) throw new ProtocolError(code, 'mistake')
    return 'x'
  })

const setup: Setup = { router, oauth: oauth(), sessions: true }
const onlySpan = (otel: Otel): ReadableSpan => {
  expect(otel.spans).to.have.length(1)
  return otel.spans[0] as ReadableSpan
}

describe('the semantic conventions for MCP', () => {
  let otel: Otel
  let served: Served | undefined
  const serve = async (name: string, options: Partial<Setup> = {}): Promise<Served> => {
    const entryPoint = ENTRY_POINTS.find((one) => one.name === name)
    served = await entryPoint?.serve({ ...setup, ...options })
    return served as Served
  }
  beforeEach(() => {
    otel = new Otel().register()
  })
  afterEach(async () => {
    await served?.close()
    Otel.unregister()
  })

  describe('metrics', () => {
    let metrics: MetricData[]
    beforeEach(async () => {
      const { send } = await serve('mcpHandler on Express')
      const headers = { ...bearer('reader'), ...(await beginSession({ send }, bearer('reader'))) }
      await send({ method: 'DELETE', headers: { ...headers, 'mcp-protocol-version': LEGACY } })
      await send(modern('tools/call', { name: 'echo' }, bearer('reader')))
      await send(modern('prompts/get', { name: 'hello' }, bearer('reader')))
      await send(modern('tools/call', { name: 'limited' }, bearer('reader')))
      await send(modern('tools/call', { name: 'none' }, bearer('reader')))
      await send(modern('tools/call', { name: 'echo' }))
      metrics = await otel.metrics()
    })

    it('no other metric is recorded', () => {
      expect(metrics.map(({ descriptor }) => descriptor.name)).to.have.members(
        METRICS.map(({ name }) => name),
      )
    })

    for (const { name, unit, description, boundaries, allowed } of METRICS) {
      it(`${name} has the unit, the description, the buckets, and the attributes of the conventions`, () => {
        const metric = metrics.find(({ descriptor }) => descriptor.name === name)
        expect(metric?.descriptor).to.include({ name, unit, description })
        const points = metric?.dataPoints as DataPoint<Histogram>[]
        expect(points).to.have.length.above(0)
        for (const { attributes, value } of points) {
          expect(
            Object.keys(attributes).filter((key) => !(allowed as readonly string[]).includes(key)),
          ).to.deep.equal([])
          if (boundaries !== undefined) expect(value.buckets.boundaries).to.deep.equal(boundaries)
        }
      })
    }
  })

  for (const { code, isError } of CODES) {
    it(`the JSON-RPC code ${code} ${isError ? 'is' : 'is not'} an error of the server`, async () => {
      const { send } = await serve('server of createMcpAdapter', { sessions: false })
      await send(
        legacy(rpc('resources/read', { uri: 'x://page' }), { ...bearer('reader'), 'x-code': String(code) }),
      )
      const span = onlySpan(otel)
      expect(span.attributes['rpc.response.status_code']).to.equal(String(code))
      expect(span.attributes['error.type']).to.equal(isError ? String(code) : undefined)
      expect(span.status).to.deep.equal(
        isError ? { code: SpanStatusCode.ERROR, message: 'mistake' } : { code: SpanStatusCode.UNSET },
      )
      const [point] = await otel.durations()
      expect(point?.attributes['error.type']).to.equal(isError ? String(code) : undefined)
      expect(point?.attributes['rpc.response.status_code']).to.equal(String(code))
    })
  }

  for (const { name, auth } of ENTRY_POINTS) {
    it(`the span of a refused request has the method of its header with ${name}`, async () => {
      const { send } = await serve(name)
      for (const [headers, reason] of [
        [{}, 'missing'],
        [bearer('unknown'), 'invalid'],
        ...(auth ? ([[bearer('stranger'), 'insufficient_scope']] as const) : []),
      ] as const) {
        otel.clear()
        await send(modern('tools/call', { name: 'echo' }, headers))
        const span = onlySpan(otel)
        expect(span.name).to.match(/^tools\/call/)
        expect(span.kind).to.equal(SpanKind.SERVER)
        expect(span.attributes).to.include({
          'mcp.method.name': 'tools/call',
          'kit.mcp.auth.refused.reason': reason,
        })
        if (reason !== 'insufficient_scope')
          expect(span.attributes).not.to.have.any.keys('gen_ai.tool.name', 'mcp.protocol.version')
      }
    })

    it(`the span of a refused request does not have another header of the client with ${name}`, async () => {
      const { send } = await serve(name)
      await send(modern('tools/call', { name: 'echo' }, { ...bearer('unknown'), 'mcp-method': 'unknown' }))
      const span = onlySpan(otel)
      expect(span.name).to.equal('MCP POST')
      expect(span.attributes).not.to.have.property('mcp.method.name')
      expect(await otel.durations()).to.deep.equal([])
    })
  }

  for (const [recordClientAddress, expected] of [
    [undefined, undefined],
    [false, undefined],
    [true, '127.0.0.1'],
  ] as const) {
    it(`the address of the client is ${expected === undefined ? 'not ' : ''}recorded on the span with recordClientAddress ${recordClientAddress}`, async () => {
      const { send } = await serve('mcpHandler on node:http', { recordClientAddress })
      await send(modern('tools/call', { name: 'echo' }, bearer('reader')))
      expect(onlySpan(otel).attributes['client.address']).to.equal(expected)
      const [point] = await otel.durations()
      expect(point?.attributes).not.to.have.property('client.address')
    })
  }

  it('the address of the client is not recorded for a web-standard request', async () => {
    const { send } = await serve('server of createMcpAdapter', { recordClientAddress: true })
    await send(modern('tools/list', {}, bearer('reader')))
    expect(onlySpan(otel).attributes).not.to.have.property('client.address')
  })
})
