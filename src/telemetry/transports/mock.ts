import type { TelemetryTransport } from '../delivery/transport.ts'
import type { TelemetryEnvelope } from '../envelope/envelope.ts'

/** Stands in for a transport in tests, and tells what it was given. */
export class MockTelemetryAdapter implements TelemetryTransport {
  readonly type: string = 'mock'
  #events: TelemetryEnvelope[] = []

  /** One that was given nothing yet. */
  static create(): MockTelemetryAdapter {
    return new MockTelemetryAdapter()
  }

  handle(envelope: TelemetryEnvelope): void {
    this.#events.push(envelope)
  }

  /** The most recent envelope, or `undefined` when there is none. */
  getLastEvent(): TelemetryEnvelope | undefined {
    return this.#events.at(-1)
  }

  /** All envelopes so far, in the order of the emits. A copy of the list. */
  getEvents(): TelemetryEnvelope[] {
    return [...this.#events]
  }

  /** Forgets them. */
  clear(): void {
    this.#events = []
  }
}
