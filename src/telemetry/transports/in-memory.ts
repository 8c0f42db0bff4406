import type { TelemetryTransport } from '../delivery/transport.ts'
import type { TelemetryEnvelope } from '../envelope/envelope.ts'

/** Keeps every envelope, without a bound, for tests and development. */
export class InMemoryTransportAdapter implements TelemetryTransport {
  readonly type: string = 'in-memory'
  #events: TelemetryEnvelope[] = []

  /** An empty one. */
  static create(): InMemoryTransportAdapter {
    return new InMemoryTransportAdapter()
  }

  handle(envelope: TelemetryEnvelope): void {
    this.#events.push(envelope)
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
