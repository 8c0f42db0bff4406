import type * as Api from '@opentelemetry/api'
import { tryOrUndefined } from '../../base/try-or-undefined.ts'
import { VERSION } from '../../base/version.ts'
import { present } from './observed-message.ts'

/** The name of the instrumentation scope. Its version is the version of the package. */
const SCOPE_NAME = 'mcp-gatekit'

/** The bucket boundaries in seconds that the OpenTelemetry conventions for MCP recommend. */
const DURATION_BUCKETS = [0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60, 120, 300]

/** The maximum length of a string in `params._meta` that is read, as in W3C Baggage. */
const MAX_CARRIED = 8192

/** The beginning of a span. */
export interface SpanStart {
  readonly name: string
  readonly attributes: Api.Attributes
  /** `params._meta`, as the client sent it. */
  readonly meta: unknown
  /** Returns `true` if a string in `meta` may be read. */
  readonly admits: (text: string) => boolean
  /** Milliseconds since 1970. */
  readonly startedAtMs: number
}

/** The end of a span. */
export interface SpanEnd {
  /** Absent for the name with which the span has begun. */
  readonly name?: string
  readonly attributes: Api.Attributes
  /** The attributes of the histogram. Absent if there was no MCP operation to measure. */
  readonly measured?: Api.Attributes | undefined
  readonly durationMs: number
  readonly failed: boolean
  /** The description of the span's status if the operation has failed. */
  readonly description?: string | undefined
}

type Attributes = Readonly<Record<string, string | number | undefined>>

/** The instruments of one provider of meters. */
type Instruments = ReturnType<typeof instrumentsOf>

let api: typeof Api | undefined
let hasLoaded = false
let loading: Promise<void> | undefined

async function load(): Promise<void> {
  // Bundlers accept a package that is not installed in this form only.
  try {
    api = await import('@opentelemetry/api')
  } catch {
    // Nothing is traced.
  }
  hasLoaded = true
}

/**
 * Records SERVER spans, histograms of the durations of operations and sessions, and counters of refusals and reached limits
 * through `@opentelemetry/api`. This optional peer is loaded once a provider is registered with it. Providers are looked up for
 * each request, so they can be registered or replaced at any time.
 */
export class Tracing {
  #meters: Api.MeterProvider | undefined
  #instruments: Instruments | undefined
  readonly #recordsSpans: boolean

  /** @param recordsSpans `false` if only the context in `params._meta` is passed on, and durations and counters are recorded */
  constructor(recordsSpans = true) {
    this.#recordsSpans = recordsSpans
  }

  /** Resolves when the API has been loaded, or is missing. Undefined afterwards. Never rejects. */
  get loading(): Promise<void> | undefined {
    if (hasLoaded) return undefined
    loading ??= load()
    return loading
  }

