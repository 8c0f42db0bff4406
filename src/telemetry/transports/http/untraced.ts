import { AsyncLocalStorage, builtinModule } from '../../../base/runtime.ts'
import { contextManager, SPAN } from '../../otel-context.ts'

/** The keys of a context that suppress tracing, and that carry the baggage. */
const SUPPRESS_TRACING = Symbol.for('OpenTelemetry SDK Context Key SUPPRESS_TRACING')
const BAGGAGE = Symbol.for('OpenTelemetry Baggage Key')

/** The headers by which tracing systems propagate a trace. */
const TRACE_HEADER =
  /^(?:traceparent|tracestate|baggage|sentry-trace|b3|x-b3-.+|uber-trace-id|uberctx-.+|x-datadog-.+|x-amzn-trace-id|x-cloud-trace-context|newrelic|elastic-apm-traceparent)$/i

/** A request of undici, as its diagnostics channels publish it. Subscribers may change it. */
interface PublishedRequest {
  path: string
  /** Names and values alternate. */
  readonly headers: unknown
}

/** The headers of the request that is being made. */
const requested = AsyncLocalStorage === undefined ? undefined : new AsyncLocalStorage<Headers>()

const own = new WeakSet<PublishedRequest>()

/** Removes the headers that a tracing system has added to a request of this package. */
function onCreated(message: unknown): void {
  const { request } = message as { readonly request: PublishedRequest }
  const { headers } = request
  const configured = requested?.getStore()
  if (configured === undefined) return
  own.add(request)
  if (!Array.isArray(headers)) return
  for (let at = headers.length - 2; at >= 0; at -= 2) {
    const name = String(headers[at])
    if (TRACE_HEADER.test(name) && !configured.has(name)) headers.splice(at, 2)
  }
}

/** Hides the path, which may be a secret, from those who read it when the response arrives. Its head has been written. */
function onSent(message: unknown): void {
  const { request } = message as { readonly request: PublishedRequest }
  if (own.has(request)) request.path = '/'
}

/**
 * Calls `fetch` so that tracing systems neither record the request nor add headers to it. Suppressing tracing is not enough:
 * Sentry, for example, adds its headers anyway, and without OpenTelemetry it records a breadcrumb with the path.
 */
export function untracedFetch(url: URL, headers: Headers, init: RequestInit): Promise<Response> {
  const channels = builtinModule('node:diagnostics_channel')
  for (const [name, subscriber] of [
    ['undici:request:create', onCreated],
    ['undici:client:sendHeaders', onSent],
    ['undici:request:bodySent', onSent],
  ] as const) {
    // Subscribers are called in order, and these must be the last.
    channels?.unsubscribe(name, subscriber)
    channels?.subscribe(name, subscriber)
  }
  const run = (): Promise<Response> => fetch(url, { ...init, headers })
  return untraced(() => requested?.run(headers, run) ?? run())
}

/**
 * Calls `work` in a context without a span and with tracing suppressed. Instrumentations then do not record its requests and
 * do not add trace headers to them. Does not load OpenTelemetry. If the application has not loaded it, only calls `work`.
 */
function untraced<Result>(work: () => Result): Result {
  const contexts = contextManager()
  if (contexts === undefined) return work()
  const context = contexts.active().deleteValue(SPAN).deleteValue(BAGGAGE).setValue(SUPPRESS_TRACING, true)
  return contexts.with(context, work)
}
