/** The part of an OpenTelemetry context that is used here. */
interface Context {
  setValue(key: symbol, value: unknown): Context
  deleteValue(key: symbol): Context
}

interface ContextManager {
  active(): Context
  with<Result>(context: Context, work: () => Result): Result
}

/** The place in which every copy of `@opentelemetry/api` 1.x keeps what the application has registered. */
const API = Symbol.for('opentelemetry.js.api.1')

/** The keys are the same in every copy of OpenTelemetry, because `createContextKey` uses `Symbol.for`. */
const SUPPRESS_TRACING = Symbol.for('OpenTelemetry SDK Context Key SUPPRESS_TRACING')
const SPAN = Symbol.for('OpenTelemetry Context Key SPAN')
const BAGGAGE = Symbol.for('OpenTelemetry Baggage Key')

/**
 * Calls `work` in a context without a span and with tracing suppressed. Instrumentations then do not record its requests and
 * do not add trace headers to them. Does not load OpenTelemetry. If the application has not loaded it, only calls `work`.
 */
export function untraced<Result>(work: () => Result): Result {
  const api = (globalThis as { readonly [API]?: { readonly context?: ContextManager } })[API]
  const contexts = api?.context
  if (contexts === undefined) return work()
  const context = contexts.active().deleteValue(SPAN).deleteValue(BAGGAGE).setValue(SUPPRESS_TRACING, true)
  return contexts.with(context, work)
}
