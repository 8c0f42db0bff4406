import { once } from 'node:events'
import { createInterface } from 'node:readline'
import { PassThrough } from 'node:stream'
import { SpanKind, trace } from '@opentelemetry/api'
import type { DataPoint, Histogram } from '@opentelemetry/sdk-metrics'
import { expect } from 'chai'
import { InMemoryTransportAdapter, KitTelemetry, KitToolError } from '../../../src/index.ts'
import { Instrumentation } from '../../../src/mcp/instrumentation/instrumentation.ts'
import { KitMcpRouter, tableOf } from '../../../src/mcp/router/router.ts'
import { StdioConnection } from '../../../src/mcp/stdio/stdio-connection.ts'
import { Otel } from '../../support/mcp/otel.ts'
import { call, initialization, LEGACY, MODERN, modern, rpc, signalled } from '../../support/mcp/wire.ts'
import { until } from '../../support/until.ts'

const TRACE = '4bf92f3577b34da6a3ce929d0e0e4736'
const PARENT = '00f067aa0ba902b7'

const router = KitMcpRouter.create()
  .tool('echo', { description: 'x' }, async () => {
    await null
    trace.getTracer('app').startSpan('work').end()
    return 'x'
  })
  .tool('wait', { description: 'x' }, async (_args, { signal }) => {
    waiting.resolve()
    await once(signal, 'abort')
    return 'x'
  })
  .tool('break', { description: 'x' }, () => {
    throw new Error('broken')
  })
  .tool('refuse', { description: 'x' }, () => {
    throw new KitToolError('refused')
  })
  .resource('broken', { uri: 'notes://broken' }, () => {
    throw new Error('broken')
  })
  .tool('flood', { description: 'x' }, async (_args, { progress, log }) => {
    for (let count = 0; count < 10_000; count++) void progress(count, undefined, 'x'.repeat(1000))
    for (let count = 0; count < 10_000; count++) void log('info', 'x'.repeat(1000))
    flooded.resolve()
    return 'flooded'
  })
  .tool('log', { description: 'x' }, async (_args, { log }) => {
    const logAll = async () => {
      for (let count = 0; count < 1_000; count++) await log('info', 'x'.repeat(1000))
    }
    await Promise.all([logAll(), logAll()])
    return 'logged'
  })

let flooded = signalled()
let waiting = signalled()

/** A connection over streams in memory. */
class Connection {
  readonly input = new PassThrough()
  readonly output = new PassThrough()
  readonly ended: Promise<void>
  readonly #connection: StdioConnection
  readonly #lines: AsyncIterator<string>

