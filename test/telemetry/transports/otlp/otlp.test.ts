import { subscribe, unsubscribe } from 'node:diagnostics_channel'
import { cp, mkdtemp, readdir, rm, writeFile } from 'node:fs/promises'
import type { ClientRequest } from 'node:http'
import { createRequire } from 'node:module'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { mock } from 'node:test'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { inspect } from 'node:util'
import { type Context, context, createContextKey, diag, ROOT_CONTEXT, trace } from '@opentelemetry/api'
import { AsyncLocalStorageContextManager } from '@opentelemetry/context-async-hooks'
import { InMemoryLogRecordExporter, LoggerProvider, SimpleLogRecordProcessor } from '@opentelemetry/sdk-logs'
import { expect } from 'chai'
import { VERSION } from '../../../../src/base/version.ts'
import { KitTelemetry, OtlpTransportAdapter, type OtlpTransportOptions } from '../../../../src/index.ts'
import type { TelemetryEnvelope } from '../../../../src/telemetry/envelope/envelope.ts'
import { KitTelemetryError } from '../../../../src/telemetry/errors.ts'
import { selfSigned } from '../../../support/certificates.ts'
import { anEvent } from '../../../support/chat-services.ts'
import { freePort } from '../../../support/free-port.ts'
import {
  type OtlpReceiver,
  type OtlpReceiverOptions,
  startOtlpReceiver,
} from '../../../support/otlp-receiver.ts'

const META = { service: 'billing', environment: 'test', version: '1.2.3' }