  /** `true` if a provider for spans or for metrics is registered. */
  get hasProvider(): boolean {
    const found = tryOrUndefined(() => api && (registeredTracer(api) ?? this.#registeredInstruments(api)))
    return found !== undefined
  }

  /**
   * Begins a span or, without a provider for spans, only measures the duration. If spans are not recorded, it passes on the
   * context instead. Returns undefined without any provider.
   */
  start(describe: () => SpanStart): Span | undefined {
    if (api === undefined) return undefined
    const tracer = registeredTracer(api)
    const durations = this.#registeredInstruments(api)?.durations
    if (tracer === undefined) return durations && spanOf(api, undefined, durations)
    const { name, attributes, meta, admits, startedAtMs } = describe()
    const ambient = api.context.active()
    const parent = remoteParent(api, ambient, meta, admits)
    const ambientSpan = api.trace.getSpanContext(ambient)
    if (!this.#recordsSpans) return spanOf(api, withLocalSpan(api, parent, ambient), durations)
    const isLinked =
      ambientSpan !== undefined &&
      api.isSpanContextValid(ambientSpan) &&
      // Some instrumentations create a new object for each call.
      api.trace.getSpanContext(parent)?.spanId !== ambientSpan.spanId
    const options: Api.SpanOptions = {
      kind: api.SpanKind.SERVER,
      attributes,
      startTime: startedAtMs,
      ...(isLinked && { links: [{ context: ambientSpan }] }),
    }
    const span = tracer.startSpan(name, options, parent)
    return spanOf(api, api.trace.setSpan(parent, span), durations, span, startedAtMs)
  }

  /**
   * Begins the span of a task. It is the root of a trace, because the task may run for hours, and it is linked to the active
   * span. Returns undefined without a provider for spans, or if spans are not recorded.
   */
  startTask(name: string, attributes: Api.Attributes): Span | undefined {
    const tracer = api && registeredTracer(api)
    if (!this.#recordsSpans || api === undefined || tracer === undefined) return undefined
    const ambient = api.context.active()
    const caller = api.trace.getSpanContext(ambient)
    const links = caller !== undefined && api.isSpanContextValid(caller) ? [{ context: caller }] : []
    const startedAtMs = Date.now()
    const span = tracer.startSpan(name, { root: true, attributes, links, startTime: startedAtMs }, ambient)
    return spanOf(api, api.trace.setSpan(ambient, span), undefined, span, startedAtMs)
  }

  /** Records a value, or adds it to a counter, if a provider of meters is registered. Never throws. @param attributes those with few values */
  measure(name: Exclude<keyof Instruments, 'durations'>, value: number, attributes: Attributes): void {
    tryOrUndefined(() => {
      const instrument = api && this.#registeredInstruments(api)?.[name]
      if (instrument === undefined) return
      if ('record' in instrument) instrument.record(value, present(attributes))
      else instrument.add(value, present(attributes))
    })
  }

  #registeredInstruments(loaded: typeof Api): Instruments | undefined {
    const meters = loaded.metrics.getMeterProvider()
    if (meters !== this.#meters) {
      this.#meters = meters
      const meter = meters.getMeter(SCOPE_NAME, VERSION)
      this.#instruments = meter === loaded.createNoopMeter() ? undefined : instrumentsOf(meter)
    }
    return this.#instruments
  }
}

/** The descriptions of the histograms are those of the OpenTelemetry conventions for MCP. */
function instrumentsOf(meter: Api.Meter) {
  const histogram = (name: string, description: string) =>
    meter.createHistogram(name, {
      description,
      unit: 's',
      advice: { explicitBucketBoundaries: DURATION_BUCKETS },
    })
  const counter = (name: string, unit: string, description: string) =>
    meter.createCounter(name, { description, unit })
  return {
    durations: histogram(
      'mcp.server.operation.duration',
      'MCP request or notification duration as observed on the receiver from the time it was received until the result or ack is sent.',
    ),
    sessions: histogram(
      'mcp.server.session.duration',
      'The duration of the MCP session as observed on the MCP server.',
    ),
    refusals: counter(
      'kit.mcp.auth.refused',
      '{request}',
      'The number of requests that the gate has refused, by reason.',
    ),
    denials: counter(
      'kit.mcp.policy.denied',
      '{call}',
      'The number of calls and lists that a policy has denied, by method and tool.',
    ),
    limits: counter(
      'kit.mcp.limit.reached',
      '{call}',
      'The number of tool calls that have reached a limit, by limit and tool.',
    ),
  }
}

/** The span of an MCP operation or of a task's run, the duration of the operation, or both. */
export interface Span {
  readonly isRecorded: boolean
  /** Runs `fn` once, with the span as the active one unless that fails. */
  run<T>(fn: () => T): T
  end(end: SpanEnd): void
}

/** @param inside the context of what handlers do. Undefined for the one in which they are called. */
function spanOf(
  loaded: typeof Api,
  inside: Api.Context | undefined,
  durations: Api.Histogram | undefined,
  span?: Api.Span,
  startedAtMs = 0,
): Span {
  const context = inside ?? loaded.context.active()
  return {
    get isRecorded() {
      return span?.isRecording() ?? false
    },
    run: (fn) => (inside === undefined ? fn() : runWithin((once) => loaded.context.with(inside, once), fn)),
    end({ name, attributes, measured, durationMs, failed, description }) {
      if (span?.isRecording()) {
        if (name !== undefined) span.updateName(name)
        span.setAttributes(attributes)
        const message = description !== undefined && { message: description }
        if (failed) span.setStatus({ code: loaded.SpanStatusCode.ERROR, ...message })
      }
      span?.end(startedAtMs + durationMs)
      if (measured !== undefined) durations?.record(durationMs / 1000, measured, context)
    },
  }
}

/** Returns the tracer of the registered provider. If there is none, the API has a proxy without a delegate. */
function registeredTracer(api: typeof Api): Api.Tracer | undefined {
  const provider = api.trace.getTracerProvider() as Api.TracerProvider & Partial<Api.ProxyTracerProvider>
  return provider.getDelegateTracer === undefined
    ? provider.getTracer(SCOPE_NAME, VERSION)
    : provider.getDelegateTracer(SCOPE_NAME, VERSION)
}

/**
 * Returns the ambient context with the span and the baggage in `params._meta`, if there are any. The propagators of the
 * application read them. If no propagator reads `traceparent`, `traceparent` and `tracestate` are read here.
 */
function remoteParent(
  api: typeof Api,
  ambient: Api.Context,
  meta: unknown,
  admits: SpanStart['admits'],
): Api.Context {
  if (typeof meta !== 'object' || meta === null) return ambient
  const getter = {
    keys: (carrier: object) => Object.keys(carrier),
    get(carrier: object, key: string) {
      const text: unknown = Object.hasOwn(carrier, key)
        ? (carrier as Record<string, unknown>)[key]
        : undefined
      return typeof text === 'string' && text.length <= MAX_CARRIED && admits(text) ? text : undefined
    },
  }
  const parent = api.propagation.extract(ambient, meta, getter)
  if (api.propagation.fields().includes('traceparent')) return parent
  const traceparent = getter.get(meta, 'traceparent')
  return traceparent === undefined
    ? parent
    : withTraceparent(api, parent, traceparent, getter.get(meta, 'tracestate'))
}

/**
 * Returns `context` with the active span of `ambient`, if another instrumentation has begun one in this process. It remains the
 * parent of what handlers do.
 */
function withLocalSpan(api: typeof Api, context: Api.Context, ambient: Api.Context): Api.Context {
  const span = api.trace.getSpan(ambient)
  const spanContext = span?.spanContext()
  const isLocal = spanContext !== undefined && api.isSpanContextValid(spanContext) && !spanContext.isRemote
  return span !== undefined && isLocal ? api.trace.setSpan(context, span) : context
}

/** `traceparent` as in W3C Trace Context Level 1 §3.2. Later versions may append further fields. */
const TRACEPARENT = /^([\da-f]{2})-([\da-f]{32})-([\da-f]{16})-([\da-f]{2})(-.*)?$/

function withTraceparent(
  api: typeof Api,
  context: Api.Context,
  traceparent: string,
  tracestate: string | undefined,
): Api.Context {
  const [, version, traceId = '', spanId = '', flags = '', more] = TRACEPARENT.exec(traceparent) ?? []
  if (version === undefined || version === 'ff' || (version === '00' && more !== undefined)) return context
  const remote: Api.SpanContext = {
    traceId,
    spanId,
    traceFlags: Number.parseInt(flags, 16),
    isRemote: true,
    ...(tracestate !== undefined && { traceState: api.createTraceState(tracestate) }),
  }
  return api.isSpanContextValid(remote) ? api.trace.setSpanContext(context, remote) : context
}

/**
 * Runs `fn` once, inside `around` if that calls its argument, and otherwise after it.
 * @returns the result of `fn`
 * @throws what `fn` throws. An error of `around` is ignored.
 */
export function runWithin<T>(around: (once: () => T | undefined) => unknown, fn: () => T): T {
  let outcome: { readonly value: T } | { readonly thrown: unknown } | undefined
  const once = (): T | undefined => {
    if (outcome === undefined) {
      try {
        outcome = { value: fn() }
      } catch (thrown) {
        outcome = { thrown }
      }
    }
    return 'value' in outcome ? outcome.value : undefined
  }
  tryOrUndefined(() => around(once))
  once()
  const settled = outcome as unknown as { readonly value: T } | { readonly thrown: unknown }
  if ('thrown' in settled) throw settled.thrown
  return settled.value
}
