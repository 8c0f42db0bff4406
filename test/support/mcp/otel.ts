import { context, metrics, propagation, trace } from '@opentelemetry/api'
import { AsyncLocalStorageContextManager } from '@opentelemetry/context-async-hooks'
import {
  type DataPoint,
  type Histogram,
  MeterProvider,
  type MetricData,
  MetricReader,
} from '@opentelemetry/sdk-metrics'
import {
  BasicTracerProvider,
  InMemorySpanExporter,
  type ReadableSpan,
  type Sampler,
  SimpleSpanProcessor,
} from '@opentelemetry/sdk-trace-base'

/** A reader that is asked by the test alone. */
class AskedReader extends MetricReader {
  protected override async onForceFlush(): Promise<void> {}
  protected override async onShutdown(): Promise<void> {}
}

/** OpenTelemetry as an application registers it, with the recorded data. */
export class Otel {
  readonly #exporter = new InMemorySpanExporter()
  readonly #reader = new AskedReader()
  readonly tracers: BasicTracerProvider
  readonly meters: MeterProvider

  constructor(sampler?: Sampler) {
    this.tracers = new BasicTracerProvider({
      spanProcessors: [new SimpleSpanProcessor(this.#exporter)],
      ...(sampler !== undefined && { sampler }),
    })
    this.meters = new MeterProvider({ readers: [this.#reader] })
  }

  /** Registers everything but a propagator. */
  register(): this {
    context.setGlobalContextManager(new AsyncLocalStorageContextManager().enable())
    trace.setGlobalTracerProvider(this.tracers)
    metrics.setGlobalMeterProvider(this.meters)
    return this
  }

  /** Takes away whatever is registered. */
  static unregister(): void {
    context.disable()
    trace.disable()
    metrics.disable()
    propagation.disable()
  }

  /** The spans of this package that have ended, in the order of their ends. */
  get spans(): ReadableSpan[] {
    return this.all.filter(({ instrumentationScope }) => instrumentationScope.name === 'mcp-gatekit')
  }

  get all(): ReadableSpan[] {
    return this.#exporter.getFinishedSpans()
  }

  clear(): void {
    this.#exporter.reset()
  }

  async metrics(): Promise<MetricData[]> {
    const { resourceMetrics } = await this.#reader.collect()
    return resourceMetrics.scopeMetrics.flatMap(({ metrics }) => metrics)
  }

  async durations(): Promise<DataPoint<Histogram>[]> {
    const found = (await this.metrics()).find(
      ({ descriptor }) => descriptor.name === 'mcp.server.operation.duration',
    )
    return (found?.dataPoints ?? []) as DataPoint<Histogram>[]
  }

  /** Runs `fn` inside a foreign span, such as that of the HTTP instrumentation. */
  async ambient<T>(fn: () => Promise<T>): Promise<{ readonly result: T; readonly span: ReadableSpan }> {
    const span = trace.getTracer('http').startSpan('POST /mcp')
    const result = await context.with(trace.setSpan(context.active(), span), fn)
    span.end()
    return { result, span: span as unknown as ReadableSpan }
  }
}
