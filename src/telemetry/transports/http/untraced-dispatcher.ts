import { channel } from 'node:diagnostics_channel'
import type { FetchDispatcher } from './target-options.ts'

/** The headers by which the tracing systems hand on a trace. */
const TRACE_HEADER =
  /^(?:traceparent|tracestate|baggage|sentry-trace|b3|x-b3-.+|uber-trace-id|uberctx-.+|x-datadog-.+|x-amzn-trace-id|x-cloud-trace-context|newrelic|elastic-apm-traceparent)$/i

/** Published when undici makes a request; subscribers may change it. */
const created = channel('undici:request:create')

/**
 * Takes trace headers out of the requests of a dispatcher. Suppressed tracing is not enough: Sentry, for one, adds them
 * all the same. Those that the application configured itself stay.
 * @param configured the names of the application's own headers, in lower case
 */
export function untracedDispatcher(
  dispatcher: FetchDispatcher,
  configured: (name: string) => boolean,
): FetchDispatcher {
  const strip = (message: unknown): void => {
    // Names and values by turns.
    const { headers } = (message as { readonly request: { headers: unknown } }).request
    if (!Array.isArray(headers)) return
    for (let at = headers.length - 2; at >= 0; at -= 2) {
      const name = String(headers[at])
      if (TRACE_HEADER.test(name) && !configured(name.toLowerCase())) headers.splice(at, 2)
    }
  }
  return {
    dispatch(options, handler) {
      // Subscribers are called in their order, and this one is the last.
      created.subscribe(strip)
      try {
        return dispatcher.dispatch(options, handler)
      } finally {
        created.unsubscribe(strip)
      }
    },
  }
}
