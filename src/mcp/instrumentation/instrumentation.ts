import { atShutdown } from '../../at-shutdown.ts'
import type { ForbiddenSender } from '../../oauth/decision.ts'
import { tryOrUndefined } from '../../try-or-undefined.ts'
import type { McpRequest } from '../wire/mcp-request.ts'
import { NO_TELEMETRY, type ObservedClient, type RequestTelemetry } from '../wire/request-telemetry.ts'
import { FailureLog } from './failure-log.ts'
import { InstrumentedRequest, type SharedInstrumentation } from './instrumented-request.ts'
import { knownClientNames } from './observed-client.ts'
import { RepeatedRefusals } from './repeated-refusals.ts'
import { type AnyManager, EVENTS, type EventName } from './request-events.ts'
import { Tracing } from './tracing.ts'

/** Begins the telemetry of requests. */
export interface RequestObserver {
  /** Resolves when `begin` may be called. Undefined if it may be called at once. Never rejects. */
  readonly loading: Promise<void> | undefined
  begin(request: McpRequest): RequestTelemetry
}

/** The options of the telemetry of an adapter. Their defaults are `false` and none, but `true` for `recordSpans`. */
export interface InstrumentationOptions {
  readonly recordPayloads?: boolean
  readonly recordClientAddress?: boolean
  readonly knownClients?: readonly string[]
  readonly recordSpans?: boolean
}

/**
 * The telemetry of an adapter: events if it has a manager, spans if a provider is registered, and without a manager a line on
 * stderr for each failure.
 */
export class Instrumentation implements RequestObserver {
  readonly #shared: SharedInstrumentation

  /** @param manager `undefined` for lines on stderr, and `false` for none */
  constructor(manager: AnyManager | false | undefined, options: InstrumentationOptions = {}) {
    const {
      recordPayloads = false,
      recordClientAddress = false,
      knownClients = [],
      recordSpans = true,
    } = options
    this.#shared = {
      manager: manager || undefined,
      tracing: new Tracing(recordSpans),
      recordsPayloads: recordPayloads && manager !== undefined && manager !== false,
      recordsClientAddress: recordClientAddress,
      knownClients: knownClientNames(knownClients),
      log: manager === undefined ? new FailureLog() : undefined,
      // A manager of another version does not have the method.
      repeated: new RepeatedRefusals((end) =>
        tryOrUndefined(() => (manager || undefined)?.[atShutdown](end)),
      ),
      emit: (event, attributes) => this.emit(event, attributes),
    }
  }

  get loading(): Promise<void> | undefined {
    return this.#shared.tracing.loading
  }

  /**
   * Records the duration of a session.
   * @param transport `pipe` over stdio, `tcp` over HTTP
   * @param revision one of the revisions that the SDK supports, so that the attribute has few values
   * @param client the client that has begun the session
   */
  sessionEnded(
    transport: 'pipe' | 'tcp',
    durationMs: number,
    revision: string | undefined,
    client: ObservedClient | undefined,
  ): void {
    this.#shared.tracing.recordSession(durationMs, {
      'network.transport': transport,
      ...(transport === 'tcp' && { 'network.protocol.name': 'http' }),
      ...(revision !== undefined && { 'mcp.protocol.version': revision }),
      ...(client?.label !== undefined && { 'mcp.client.name': client.label }),
    })
  }

  /** Emits an event that belongs to no request. Never throws. */
  emit(event: EventName, attributes: Readonly<Record<string, unknown>>): void {
    const { level } = EVENTS[event]
    // The promise is not awaited. It does not reject.
    void tryOrUndefined(() => this.#shared.manager?.emit(`kit.mcp.${event}`, { level, attributes }))
  }

  begin(request: McpRequest): RequestTelemetry {
    const { manager, tracing, log } = this.#shared
    if (manager !== undefined || tryOrUndefined(() => tracing.hasProvider))
      return new InstrumentedRequest(this.#shared, request)
    return log?.begin(request) ?? NO_TELEMETRY
  }
}

/**
 * Returns what observes the requests of middleware that serves no messages itself.
 * @param manager `undefined` for lines on stderr, and `false` for nothing
 */
export function observerOf(
  manager: AnyManager | false | undefined,
  options?: InstrumentationOptions,
): RequestObserver | undefined {
  if (manager === undefined) return new FailureLog()
  return manager === false ? undefined : new Instrumentation(manager, options)
}

/**
 * Records a request that was refused for its `Origin` or its `Host`. Never rejects.
 * @param begun the telemetry of the request, if it has begun
 */
export async function recordForbidden(
  observer: RequestObserver | undefined,
  request: McpRequest,
  reason: ForbiddenSender['reason'],
  begun?: RequestTelemetry,
): Promise<void> {
  if (observer?.loading !== undefined) await observer.loading
  const telemetry = begun ?? tryOrUndefined(() => observer?.begin(request))
  tryOrUndefined(() => telemetry?.decided({ outcome: 'refused', reason }))
}
