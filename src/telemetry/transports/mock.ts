import type { TelemetryTransport } from '../delivery/transport.ts'
import type { TelemetryEnvelope } from '../envelope/envelope.ts'

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
export class MockTelemetryAdapter implements TelemetryTransport {
  readonly type: string = 'mock'
  #events: TelemetryEnvelope[] = []

  /** Creates an empty mock transport. */
  static create(): MockTelemetryAdapter {
    return new MockTelemetryAdapter()
  }

  /**
   * Keeps an event.
   * @param envelope the event.
   */
  handle(envelope: TelemetryEnvelope): void {
    this.#events.push(envelope)
  }

  /** Returns the latest envelope, or `undefined` if there is none. */
  getLastEvent(): TelemetryEnvelope | undefined {
    return this.#events.at(-1)
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
