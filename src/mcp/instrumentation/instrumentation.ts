import { tryOrUndefined } from '../../try-or-undefined.ts'
import type { McpRequest } from '../wire/mcp-request.ts'
import { NO_TELEMETRY, type RequestTelemetry } from '../wire/request-telemetry.ts'
import { InstrumentedRequest, type SharedInstrumentation } from './instrumented-request.ts'
import type { AnyManager } from './request-events.ts'
import { Tracing } from './tracing.ts'

/** The telemetry of an adapter: events if it has a manager, and spans if a provider is registered. */
export class Instrumentation {
  readonly #shared: SharedInstrumentation

  constructor(manager: AnyManager | undefined, recordsPayloads: boolean, recordsClientAddress = false) {
    this.#shared = {
      manager,
      tracing: new Tracing(),
      recordsPayloads: recordsPayloads && manager !== undefined,
      recordsClientAddress,
    }
  }

  /** Resolves when `begin` may be called. Undefined if it may be called at once. Never rejects. */
  get loading(): Promise<void> | undefined {
    return this.#shared.tracing.loading
  }

  /**
   * Records the duration of a session.
   * @param transport `pipe` over stdio, `tcp` over HTTP
   * @param revision one of the revisions that the SDK supports, so that the attribute has few values
   */
  sessionEnded(transport: 'pipe' | 'tcp', durationMs: number, revision: string | undefined): void {
    this.#shared.tracing.recordSession(durationMs, {
      'network.transport': transport,
      ...(transport === 'tcp' && { 'network.protocol.name': 'http' }),
      ...(revision !== undefined && { 'mcp.protocol.version': revision }),
    })
  }

  /** Begins the telemetry of a request. Returns {@link NO_TELEMETRY} if there is neither a manager nor a provider of spans. */
  begin(request: McpRequest): RequestTelemetry {
    const { manager, tracing } = this.#shared
    return manager !== undefined || tryOrUndefined(() => tracing.hasProvider)
      ? new InstrumentedRequest(this.#shared, request)
      : NO_TELEMETRY
  }
}
