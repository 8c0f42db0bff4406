import { requiredModule } from '../../../runtime.ts'
import type { FetchDispatcher } from './target-options.ts'

/** The headers by which tracing systems propagate a trace. */
const TRACE_HEADER =
  /^(?:traceparent|tracestate|baggage|sentry-trace|b3|x-b3-.+|uber-trace-id|uberctx-.+|x-datadog-.+|x-amzn-trace-id|x-cloud-trace-context|newrelic|elastic-apm-traceparent)$/i

/**
 * Removes trace headers from the requests of a dispatcher. Suppressing tracing is not enough, because Sentry, for example,
 * adds them anyway. Headers that the application has configured are kept.
 * @param configured returns `true` for the name of a header that the application has configured, in lowercase.
 */
export function untracedDispatcher(
  dispatcher: FetchDispatcher,
  configured: (name: string) => boolean,
): FetchDispatcher {
  const strip = (message: unknown): void => {
    // Names and values alternate.
    const { headers } = (message as { readonly request: { headers: unknown } }).request
    if (!Array.isArray(headers)) return
    for (let at = headers.length - 2; at >= 0; at -= 2) {
      const name = String(headers[at])
      if (TRACE_HEADER.test(name) && !configured(name.toLowerCase())) headers.splice(at, 2)
    }
  }
  // The channel on which undici publishes each request. Subscribers may change the request.
  const created = requiredModule('node:diagnostics_channel').channel('undici:request:create')
  return {
    dispatch(options, handler) {
      // Subscribers are called in order, and this one is the last.
      created.subscribe(strip)
      try {
        return dispatcher.dispatch(options, handler)
      } finally {
        created.unsubscribe(strip)
      }
    },
  }
}
