import type { TelemetryTrace } from './envelope/envelope.ts'

/** The part of an OpenTelemetry context that is used here. */
interface Context {
  getValue(key: symbol): unknown
  setValue(key: symbol, value: unknown): Context
  deleteValue(key: symbol): Context
}

interface ContextManager {
  active(): Context
  with<Result>(context: Context, work: () => Result): Result
}

/** The place in which every copy of `@opentelemetry/api` 1.x keeps what the application has registered. */
const API = Symbol.for('opentelemetry.js.api.1')

/** The key of the active span. It is the same in every copy of OpenTelemetry, because `createContextKey` uses `Symbol.for`. */
export const SPAN: symbol = Symbol.for('OpenTelemetry Context Key SPAN')

/** Returns the context manager of the application, if it has registered one. Does not load OpenTelemetry. */
export function contextManager(): ContextManager | undefined {
  return (globalThis as { readonly [API]?: { readonly context?: ContextManager } })[API]?.context
}

/** The result of the latest event with valid ids. The events of a span share it. */
let latest: TelemetryTrace | undefined

/** Returns the span that is active, unless there is none, or its ids are invalid. Never throws. */
export function activeTrace(): TelemetryTrace | undefined {
  try {
    const span = contextManager()?.active().getValue(SPAN) as
      | { spanContext(): { traceId: string; spanId: string; traceFlags: number } }
      | undefined
    if (span === undefined) return undefined
    const { traceId, spanId, traceFlags } = span.spanContext()
    const flags = traceFlags & 255
    if (latest?.spanId === spanId && latest.traceId === traceId && latest.flags === flags) return latest
    if (!isId(traceId, 32) || !isId(spanId, 16)) return undefined
    latest = Object.freeze({ traceId, spanId, flags })
    return latest
  } catch {
    return undefined
  }
}

/** Returns `true` for hexadecimal digits that are not all zeros. */
function isId(id: unknown, length: number): boolean {
  return typeof id === 'string' && id.length === length && /^(?!0+$)[\da-f]+$/.test(id)
}
