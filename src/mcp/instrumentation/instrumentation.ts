import { atShutdown } from '../../base/at-shutdown.ts'
import { CLIENT_NAMES } from '../../base/client-names.ts'
import { tryOrUndefined } from '../../base/try-or-undefined.ts'
import type { ForbiddenSender } from '../../oauth/decision.ts'
import type { ObservedClient, RequestTelemetry } from '../wire/exchange.ts'
import type { McpRequest } from '../wire/mcp-request.ts'
import { FailureLog } from './failure-log.ts'
import { MinuteCounts } from './minute-counts.ts'
import { ObservedRequest } from './observed-request.ts'
import { type AnyManager, EVENTS, type EventName, type SharedInstrumentation } from './request-events.ts'
import { Tracing } from './tracing.ts'

/** The global under which each copy of version 1 of the API of OpenTelemetry finds the registered providers. */
const REGISTRATIONS = Symbol.for('opentelemetry.js.api.1')

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
export class Instrumentation {
  readonly #shared: SharedInstrumentation
  readonly #refusals = new MinuteCounts()
  #endsRefusals = false

  /**
   * @param manager `undefined` for lines on stderr, and `false` for none
   * @param usesProviders `false` if spans and metrics are recorded only together with events
   */
  constructor(
    manager: AnyManager | false | undefined,
    options: InstrumentationOptions = {},
    usesProviders = true,
  ) {
    const { recordPayloads = false, recordClientAddress = false, knownClients = [] } = options
    this.#shared = {
      manager: manager || undefined,
      tracing: manager || usesProviders ? new Tracing(options.recordSpans) : undefined,
      recordsPayloads: recordPayloads && manager !== undefined && manager !== false,
      recordsClientAddress: recordClientAddress,
      knownClients: new Set([...Object.values(CLIENT_NAMES).flat(), ...knownClients]),
      log: manager === undefined ? new FailureLog() : undefined,
      isFirstRefusal: (address) => this.#isFirstRefusal(address),
    }
  }

  /** Resolves when `begin` may be called. Undefined if it may be called at once. Never rejects. */
  get loading(): Promise<void> | undefined {
    return this.#registered?.loading
  }

  /** Undefined as long as no provider is registered. */
  get #registered(): Tracing | undefined {
    return REGISTRATIONS in globalThis ? this.#shared.tracing : undefined
  }

  /** Begins the telemetry of a request. */
  begin(request: McpRequest): RequestTelemetry {
    const isObserved = this.#shared.manager !== undefined || this.#registered?.hasProvider === true
    return new ObservedRequest(this.#shared, request, isObserved)
  }

  /** Begins the telemetry of a request as soon as it may begin. Never rejects. */
  begun(request: McpRequest): RequestTelemetry | Promise<RequestTelemetry> {
    const { loading } = this
    return loading === undefined ? this.begin(request) : loading.then(() => this.begin(request))
  }

  /**
   * Records a request that was refused for its `Origin` or its `Host`. Never rejects.
   * @param begun the telemetry of the request, if it has begun
   */
  async forbidden(
    request: McpRequest,
    reason: ForbiddenSender['reason'],
    begun: RequestTelemetry | Promise<RequestTelemetry> = this.begun(request),
  ): Promise<void> {
    const telemetry = await begun
    telemetry.finished({ outcome: 'refused', reason })
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
    this.#shared.tracing?.measure('sessions', durationMs / 1000, {
      'network.transport': transport,
      'network.protocol.name': transport === 'tcp' ? 'http' : undefined,
      'mcp.protocol.version': revision,
      'mcp.client.name': client?.label,
    })
  }

  /** Emits an event that belongs to no request. Never throws. */
  emit(event: EventName, attributes: Readonly<Record<string, unknown>>): void {
    const { level } = EVENTS[event]
    // The promise is not awaited. It does not reject.
    void tryOrUndefined(() => this.#shared.manager?.emit(`kit.mcp.${event}`, { level, attributes }))
  }

  /** Returns `true` for the first refusal of an address in a minute. The others are counted in one event. */
  #isFirstRefusal(address: string): boolean {
    const { manager } = this.#shared
    // A manager of another version does not have the method.
    if (!this.#endsRefusals) tryOrUndefined(() => manager?.[atShutdown](() => this.#refusals.end()))
    this.#endsRefusals = true
    const count = this.#refusals.add(address, (all) => {
      if (all > 1) this.emit('auth.refused', { reason: 'rate_limited', 'kit.refused.count': all - 1 })
    })
    return count === 1
  }
}
