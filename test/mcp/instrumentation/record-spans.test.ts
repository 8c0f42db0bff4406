import { context, propagation, ROOT_CONTEXT, type Span, type SpanContext, trace } from '@opentelemetry/api'
import { expect } from 'chai'
import express from 'express'
import { KitMcpRouter, type McpAuthOptions, mcpAuth } from '../../../src/index.ts'
import { InMemoryTransportAdapter, KitTelemetry } from '../../../src/telemetry/index.ts'
import { listen } from '../../support/listen.ts'
import { ENTRY_POINTS, type Served, type Setup } from '../../support/mcp/entry-points.ts'
import { oauth } from '../../support/mcp/notes.ts'
import { Otel } from '../../support/mcp/otel.ts'
import { TaskClient, WITH_TASKS } from '../../support/mcp/tasks.ts'
import { bearer, modern } from '../../support/mcp/wire.ts'

const CALLER: SpanContext = { traceId: '1'.repeat(32), spanId: '2'.repeat(16), traceFlags: 1 }
const _meta = { traceparent: `00-${CALLER.traceId}-${CALLER.spanId}-01`, baggage: 'tenant=acme' }

interface Seen {
  readonly span: SpanContext | undefined
  readonly baggage: string | undefined
}

/** The context in which the handler of the tool has run. */
let seen: Seen | undefined
const note = () => {
  seen = {
    span: trace.getSpan(context.active())?.spanContext(),
    baggage: propagation.getActiveBaggage()?.getEntry('tenant')?.value,
  }
  return 'x'
}

const router = KitMcpRouter.create()
  .tool('note', { description: 'x' }, async () => {
    await null
    return note()
  })
  .tool('slow', { description: 'x', task: 'required' }, note)

const events = InMemoryTransportAdapter.create()
const telemetry = KitTelemetry.create()
  .withSampling({ debugRate: 1, infoRate: 1 })
  .addTransport(events)
  .build()

describe('recordSpans: false', () => {
  let otel: Otel
  let served: Served | undefined
  beforeEach(() => {
    otel = new Otel().register()
    propagation.setGlobalPropagator({
      inject: () => undefined,
      fields: () => ['baggage'],
      extract: (active, carrier, getter) => {
        const [, value] = /^tenant=(.*)$/.exec(String(getter.get(carrier, 'baggage'))) ?? []
        return value === undefined
          ? active
          : propagation.setBaggage(active, propagation.createBaggage({ tenant: { value } }))
      },
    })
    seen = undefined
    events.clear()
  })
  afterEach(async () => {
    await served?.close()
    Otel.unregister()
  })

  const setup: Setup = { router, telemetry, oauth: oauth(), recordSpans: false }
  const call = (meta: object = {}) =>
    modern('tools/call', { name: 'note', arguments: {}, _meta: meta }, bearer('reader'))

  for (const face of ENTRY_POINTS) {
    it(`${face.name}: handlers run in the trace of the caller, and no span is recorded`, async () => {
      served = await face.serve(setup)
      expect((await served.send(call(_meta))).status).to.equal(200)
      expect(seen?.span).to.include({ ...CALLER, isRemote: true })
      expect(seen?.baggage).to.equal('acme')
      expect(otel.all).to.deep.equal([])
    })
  }

  /** Sends a call within a span that another instrumentation has begun. */
  async function callWithin(span: Span, meta: object): Promise<void> {
    served = await ENTRY_POINTS.find(({ wire }) => !wire)?.serve(setup)
    await context.with(trace.setSpan(ROOT_CONTEXT, span), () => served?.send(call(meta)))
  }

  it('a span of another instrumentation stays the parent, and the baggage of the caller is passed on', async () => {
    const span = otel.tracers.getTracer('http').startSpan('POST')
    await callWithin(span, _meta)
    span.end()
    expect(seen?.span).to.equal(span.spanContext())
    expect(seen?.baggage).to.equal('acme')
    expect(otel.all.map(({ name }) => name)).to.deep.equal(['POST'])
  })

  it('the trace of an HTTP header alone does not replace that of the caller', async () => {
    const remote = trace.wrapSpanContext({ ...CALLER, spanId: '3'.repeat(16), isRemote: true })
    await callWithin(remote, _meta)
    expect(seen?.span?.spanId).to.equal(CALLER.spanId)
    await callWithin(remote, {})
    expect(seen?.span?.spanId).to.equal('3'.repeat(16))
  })

  it('a caller without a trace leaves handlers without a span', async () => {
    served = await ENTRY_POINTS[1]?.serve(setup)
    await served?.send(call())
    expect(seen).to.deep.equal({ span: undefined, baggage: undefined })
  })

  it('metrics and events do not change, and a task has no span', async () => {
    served = (await ENTRY_POINTS[1]?.serve(setup)) as Served
    await served.send(call())
    const client = new TaskClient(served, bearer('reader'), WITH_TASKS)
    await client.settled(await client.start('slow'))
    await telemetry.flush()
    expect(events.getEvents().map(({ name }) => name)).to.include('kit.mcp.task.completed')
    const names = (await otel.metrics()).map(({ descriptor }) => descriptor.name)
    expect(names).to.include('mcp.server.operation.duration')
    expect(otel.all).to.deep.equal([])
  })

  for (const [what, options, expected] of [
    ['records a span', {}, ['MCP POST']],
    ['records no span with recordSpans: false', { recordSpans: false }, []],
  ] satisfies [string, McpAuthOptions, string[]][]) {
    it(`mcpAuth() with telemetry ${what} in front of another server`, async () => {
      const gate = mcpAuth(oauth(), { telemetry, ...options })
      const app = express().use('/mcp', gate, (_req, res) => void res.end('x'))
      const { origin } = await listen(app)
      // The first request loads OpenTelemetry.
      for (const _request of [1, 2])
        await (await fetch(`${origin}/mcp`, { method: 'POST', headers: bearer('reader') })).text()
      await telemetry.flush()
      expect([...new Set(otel.spans.map(({ name }) => name))]).to.deep.equal(expected)
    })
  }
})
