import type * as Api from '@opentelemetry/api'
import type { RefusalReason } from '../../oauth/decision.ts'
import { tryOrUndefined } from '../../try-or-undefined.ts'
import { VERSION } from '../../version.ts'
import type { ReachedLimit } from '../wire/request-telemetry.ts'

/** The global under which each copy of version 1 of the API finds the registered providers. */
const REGISTRATIONS = Symbol.for('opentelemetry.js.api.1')

/** The name of the instrumentation scope. Its version is the version of the package. */
const SCOPE_NAME = 'mcp-gatekit'

/** The bucket boundaries in seconds that the OpenTelemetry conventions for MCP recommend. */
const DURATION_BUCKETS = [0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60, 120, 300]

/** The maximum length of a string in `params._meta` that is read, as in W3C Baggage. */
const MAX_CARRIED = 8192

export type SpanAttributes = Readonly<Record<string, string | number>>

/** The beginning of a span. */
export interface SpanStart {
  readonly name: string
  readonly attributes: SpanAttributes
  /** `params._meta`, as the client sent it. */
  readonly meta: unknown
  /** Returns `true` if a string in `meta` may be read. */
  readonly admits: (text: string) => boolean
  /** Milliseconds since 1970. */
  readonly startedAtMs: number
}

/** The end of a span. */
export interface SpanEnd {
  readonly name: string
  readonly attributes: SpanAttributes
  /** The attributes of the histogram. Undefined if there was no MCP operation to measure. */
  readonly measured: SpanAttributes | undefined
  readonly durationMs: number
  readonly failed: boolean
  /** The description of the span's status if the operation has failed. */
  readonly description: string | undefined
}

/** The span of one MCP operation, its duration, or both. */
export interface ServerSpan {
  /** Runs `fn` with the span as the active one. */
  run<T>(fn: () => T): T
  /** @param describe is called only if the span is recorded or the duration is measured */
  end(describe: (isRecorded: boolean) => SpanEnd): void
}

/** The span of one run of a task. */
export interface TaskSpan {
  /** Runs `fn` with the span as the active one. */
  run<T>(fn: () => T): T
  end(errorType: string | undefined): void
}

/** The instruments of one provider of meters. */
type Instruments = ReturnType<typeof instrumentsOf>

/**
 * Records SERVER spans, histograms of the durations of operations and sessions, and counters of refusals and reached limits
 * through `@opentelemetry/api`. This optional peer is loaded once a provider is registered with it. Providers are looked up for
 * each request, so they can be registered or replaced at any time.
 */
export class Tracing {
  #api: typeof Api | undefined
  #hasLoaded = false
  #loading: Promise<void> | undefined
  #meters: Api.MeterProvider | undefined
  #instruments: Instruments | undefined
  readonly #recordsSpans: boolean

  /** @param recordsSpans `false` if only the context in `params._meta` is passed on, and durations and counters are recorded */
  constructor(recordsSpans = true) {
    this.#recordsSpans = recordsSpans
  }