  constructor(instrumentation = new Instrumentation(undefined), served: KitMcpRouter<any> = router) {
    this.#lines = createInterface({ input: this.output })[Symbol.asyncIterator]()
    this.#connection = new StdioConnection({
      table: tableOf(served),
      serverInfo: { name: 'test', version: '1.0.0' },
      instructions: undefined,
      instrumentation,
      maxMessageBytes: 1_000_000,
      input: this.input,
      output: this.output,
    })
    this.ended = this.#connection.ended
  }

  close(): void {
    this.#connection.close()
  }

  /** Reads until a response arrives. Returns the data of the log messages. */
  async logged(): Promise<string[]> {
    this.output.resume()
    const logged: string[] = []
    for (;;) {
      const { id, method, params } = JSON.parse((await this.#lines.next()).value)
      if (id !== undefined) return logged
      if (method === 'notifications/message') logged.push(params.data)
    }
  }

  async ask(message: unknown): Promise<any> {
    this.input.write(`${JSON.stringify(message)}\n`)
    const { value } = await this.#lines.next()
    return JSON.parse(value)
  }
}

const clientInfo = { name: 'c', version: '1' }
const initialize = initialization({}, clientInfo, 'init')

describe('long values over stdio', () => {
  it('an id, a token, or a name of 1,025 characters gets an error that does not repeat it', async () => {
    const connection = new Connection()
    const long = 'v'.repeat(1_025)
    await connection.ask(initialize)
    const refused = [
      await connection.ask(rpc('ping', undefined, long)),
      await connection.ask(rpc(long, undefined, 1)),
      await connection.ask(rpc('tools/call', { name: long, arguments: {} }, 2)),
      await connection.ask(rpc('tools/call', { name: 'echo', _meta: { progressToken: long } }, 3)),
    ]
    expect(refused.map(({ id, error }) => [id, error.code])).to.deep.equal([
      [undefined, -32_600],
      [1, -32_600],
      [2, -32_602],
      [3, -32_602],
    ])
    expect(JSON.stringify(refused)).not.to.contain('vvvvvvvv')
    connection.input.write(`${JSON.stringify({ jsonrpc: '2.0', method: long })}\n`)
    const longest = 'v'.repeat(1_024)
    expect((await connection.ask(rpc('ping', undefined, longest))).id).to.equal(longest)
    connection.close()
    await connection.ended
  })
})

describe('telemetry over stdio', () => {
  let otel: Otel
  beforeEach(() => {
    otel = new Otel().register()
  })
  afterEach(() => Otel.unregister())

  for (const { revision, first, calling } of [
    { revision: LEGACY, first: initialize, calling: call('echo', {}, 2) },
    {
      revision: MODERN,
      first: JSON.parse(modern('tools/list').body as string),
      calling: { ...JSON.parse(modern('tools/call', { name: 'echo', arguments: {} }).body as string), id: 2 },
    },
  ]) {
    it(`a call of ${revision} has a span and a duration with the transport pipe and without an HTTP status`, async () => {
      const connection = new Connection()
      await connection.ask(first)
      const meta = { ...calling.params._meta, traceparent: `00-${TRACE}-${PARENT}-01` }
      const { result } = await connection.ask({ ...calling, params: { ...calling.params, _meta: meta } })
      expect(result.content).to.deep.equal([{ type: 'text', text: 'x' }])
      const span = otel.spans.find(({ name }) => name === 'tools/call echo')
      expect(span?.kind).to.equal(SpanKind.SERVER)
      expect(span?.spanContext().traceId).to.equal(TRACE)
      expect(span?.attributes).to.deep.equal({
        'mcp.method.name': 'tools/call',
        'jsonrpc.request.id': '2',
        'gen_ai.operation.name': 'execute_tool',
        'gen_ai.tool.name': 'echo',
        'mcp.protocol.version': revision,
        'mcp.client.name': revision === MODERN ? 'test' : 'c',
        'mcp.client.version': '1',
        'network.transport': 'pipe',
      })
      const work = otel.all.find(({ name }) => name === 'work')
      expect(work?.parentSpanContext?.spanId).to.equal(span?.spanContext().spanId)
      const point = (await otel.durations()).find((one) => one.attributes['gen_ai.tool.name'] === 'echo')
      expect(point?.attributes).to.include({ 'network.transport': 'pipe', 'mcp.protocol.version': revision })

      connection.input.end()
      await connection.ended
      const sessions = (await otel.metrics()).find(
        ({ descriptor }) => descriptor.name === 'mcp.server.session.duration',
      )
      const [session] = (sessions?.dataPoints ?? []) as DataPoint<Histogram>[]
      expect(session?.attributes).to.deep.equal({
        'network.transport': 'pipe',
        'mcp.protocol.version': revision,
        'mcp.client.name': '_OTHER',
      })
    })

    for (const { title, ends, attributes } of [
      {
        title: 'that its client cancels has the code of the cancellation as its error',
        ends: ({ input }: Connection) => {
          const canceled = { method: 'notifications/cancelled', params: { requestId: 2 } }
          input.write(`${JSON.stringify({ jsonrpc: '2.0', ...canceled })}\n`)
        },
        attributes: { 'error.type': '-32800', 'rpc.response.status_code': '-32800' },
      },
      {
        title: 'whose client closes the connection has the error 499',
        ends: ({ input }: Connection) => input.end(),
        attributes: { 'error.type': '499' },
      },
    ]) {
      it(`a call of ${revision} ${title}`, async () => {
        waiting = signalled()
        const connection = new Connection()
        await connection.ask(first)
        const params = { ...calling.params, name: 'wait' }
        connection.input.write(`${JSON.stringify({ ...calling, params })}\n`)
        await waiting.promise
        ends(connection)
        const ended = () => otel.spans.find(({ name }) => name === 'tools/call wait')
        await until(() => ended() !== undefined)
        const names = ['error.type', 'rpc.response.status_code', 'http.response.status_code']
        const own = Object.entries(ended()?.attributes ?? {}).filter(([name]) => names.includes(name))
        expect(Object.fromEntries(own)).to.deep.equal(attributes)
        connection.close()
        await connection.ended
      })
    }
  }
})

describe('events over stdio', () => {
  for (const revision of [LEGACY, MODERN])
    for (const [what, method, params, name] of [
      ['a call', 'tools/call', { name: 'echo', arguments: {} }, 'tool.completed'],
      ['a call that is refused', 'tools/call', { name: 'refuse', arguments: {} }, 'tool.failed'],
      ['a call that fails', 'tools/call', { name: 'break', arguments: {} }, 'tool.failed'],
      ['a resource that fails', 'resources/read', { uri: 'notes://broken' }, 'request.failed'],
    ] as const)
      it(`${what} of ${revision} emits ${name} once, and then request.completed`, async () => {
        const transport = InMemoryTransportAdapter.create()
        const manager = KitTelemetry.create().withSampling({ infoRate: 1 }).addTransport(transport).build()
        const connection = new Connection(new Instrumentation(manager))
        const request = rpc(method, params, 2)
        const modernRequest = { ...JSON.parse(modern(method, params).body as string), id: 2 }
        if (revision === LEGACY) await connection.ask(initialize)
        await connection.ask(revision === LEGACY ? request : modernRequest)
        connection.close()
        await connection.ended
        await manager.shutdown()
        const events = transport
          .getEvents()
          .filter(({ attributes }) => attributes?.['mcp.method.name'] === method)
        expect(events.map((event) => event.name)).to.deep.equal([
          `kit.mcp.${name}`,
          'kit.mcp.request.completed',
        ])
      })
})

describe('a request over stdio', () => {
  it('that is canceled before its context exists gets no response', async () => {
    const context = signalled<object>()
    let requests = 0
    const late = router.context(() => (++requests === 2 ? context.promise : {}))
    const connection = new Connection(undefined, late)
    await connection.ask(initialize)
    connection.input.write(`${JSON.stringify(call('echo', {}, 9))}\n`)
    const canceled = { method: 'notifications/cancelled', params: { requestId: 9 } }
    connection.input.write(`${JSON.stringify({ jsonrpc: '2.0', ...canceled })}\n`)
    expect((await connection.ask(rpc('ping', undefined, 10))).id).to.equal(10)
    context.resolve({})
    expect((await connection.ask(rpc('ping', undefined, 11))).id).to.equal(11)
    connection.close()
    await connection.ended
  })
})

describe('a connection over stdio whose client does not read', () => {
  let connection: Connection
  beforeEach(() => {
    flooded = signalled()
    connection = new Connection()
  })

  /** Lets more wait for the client than streams keep. */
  async function flood(message: any): Promise<void> {
    connection.output.pause()
    const params = { ...message.params, name: 'flood', _meta: { ...message.params._meta, progressToken: 1 } }
    connection.input.write(`${JSON.stringify({ ...message, id: 2, params })}\n`)
    await flooded.promise
  }

  it('progress and log messages that no handler awaits are dropped beyond 1 MiB, and one log message says so', async () => {
    await connection.ask(initialize)
    await flood(call('flood', {}, 2))
    expect(connection.output.writableLength).to.be.within(900_000, 1_200_000)
    const logged = await connection.logged()
    expect(logged.filter((data) => !data.startsWith('x'))).to.deep.equal([
      'Log messages are dropped, because the client does not read fast enough.',
    ])
  })

  it('log messages that a handler awaits are not dropped while the output is full', async () => {
    await connection.ask(initialize)
    connection.output.pause()
    connection.input.write(`${JSON.stringify(call('log', {}, 2))}\n`)
    await until(() => connection.output.writableNeedDrain)
    expect(await connection.logged()).to.have.length(2_000)
  })

  it('closing a connection with an open subscription ends it, although the client does not read', async () => {
    const params = { notifications: { toolsListChanged: true } }
    const listening = await connection.ask(JSON.parse(modern('subscriptions/listen', params).body as string))
    expect(listening.method).to.equal('notifications/subscriptions/acknowledged')
    await flood(JSON.parse(modern('tools/call', { name: 'flood', arguments: {} }).body as string))
    connection.close()
    await connection.ended
  })
})