describe('OtlpTransportAdapter', () => {
  const cleanups: (() => Promise<unknown>)[] = []
  afterEach(async () => {
    for (const cleanup of cleanups.splice(0).reverse()) await cleanup()
  })

  async function receive(options?: OtlpReceiverOptions): Promise<OtlpReceiver> {
    const receiver = await startOtlpReceiver(options)
    cleanups.push(receiver.close)
    return receiver
  }

  async function ready(options: OtlpTransportOptions): Promise<OtlpTransportAdapter> {
    const transport = OtlpTransportAdapter.create(options)
    await transport.init(META)
    return transport
  }

  for (const encoding of ['json', 'protobuf'] as const) {
    for (const compression of ['none', 'gzip'] as const) {
      it(`OtlpTransportAdapter sends ${encoding}, compression ${compression}`, async () => {
        const warn = mock.method(diag, 'warn', () => undefined)
        const receiver = await receive()
        const transport = await ready({ url: receiver.url, encoding, compression })
        const before = BigInt(Date.now()) * 1_000_000n
        const handled = transport.handle(
          envelope({
            name: 'billing.invoice.failed',
            time: '2026-11-20T12:00:00.123Z',
            level: 'error',
            sessionId: 'ses_1',
            actor: { type: 'user', id: 'u1', tags: { plan: 'pro', seats: 3 } },
            scope: { type: 'org', id: 'o1', tags: { region: 'eu' } },
            attributes: {
              count: 1,
              ratio: 0.5,
              paid: false,
              none: null,
              list: [1, 'a', { b: [true] }],
              map: { c: { d: 2 } },
            },
            error: {
              name: 'TypeError',
              message: 'no card',
              code: 'ECARD',
              stack: 'TypeError: no card\n  at pay',
            },
            source: { causer: 'cron', file: 'src/pay.ts', line: 42 },
          }),
        )
        await transport.flush()
        await handled

        expect(receiver.records).to.have.length(1)
        const [record] = receiver.records
        expect(record).to.deep.include({
          eventName: 'billing.invoice.failed',
          body: 'billing.invoice.failed',
          time: BigInt(Date.UTC(2026, 10, 20, 12, 0, 0, 123)) * 1_000_000n,
          severityNumber: 17,
          severityText: 'error',
          droppedAttributesCount: 0,
          scope: { name: 'mcp-gatekit', version: VERSION },
          traceId: undefined,
          spanId: undefined,
        })
        expect(Number(record?.observedTime)).to.be.within(Number(before), Date.now() * 1e6)
        expect(record?.resource).to.include({
          'service.name': 'billing',
          'service.version': '1.2.3',
          'deployment.environment.name': 'test',
          'telemetry.sdk.language': 'nodejs',
        })
        expect(record?.attributes).to.deep.equal({
          count: 1,
          ratio: 0.5,
          paid: false,
          none: null,
          list: [1, 'a', { b: [true] }],
          map: { c: { d: 2 } },
          'session.id': 'ses_1',
          'kit.actor.type': 'user',
          'kit.actor.id': 'u1',
          'user.id': 'u1',
          'kit.actor.tags': { plan: 'pro', seats: 3 },
          'kit.scope.type': 'org',
          'kit.scope.id': 'o1',
          'kit.scope.tags': { region: 'eu' },
          'exception.type': 'TypeError',
          'exception.message': 'no card',
          'exception.stacktrace': 'TypeError: no card\n  at pay',
          'error.type': 'ECARD',
          'kit.source.causer': 'cron',
          'code.file.path': 'src/pay.ts',
          'code.line.number': 42,
        })
        expect(record?.typed).to.deep.include({
          count: { intValue: '1' },
          ratio: { doubleValue: 0.5 },
          'code.line.number': { intValue: '42' },
        })
        expect(receiver.requests[0]?.headers).to.include({
          'content-type': encoding === 'json' ? 'application/json' : 'application/x-protobuf',
        })
        expect(receiver.requests[0]?.headers['content-encoding']).to.equal(
          compression === 'gzip' ? 'gzip' : undefined,
        )
        await transport.shutdown()
        warn.mock.restore()
        expect(warn.mock.callCount()).to.equal(0)
      })
    }

    it(`OtlpTransportAdapter sends every kind of value in ${encoding}`, async () => {
      const receiver = await receive()
      const transport = await ready({ url: receiver.url, encoding })
      const odd = {
        nan: Number.NaN,
        infinity: -Infinity,
        large: 2 ** 63,
        unsafe: 2 ** 53,
        safe: -(2 ** 53 - 1),
        zero: -0,
        surrogate: 'a\ud800b',
        'key\udc00': 1,
        bigint: 12345678901234567890n,
        nested: { constructor: 'x', nan: [Number.NaN, undefined], '': 1 },
        constructor: 'y',
        toString: 'z',
        '': 'left out',
        undefined: undefined,
      }
      const shared = { n: 1 }
      const events = [
        envelope({ name: 'odd', attributes: { ...odd, twice: [shared, shared] } }),
        envelope({ name: 'proto', attributes: JSON.parse('{"__proto__":{"admin":true}}') }),
        envelope({ name: 'before', time: '1969-12-31T23:59:59.000Z' }),
        envelope({ name: 'beyond', time: '9999-12-31T23:59:59.000Z' }),
        envelope({ name: 'never', time: 'tomorrow' }),
        envelope({ name: 'lone\ud800', error: { name: 'E', message: '\udfff' } }),
        envelope({ name: 'good' }),
      ]
      await deliver(transport, events)
      expect(receiver.requests.map(({ status }) => status)).to.deep.equal([200])
      const [first, proto, before, beyond, never, lone] = receiver.records
      expect(first?.attributes).to.deep.equal({
        nan: 'NaN',
        infinity: '-Infinity',
        large: '9223372036854776000',
        unsafe: '9007199254740992',
        safe: -9007199254740991,
        zero: 0,
        surrogate: 'a\ufffdb',
        'key\ufffd': 1,
        bigint: '12345678901234567890',
        nested: { constructor: 'x', nan: ['NaN', null], '': 1 },
        constructor: 'y',
        toString: 'z',
        twice: [{ n: 1 }, { n: 1 }],
        'session.id': 'ses_0',
      })
      expect(Object.keys(proto?.attributes ?? {})).to.include('__proto__')
      for (const record of [before, beyond, never]) {
        expect(Number((record?.time ?? 0n) / 1_000_000n)).to.be.closeTo(Date.now(), 5_000)
      }
      expect(never?.attributes['kit.time']).to.equal('tomorrow')
      expect(lone).to.include({ eventName: 'lone\ufffd' })
      expect(receiver.records).to.have.length(events.length)
    })
  }

  const severities = { debug: 5, info: 9, warn: 13, error: 17, fatal: 21 } as const
  it('each level has its severity number in an OTLP record', async () => {
    const receiver = await receive()
    const transport = await ready({ url: receiver.url })
    const levels = Object.keys(severities) as (keyof typeof severities)[]
    await deliver(
      transport,
      levels.map((level) => envelope({ level })),
    )
    expect(Object.fromEntries(receiver.records.map((r) => [r.severityText, r.severityNumber]))).to.deep.equal(
      severities,
    )
  })

  it('members of the envelope win over attributes of the same name except error.type, and absent members are not sent', async () => {
    const receiver = await receive()
    const transport = await ready({ url: receiver.url })
    await deliver(transport, [
      envelope({
        attributes: { 'session.id': 'fake', 'kit.actor.id': 'fake', 'user.id': 'kept', 'error.type': 'fake' },
        actor: { type: 'service', id: 's1' },
        error: { name: 'RangeError', message: 'far' },
      }),
      envelope({}),
    ])
    expect(receiver.records[0]?.attributes).to.deep.equal({
      'session.id': 'ses_0',
      'kit.actor.type': 'service',
      'kit.actor.id': 's1',
      'user.id': 'kept',
      'exception.type': 'RangeError',
      'exception.message': 'far',
      'error.type': 'fake',
    })
    expect(receiver.records[1]?.attributes).to.deep.equal({ 'session.id': 'ses_0' })
  })

  it('service.version is not sent if the service has no version', async () => {
    const receiver = await receive()
    const transport = OtlpTransportAdapter.create({ url: receiver.url })
    await transport.init({ service: 'billing', environment: 'test' })
    await deliver(transport, [envelope({})])
    expect(receiver.records[0]?.resource).not.to.have.property('service.version')
  })

  it('an OTLP record keeps more attributes than the limit of 128 of the SDK', async () => {
    const receiver = await receive()
    const transport = await ready({ url: receiver.url })
    const attributes = Object.fromEntries(Array.from({ length: 300 }, (_, index) => [`a${index}`, index]))
    await deliver(transport, [envelope({ attributes })])
    expect(receiver.records[0]?.attributes).to.deep.include({ a0: 0, a299: 299 })
    expect(receiver.records[0]?.droppedAttributesCount).to.equal(0)
  })

  it('an OTLP record has the time at which its event was emitted, also if it waited for init', async () => {
    const receiver = await receive()
    const handedOver: { observedTimestamp: [number, number] }[] = []
    const loggerProvider = {
      getLogger: () => ({
        emit: (record: { observedTimestamp: [number, number] }) => handedOver.push(record),
      }),
    }
    const manager = KitTelemetry.create()
      .withLogger(false)
      .withSampling({ infoRate: 1 })
      .addTransport(OtlpTransportAdapter.create({ url: receiver.url }))
      .addTransport(OtlpTransportAdapter.create({ loggerProvider: loggerProvider as never }))
      .build()
    manager.emit('waits')
    const emittedAt = Date.now()
    // Nothing that init has to do can be done meanwhile.
    while (Date.now() < emittedAt + 50);
    await manager.shutdown()
    const observedMs = Number(receiver.records[0]?.observedTime) / 1e6
    expect(observedMs).to.be.within(emittedAt - 20, emittedAt + 45)
    const [seconds = 0, nanoseconds = 0] = handedOver[0]?.observedTimestamp ?? []
    expect(seconds * 1e3 + nanoseconds / 1e6).to.be.within(emittedAt - 20, emittedAt + 45)
  })

  describe('context', () => {
    before(() => context.setGlobalContextManager(new AsyncLocalStorageContextManager().enable()))
    after(() => context.disable())

    it('an OTLP record names the span that is active in handle, and the requests of the transport are not traced', async () => {
      const receiver = await receive()
      const transport = await ready({ url: receiver.url })
      const spanContext = {
        traceId: '0af7651916cd43dd8448eb211c80319c',
        spanId: 'b7ad6b7169203331',
        traceFlags: 1,
      }
      const active = trace.setSpanContext(ROOT_CONTEXT, spanContext)
      const inside = context.with(active, () => transport.handle(envelope({ name: 'inside' })))
      const outside = transport.handle(envelope({ name: 'outside' }))
      const requestContexts: Context[] = []
      // Other transports of this process may be sending as well.
      const observe = (message: unknown) => {
        const { request } = message as { request: ClientRequest }
        if (request.getHeader('host') === new URL(receiver.url).host) requestContexts.push(context.active())
      }
      subscribe('http.client.request.start', observe)
      await transport.flush()
      unsubscribe('http.client.request.start', observe)
      await Promise.all([inside, outside])
      const [first, second] = receiver.records
      expect(first).to.include({ traceId: spanContext.traceId, spanId: spanContext.spanId, flags: 1 })
      expect(second).to.include({ traceId: undefined, spanId: undefined })
      // The mark by which instrumentations recognize the SDK's own requests.
      const suppressed = createContextKey('OpenTelemetry SDK Context Key SUPPRESS_TRACING')
      expect(requestContexts.map((active) => active.getValue(suppressed))).to.deep.equal([true])
    })
  })

  describe('delivery', () => {
    it('OtlpTransportAdapter sends without a flush, about a second after the first event', async () => {
      const receiver = await receive()
      const transport = await ready({ url: receiver.url })
      await transport.handle(envelope({}))
      await transport.handle(envelope({}))
      expect(receiver.requests).to.have.length(2)
    })

    it('a wait for Retry-After is cut to timeout when a caller starts to flush', async () => {
      const receiver = await receive({
        answer: (count) => (count === 1 ? { status: 429, headers: { 'retry-after': '3600' } } : undefined),
      })
      const transport = await ready({ url: receiver.url, timeout: 300 })
      const handled = Array.from({ length: 512 }, () => transport.handle(envelope({})))
      while (receiver.requests.length === 0) await new Promise(setImmediate)
      await transport.flush()
      await Promise.all(handled)
      expect(receiver.records).to.have.length(512)
    })

    for (const [status, advice] of [
      [300, /redirects/],
      [301, /redirects/],
      [399, /redirects/],
      [400, /responded with 400;|responded with 400[^(]*$/],
      [401, /credentials/],
      [403, /credentials/],
      [404, /path of url/],
      [405, /path of url/],
      [415, /encoding or compression/],
      [422, /responded with 422/],
    ] as const) {
      it(`a batch fails after ${status} without another attempt, and the error says what to check`, async () => {
        const receiver = await receive({ answer: (count) => (count === 1 ? { status } : undefined) })
        const transport = await ready({ url: receiver.url })
        const error = await failureOf(transport, [envelope({}), envelope({})])
        expect(error.details).to.include({ status, events: 2, attempts: 1 })
        expect(error.message).to.match(advice)
        expect(error.message).to.include(`responded with ${status}`).and.to.include('2 events are lost')
        await deliver(transport, [envelope({ name: 'next' })])
        expect(receiver.records.map(({ eventName }) => eventName)).to.deep.equal(['next'])
        expect(receiver.requests).to.have.length(2)
      })
    }

    it('OTLP requests stay below 1 MiB together with a large resource', async () => {
      const receiver = await receive()
      const transport = OtlpTransportAdapter.create({ url: receiver.url })
      await transport.init({ ...META, service: 's'.repeat(300_000) })
      const text = 'x'.repeat(2_500)
      await deliver(
        transport,
        Array.from({ length: 400 }, () => envelope({ attributes: { text } })),
      )
      expect(receiver.records).to.have.length(400)
      expect(Math.max(...receiver.requests.map(({ bytes }) => bytes))).to.be.within(300_000, 2 ** 20)
    })

    it('OTLP requests stay below the limit of 20 MiB of a collector, even if JSON needs six bytes for a character', async () => {
      const receiver = await receive()
      const transport = await ready({ url: receiver.url })
      const list = Array.from({ length: 100 }, () => '\u0001'.repeat(5_000))
      await deliver(
        transport,
        Array.from({ length: 10 }, (_, index) => envelope({ attributes: { index, list, nested: { n: 1 } } })),
      )
      expect(receiver.records.map(({ attributes }) => attributes.index)).to.have.members([
        0, 1, 2, 3, 4, 5, 6, 7, 8, 9,
      ])
      expect(Math.max(...receiver.requests.map(({ bytes }) => bytes))).to.be.within(2 ** 20, 20 * 2 ** 20)
      expect(receiver.requests).to.have.length(10)
    })

    it('the connection error is the cause of the transport error if the exporter passes it on', async () => {
      const port = await freePort()
      const transport = await ready({ url: `http://127.0.0.1:${port}`, timeout: 500, retryBudgetMs: 0 })
      const { cause, details } = await failureOf(transport, [envelope({})])
      expect(cause).to.have.property('code', 'ECONNREFUSED')
      expect(details).to.deep.equal({ events: 1, attempts: 1 })
    })

    it('events settle even if the collector never responds', async () => {
      const receiver = await receive({ answer: () => 'hang' })
      const transport = await ready({ url: receiver.url, timeout: 300, retryBudgetMs: 500 })
      const error = await failureOf(transport, [envelope({})])
      expect(error.message).to.include('did not send a complete response within 300 ms')
      await transport.shutdown()
    })

    it('OtlpTransportAdapter rejects events before init and after shutdown', async () => {
      const receiver = await receive()
      const transport = OtlpTransportAdapter.create({ url: receiver.url })
      expect(await rejection(transport.handle(envelope({})))).to.match(/not initialized/)
      await transport.init(META)
      await transport.shutdown()
      expect(await rejection(transport.handle(envelope({})))).to.match(/shut down/)
    })

    it('a handle that replaces the one of OtlpTransportAdapter receives every event, also after build', async () => {
      const receiver = await receive()
      const replace = (transport: OtlpTransportAdapter, suffix: string) => {
        const handle = transport.handle.bind(transport)
        transport.handle = (event, emittedAtMs) =>
          handle({ ...event, name: event.name + suffix }, emittedAtMs)
      }
      const before = OtlpTransportAdapter.create({ url: receiver.url })
      replace(before, '.before')
      const after = OtlpTransportAdapter.create({ url: receiver.url })
      const builder = KitTelemetry.create().withLogger(false).withSampling({ infoRate: 1 })
      const manager = builder.addTransport(before).addTransport(after).build()
      replace(after, '.after')
      manager.emit('early')
      await manager.flush()
      manager.emit('late')
      await manager.shutdown()
      const names = receiver.records.map(({ eventName }) => eventName)
      expect(names).to.have.members(['early.before', 'early.after', 'late.before', 'late.after'])
    })

    it('only the event fails whose attributes cannot be read', async () => {
      const receiver = await receive()
      const transport = await ready({ url: receiver.url })
      const hostile = {
        get broken(): never {
          throw new Error('no')
        },
      }
      const rejected = rejection(transport.handle(envelope({ attributes: hostile })))
      await deliver(transport, [envelope({ name: 'next' })])
      expect(await rejected).to.match(/cannot be read/)
      expect(receiver.records.map(({ eventName }) => eventName)).to.deep.equal(['next'])
    })

    it('only the event fails whose record cannot be created when its batch is sent', async () => {
      const receiver = await receive()
      const transport = await ready({ url: receiver.url })
      let reads = 0
      const hostile = {
        get once() {
          if (reads++ > 0) throw new Error('no')
          return 1
        },
      }
      const names = ['first', 'second', 'third', 'fourth']
      const rejected = rejection(transport.handle(envelope({ attributes: hostile })))
      await deliver(
        transport,
        names.map((name) => envelope({ name })),
      )
      expect(await rejected).to.match(/SDK threw; 1 event is lost/)
      expect(receiver.records.map(({ eventName }) => eventName)).to.have.members(names)
    })
  })

  describe('loggerProvider', () => {
    it('records go to the loggerProvider of the application, which is not flushed or shut down', async () => {
      const exporter = new InMemoryLogRecordExporter()
      const loggerProvider = new LoggerProvider({ processors: [new SimpleLogRecordProcessor({ exporter })] })
      const transport = await ready({ loggerProvider })
      expect(transport.handle(envelope({ name: 'one', attributes: { n: 2 ** 60 } }))).to.equal(undefined)
      await transport.flush()
      await transport.shutdown()
      await transport.handle(envelope({ name: 'two' }))
      await loggerProvider.forceFlush()
      const [first, second] = exporter.getFinishedLogRecords()
      expect(first).to.deep.include({
        eventName: 'one',
        attributes: { n: String(2 ** 60), 'session.id': 'ses_0' },
      })
      expect(first?.instrumentationScope).to.include({ name: 'mcp-gatekit', version: VERSION })
      expect(second?.eventName).to.equal('two')
      await loggerProvider.shutdown()
    })

    it('a loggerProvider that throws is reported', async () => {
      const loggerProvider = {
        getLogger: () => ({
          emit() {
            throw new Error('full')
          },
        }),
      }
      const transport = await ready({ loggerProvider })
      expect(() => transport.handle(envelope({})))
        .to.throw(KitTelemetryError)
        .with.property('code', 'TELEMETRY_TRANSPORT_FAILED')
    })
  })

  describe('url', () => {
    const paths = {
      '': '/v1/logs',
      '/': '/v1/logs',
      '?key=1': '/v1/logs?key=1',
      '/?key=1': '/v1/logs?key=1',
      '/v1/logs': '/v1/logs',
      '/otlp': '/otlp',
      '/otlp/': '/otlp/',
      '/otlp?key=1': '/otlp?key=1',
    }
    for (const [given, posted] of Object.entries(paths)) {
      it(`OtlpTransportAdapter posts to ${posted} for a url that ends in ${JSON.stringify(given)}`, async () => {
        const receiver = await receive({ answer: () => ({ status: 204, body: '' }) })
        const transport = await ready({ url: `${receiver.url}${given}` })
        await deliver(transport, [envelope({})])
        expect(receiver.requests.map(({ url }) => url)).to.deep.equal([posted])
      })
    }
  })

  describe('options', () => {
    const url = 'http://127.0.0.1:4318'
    it('OtlpTransportAdapter has defaults for options that are absent or undefined', () => {
      const transport = OtlpTransportAdapter.create({ url, timeout: undefined, headers: undefined })
      expect(transport).to.include({ type: 'otlp', maxPending: 131_072 })
      expect(OtlpTransportAdapter.create({ url, maxPending: 7 }).maxPending).to.equal(7)
    })

    it('the type of the options of OtlpTransportAdapter requires a url or a loggerProvider', () => {
      // @ts-expect-error neither is there
      const create = () => OtlpTransportAdapter.create({})
      expect(create).to.throw()
    })
  })

  describe('headers', () => {
    it('configured OTLP headers are sent, but do not replace the content type', async () => {
      const receiver = await receive()
      const transport = await ready({
        url: receiver.url,
        headers: { 'X-Api-Key': 'k', 'content-type': 'text/plain' },
      })
      await deliver(transport, [envelope({})])
      expect(receiver.requests[0]?.headers).to.include({
        'x-api-key': 'k',
        'content-type': 'application/json',
      })
    })

    it('configured OTLP headers come after those of the environment, which the exporter adds', async () => {
      process.env.OTEL_EXPORTER_OTLP_HEADERS = 'x-env=from-env,x-both=from-env'
      try {
        const receiver = await receive()
        const transport = await ready({ url: receiver.url, headers: { 'x-both': 'from-code' } })
        await deliver(transport, [envelope({})])
        expect(receiver.requests[0]?.headers).to.include({ 'x-env': 'from-env', 'x-both': 'from-code' })
      } finally {
        delete process.env.OTEL_EXPORTER_OTLP_HEADERS
      }
    })

    it('OTLP errors contain neither the headers nor the url, whatever the collector responds', async () => {
      const receiver = await receive({
        answer: () => ({ status: 401, body: 'bad key: secret-1', headers: { 'x-echo': 'secret-1' } }),
      })
      const headers = { authorization: 'Bearer secret-1' }
      const options = { headers, retryBudgetMs: 0 }
      const refused = await ready({ url: `${receiver.url}/secret-2?key=secret-3`, ...options })
      const dead = await ready({
        url: `http://127.0.0.1:${await freePort()}/secret-2?key=secret-3`,
        ...options,
      })
      for (const transport of [refused, dead]) {
        const error = await failureOf(transport, [envelope({})])
        expect(inspect(error, { depth: 9, showHidden: true })).not.to.match(/secret-\d/)
      }
    })
  })

  describe('TLS', () => {
    const variables = ['OTEL_EXPORTER_OTLP_CERTIFICATE', 'OTEL_EXPORTER_OTLP_CLIENT_KEY'] as const
    afterEach(() => {
      for (const variable of variables) delete process.env[variable]
    })

    it('OtlpTransportAdapter trusts the certificate that the environment names, as the exporters of OpenTelemetry do', async () => {
      const tls = selfSigned()
      const receiver = await receive({ tls })
      const folder = await mkdtemp(join(tmpdir(), 'otlp-'))
      cleanups.push(() => rm(folder, { recursive: true }))
      await writeFile(join(folder, 'ca.pem'), tls.cert)
      process.env.OTEL_EXPORTER_OTLP_CERTIFICATE = join(folder, 'ca.pem')
      process.env.OTEL_EXPORTER_OTLP_CLIENT_KEY = join(folder, 'absent.pem')
      const transport = await ready({ url: receiver.url })
      await deliver(transport, [envelope({})])
      expect(receiver.records).to.have.length(1)
      await transport.shutdown()
    })

    it('OtlpTransportAdapter does not trust another certificate', async () => {
      const receiver = await receive({ tls: selfSigned() })
      const transport = await ready({ url: receiver.url, retryBudgetMs: 0 })
      const { cause } = await failureOf(transport, [envelope({})])
      expect(cause).to.have.property('code', 'DEPTH_ZERO_SELF_SIGNED_CERT')
      expect(receiver.records).to.have.length(0)
    })
  })

  it('the error of OtlpTransportAdapter names the packages to install if OpenTelemetry is missing', async () => {
    // A copy of the compiled sources, with no node_modules but what the package itself brings.
    const folder = await mkdtemp(join(tmpdir(), 'otlp-'))
    cleanups.push(() => rm(folder, { recursive: true }))
    const sources = fileURLToPath(new URL('../../../../src/', import.meta.url))
    for (const name of ['telemetry', 'base'])
      await cp(join(sources, name), join(folder, name), { recursive: true })
    for (const file of (await readdir(sources)).filter((name) => name.endsWith('.js')))
      await cp(join(sources, file), join(folder, file))
    const levenshtein = fileURLToPath(new URL('.', import.meta.resolve('fastest-levenshtein')))
    await cp(levenshtein, join(folder, 'node_modules/fastest-levenshtein'), { recursive: true })
    await writeFile(join(folder, 'package.json'), '{"type":"module"}')
    const copy: typeof import('../../../../src/telemetry/transports/otlp/otlp.ts') = await import(
      pathToFileURL(join(folder, 'telemetry/transports/otlp/otlp.js')).href
    )
    for (const [encoding, exporter] of [
      ['json', '@opentelemetry/exporter-logs-otlp-http'],
      ['protobuf', '@opentelemetry/exporter-logs-otlp-proto'],
    ] as const) {
      const transport = copy.OtlpTransportAdapter.create({ url: 'http://127.0.0.1:4318', encoding })
      const error = await transport.init(META).catch((reason: unknown) => reason)
      expect(KitTelemetryError.is(error) && error.code).to.equal('TELEMETRY_TRANSPORT_INIT_FAILED')
      expect(String(error)).to.include(
        `not installed. Run npm install @opentelemetry/api @opentelemetry/sdk-logs @opentelemetry/resources ${exporter}`,
      )
    }
    const handedOver = copy.OtlpTransportAdapter.create({
      loggerProvider: { getLogger: () => ({ emit: () => {} }) },
    })
    await handedOver.init(META)
    await handedOver.handle(envelope({}))
  })

  it('an OTLP request names the version of the package', () => {
    const require = createRequire(import.meta.url)
    expect(VERSION).to.equal(require('mcp-gatekit/package.json').version)
  })
})

function envelope(parts: Partial<TelemetryEnvelope>): TelemetryEnvelope {
  return anEvent({ name: 'event', time: '2026-11-20T12:00:00.000Z', level: 'info', ...parts })
}

async function deliver(transport: OtlpTransportAdapter, events: readonly TelemetryEnvelope[]): Promise<void> {
  const handled = events.map((event) => transport.handle(event))
  await Promise.all([...handled, transport.flush()])
}

/** The one error by which all of the events failed. */
async function failureOf(
  transport: OtlpTransportAdapter,
  events: readonly TelemetryEnvelope[],
): Promise<KitTelemetryError> {
  const outcomes = Promise.allSettled(events.map((event) => transport.handle(event)))
  await transport.flush()
  const [first, ...rest] = (await outcomes).map((outcome) =>
    outcome.status === 'rejected' ? outcome.reason : expect.fail('An event was delivered'),
  )
  for (const error of rest) expect(error).to.equal(first)
  expect(KitTelemetryError.is(first) && first.code).to.equal('TELEMETRY_TRANSPORT_FAILED')
  return first
}

async function rejection(handled: Promise<void> | void): Promise<string> {
  return Promise.resolve(handled).then(
    () => expect.fail('The event was delivered'),
    (error: KitTelemetryError) => `${error.code} ${error.message}`,
  )
}