  /**
   * Resolves when the API has been loaded, or is missing. Undefined afterwards, and while no provider is registered. Never
   * rejects.
   */
  get loading(): Promise<void> | undefined {
    if (this.#hasLoaded || !(REGISTRATIONS in globalThis)) return undefined
    this.#loading ??= loadApi().then((api) => {
      this.#api = api
      this.#hasLoaded = true
    })
    return this.#loading
  }

  /** `true` if a provider for spans or for metrics is registered. */
  get hasProvider(): boolean {
    const api = this.#api
    return api !== undefined && (registeredTracer(api) ?? this.#registeredInstruments(api)) !== undefined
  }

  /**
   * Begins a span or, without a provider for spans, only measures the duration. If spans are not recorded, it passes on the
   * context instead. Returns undefined without any provider.
   */
  start(describe: () => SpanStart): ServerSpan | undefined {
    const api = this.#api
    if (api === undefined) return undefined
    const tracer = registeredTracer(api)
    const durations = this.#registeredInstruments(api)?.durations
    if (tracer === undefined) {
      return durations && serverSpan(api, undefined, undefined, durations, 0)
    }
    const { name, attributes, meta, admits, startedAtMs } = describe()
    const ambient = api.context.active()
    const parent = remoteParent(api, ambient, meta, admits)
    const ambientSpan = api.trace.getSpanContext(ambient)
    if (!this.#recordsSpans) {
      const inside = withLocalSpan(api, parent, ambient)
      return serverSpan(api, undefined, inside, durations, 0)
    }
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
    return serverSpan(api, span, api.trace.setSpan(parent, span), durations, startedAtMs)
  }

  /**
   * Begins the span of a task. It is the root of a trace, because the task may run for hours, and it is linked to the active
   * span. Returns undefined without a provider for spans, or if spans are not recorded.
   */
  startTask(name: string, attributes: SpanAttributes): TaskSpan | undefined {
    const api = this.#api
    const tracer = api && registeredTracer(api)
    if (!this.#recordsSpans || api === undefined || tracer === undefined) return undefined
    const ambient = api.context.active()
    const caller = api.trace.getSpanContext(ambient)
    const links = caller !== undefined && api.isSpanContextValid(caller) ? [{ context: caller }] : []
    const span = tracer.startSpan(name, { root: true, attributes, links }, ambient)
    const inside = api.trace.setSpan(ambient, span)
    return {
      run: (fn) => api.context.with(inside, fn),
      end(errorType) {
        if (errorType !== undefined) {
          span.setAttribute('error.type', errorType)
          span.setStatus({ code: api.SpanStatusCode.ERROR })
        }
        span.end()
      },
    }
  }

  /** Counts a request that the gate has refused. */
  countRefusal(reason: RefusalReason): void {
    this.#measure(({ refusals }) => refusals.add(1, { 'kit.mcp.auth.refused.reason': reason }))
  }

  /** Counts a tool call that has reached a limit. @param tool the name of a tool that exists */
  countLimit(limit: ReachedLimit['limit'], tool: string | undefined): void {
    const attributes = { limit, ...(tool !== undefined && { 'gen_ai.tool.name': tool }) }
    this.#measure(({ limits }) => limits.add(1, attributes))
  }

  /** Counts a call or a list that a policy has denied. @param tool the name of a tool that exists */
  countDenial(method: string | undefined, tool: string | undefined): void {
    const attributes = {
      ...(method !== undefined && { 'mcp.method.name': method }),
      ...(tool !== undefined && { 'gen_ai.tool.name': tool }),
    }
    this.#measure(({ denials }) => denials.add(1, attributes))
  }

  /** Records the duration of a session. Its attributes have few values. */
  recordSession(durationMs: number, attributes: SpanAttributes): void {
    this.#measure(({ sessionDurations }) => sessionDurations.record(durationMs / 1000, attributes))
  }

  /** Calls `measure` if a provider of meters is registered. Never throws. */
  #measure(measure: (instruments: Instruments) => void): void {
    tryOrUndefined(() => {
      const instruments = this.#api && this.#registeredInstruments(this.#api)
      if (instruments !== undefined) measure(instruments)
    })
  }

  #registeredInstruments(api: typeof Api): Instruments | undefined {
    const meters = api.metrics.getMeterProvider()
    if (meters !== this.#meters) {
      this.#meters = meters
      const meter = meters.getMeter(SCOPE_NAME, VERSION)
      this.#instruments = meter === api.createNoopMeter() ? undefined : instrumentsOf(meter)
    }
    return this.#instruments
  }
}

/** The descriptions of the histograms are those of the OpenTelemetry conventions for MCP. */
function instrumentsOf(meter: Api.Meter) {
  const seconds = { unit: 's', advice: { explicitBucketBoundaries: DURATION_BUCKETS } }
  return {
    durations: meter.createHistogram('mcp.server.operation.duration', {
      description:
        'MCP request or notification duration as observed on the receiver from the time it was received until the result or ack is sent.',
      ...seconds,
    }),
    sessionDurations: meter.createHistogram('mcp.server.session.duration', {
      description: 'The duration of the MCP session as observed on the MCP server.',
      ...seconds,
    }),
    refusals: meter.createCounter('kit.mcp.auth.refused', {
      description: 'The number of requests that the gate has refused, by reason.',
      unit: '{request}',
    }),
    denials: meter.createCounter('kit.mcp.policy.denied', {
      description: 'The number of calls and lists that a policy has denied, by method and tool.',
      unit: '{call}',
    }),
    limits: meter.createCounter('kit.mcp.limit.reached', {
      description: 'The number of tool calls that have reached a limit, by limit and tool.',
      unit: '{call}',
    }),
  }
}

function serverSpan(
  api: typeof Api,
  span: Api.Span | undefined,
  /** The context of what handlers do. Undefined for the one in which they are called. */
  inside: Api.Context | undefined,
  durations: Api.Histogram | undefined,
  startedAtMs: number,
): ServerSpan {
  const context = inside ?? api.context.active()
  return {
    run: (fn) => (inside === undefined ? fn() : api.context.with(inside, fn)),
    end(describe) {
      const isRecorded = span?.isRecording() ?? false
      if (!isRecorded && durations === undefined) {
        span?.end()
        return
      }
      const { name, attributes, measured, durationMs, failed, description } = describe(isRecorded)
      if (isRecorded) {
        span?.updateName(name)
        span?.setAttributes(attributes)
        const message = description !== undefined && { message: description }
        if (failed) span?.setStatus({ code: api.SpanStatusCode.ERROR, ...message })
      }
      span?.end(startedAtMs + durationMs)
      if (measured !== undefined) durations?.record(durationMs / 1000, measured, context)
    },
  }
}

let loading: Promise<typeof Api | undefined> | undefined

/** Loads the API once. Resolves to undefined if it is not installed. */
function loadApi(): Promise<typeof Api | undefined> {
  loading ??= importApi()
  return loading
}

async function importApi(): Promise<typeof Api | undefined> {
  try {
    return await import('@opentelemetry/api')
  } catch {
    return undefined
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
