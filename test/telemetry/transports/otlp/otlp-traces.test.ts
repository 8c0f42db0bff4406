import { setImmediate } from 'node:timers/promises'
import { context, trace } from '@opentelemetry/api'
import { AsyncLocalStorageContextManager } from '@opentelemetry/context-async-hooks'
import { BatchLogRecordProcessor, InMemoryLogRecordExporter, LoggerProvider } from '@opentelemetry/sdk-logs'
import { AlwaysOffSampler, BasicTracerProvider } from '@opentelemetry/sdk-trace-base'
import { expect } from 'chai'
import type { KitTelemetryManager, TelemetryTransport } from '../../../../src/telemetry/index.ts'
import { KitTelemetry, OtlpTransportAdapter } from '../../../../src/telemetry/index.ts'
import { startOtlpReceiver } from '../../../support/otlp-receiver.ts'

/** The span of a record. */
interface Told {
  readonly name: string | undefined
  readonly traceId: string | undefined
  readonly spanId: string | undefined
  readonly flags: number | undefined
}

/** A manager that sends over OTLP, one way or the other. */
interface Way {
  readonly transport: OtlpTransportAdapter
  recorded(): Promise<Told[]>
  close(): Promise<unknown>
}

const WAYS: Readonly<Record<string, () => Promise<Way>>> = {
  ...Object.fromEntries(
    (['json', 'protobuf'] as const).map((encoding) => [
      `over OTLP (${encoding})`,
      async () => {
        const receiver = await startOtlpReceiver()
        return {
          transport: OtlpTransportAdapter.create({ url: receiver.url, encoding }),
          recorded: async () =>
            receiver.records.map(({ eventName, traceId, spanId, flags }) => ({
              name: eventName,
              traceId,
              spanId,
              flags,
            })),
          close: () => receiver.close(),
        }
      },
    ]),
  ),
  'through loggerProvider': async () => {
    const exporter = new InMemoryLogRecordExporter()
    const loggerProvider = new LoggerProvider({ processors: [new BatchLogRecordProcessor({ exporter })] })
    return {
      transport: OtlpTransportAdapter.create({ loggerProvider }),
      async recorded() {
        await loggerProvider.forceFlush()
        return exporter.getFinishedLogRecords().map(({ eventName, spanContext }) => ({
          name: eventName,
          traceId: spanContext?.traceId,
          spanId: spanContext?.spanId,
          flags: spanContext?.traceFlags,
        }))
      },
      close: () => loggerProvider.shutdown(),
    }
  },
}

describe('OtlpTransportAdapter: traces', () => {
  before(() => context.setGlobalContextManager(new AsyncLocalStorageContextManager().enable()))
  after(() => context.disable())

  const tracer = new BasicTracerProvider().getTracer('app')

  /** Runs `fn` in a span of its own, which is over when it has returned. */
  async function inSpan<T>(fn: () => T, of = tracer): Promise<Omit<Told, 'name'>> {
    const span = of.startSpan('work')
    await context.with(trace.setSpan(context.active(), span), fn)
    span.end()
    const { traceId, spanId, traceFlags } = span.spanContext()
    return { traceId, spanId, flags: traceFlags }
  }

  const outside = { traceId: undefined, spanId: undefined }

  for (const [title, open] of Object.entries(WAYS)) {
    describe(title, () => {
      let way: Way
      let manager: KitTelemetryManager
      let emitting: TelemetryTransport
      beforeEach(async () => {
        way = await open()
        emitting = { type: 'emitting', handle: () => undefined }
        manager = KitTelemetry.create()
          .withLogger(false)
          .withSampling({ infoRate: 1 })
          .addTransport({ type: 'first', handle: (envelope) => emitting.handle(envelope) })
          .addTransport(way.transport)
          .build()
      })
      afterEach(async () => {
        await manager.shutdown()
        await way.close()
      })

      async function recorded(): Promise<Told[]> {
        await manager.flush()
        return await way.recorded()
      }

      it(`a record names the span that was active at emit, also before init has finished (${title})`, async () => {
        const first = await inSpan(() => manager.emit('early'))
        manager.emit('without')
        const second = await inSpan(() => manager.emit('also.early'))
        await inSpan(async () => {
          const [one, two, three] = await recorded()
          expect(one).to.deep.equal({ name: 'early', ...first })
          expect(two).to.include({ name: 'without', ...outside })
          expect(three).to.deep.equal({ name: 'also.early', ...second })
        })
      })

      it(`a record names the span that was active at emit, whichever span delivers the queue (${title})`, async () => {
        await manager.flush()
        const spans = await Promise.all(
          Array.from({ length: 20 }, (_value, index) =>
            inSpan(async () => {
              await setImmediate()
              manager.emit(`event.${index}`)
            }),
          ),
        )
        manager.emit('without')
        let records: Told[] = []
        await inSpan(async () => {
          records = await recorded()
        })
        expect(new Set(spans.map(({ spanId }) => spanId)).size).to.equal(20)
        for (const [index, span] of spans.entries())
          expect(records.find(({ name }) => name === `event.${index}`)).to.deep.equal({
            name: `event.${index}`,
            ...span,
          })
        expect(records.at(-1)).to.include({ name: 'without', ...outside })
      })

      it(`a record names the innermost span, also within runs of sessions (${title})`, async () => {
        const session = manager.session()
        let inner: Omit<Told, 'name'> | undefined
        const outer = await inSpan(() =>
          session.run(async () => {
            await setImmediate()
            manager.emit('outer')
            inner = await inSpan(() => session.emit('inner'))
          }),
        )
        const records = await recorded()
        expect(records).to.deep.equal([
          { name: 'outer', ...outer },
          { name: 'inner', ...inner },
        ])
      })

      it(`a record of an event of another transport names the span of the event that caused it (${title})`, async () => {
        emitting = {
          type: 'emitting',
          handle: ({ name }) => (name === 'cause' ? manager.emit('effect') : undefined),
        }
        await manager.flush()
        const span = await inSpan(() => manager.emit('cause'))
        expect(await recorded()).to.deep.equal([
          { name: 'cause', ...span },
          { name: 'effect', ...span },
        ])
      })

      it(`a record names a span that is not sampled, with its flag (${title})`, async () => {
        const unsampled = new BasicTracerProvider({ sampler: new AlwaysOffSampler() }).getTracer('app')
        const span = await inSpan(() => manager.emit('quiet'), unsampled)
        const [record] = await recorded()
        expect(record).to.include({ traceId: span.traceId, spanId: span.spanId })
        expect(record?.flags ?? 0).to.equal(0)
      })
    })
  }
})
