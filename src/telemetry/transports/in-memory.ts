import type { TelemetryTransport } from '../delivery/transport.ts'
import type { TelemetryEnvelope } from '../envelope/envelope.ts'

/**
 * Keeps all envelopes in memory, without a limit, for tests and development.
 *
 * @example
 * ```ts
 * import { InMemoryTransportAdapter, KitTelemetry } from 'mcp-gatekit/telemetry'
 *
 * const transport = InMemoryTransportAdapter.create()
 * KitTelemetry.create().addTransport(transport).build().emit('job.failed', { level: 'error' })
 * transport.getEvents().length // 1
 * ```
 * @see docs/reference/transports.md
 */
export class InMemoryTransportAdapter implements TelemetryTransport {
  readonly type: string = 'in-memory'
  #events: TelemetryEnvelope[] = []

  /** Creates an empty transport. */
  static create(): InMemoryTransportAdapter {
    return new InMemoryTransportAdapter()
  }

  /**
   * Keeps an event.
   * @param envelope the event.
   */
  handle(envelope: TelemetryEnvelope): void {
    this.#events.push(envelope)
  }

  /** Returns a new array of all envelopes, in the order of the `emit` calls. */
  getEvents(): TelemetryEnvelope[] {
    return [...this.#events]
  }

  /** Removes all envelopes. */
  clear(): void {
    this.#events = []
  }
}

/**
 * Replaces a transport in tests, and keeps the envelopes that it receives.
 *
 * @example
 * ```ts
 * import { KitTelemetry, MockTelemetryAdapter } from 'mcp-gatekit/telemetry'
 *
 * const transport = MockTelemetryAdapter.create()
 * KitTelemetry.create().addTransport(transport).build().emit('job.failed', { level: 'error' })
 * transport.getLastEvent()?.name // 'job.failed'
 * ```
 * @see docs/guides/testing.md
 */
export class MockTelemetryAdapter extends InMemoryTransportAdapter {
  override readonly type: string = 'mock'

  /** Creates an empty mock transport. */
  static override create(): MockTelemetryAdapter {
    return new MockTelemetryAdapter()
  }

  /** Returns the latest envelope, or `undefined` if there is none. */
  getLastEvent(): TelemetryEnvelope | undefined {
    return this.getEvents().at(-1)
  }
}
