import { randomUUID } from 'node:crypto'
import { type EventStore, type JSONRPCMessage, ProtocolErrorCode } from '@modelcontextprotocol/server'

/** The maximum number of events that a session keeps. */
const MAX_EVENTS = 1_000

interface StoredEvent {
  readonly streamId: string
  /** The JSON in UTF-8. Absent if the event only marks a position in its stream. */
  readonly json: Buffer | undefined
  /** The scopes that a token needs to receive this stream. */
  scopes: readonly string[]
}

const NO_SCOPES: readonly string[] = []

/**
 * The latest events of one session, in memory. A client whose stream has broken off receives the events that it missed
 * (`Last-Event-ID`). The oldest events are dropped first. If an event is larger than the limit for all events, only its
 * position in the stream is kept.
 */
export class SessionEvents implements EventStore {
  readonly #maxBytes: number
  readonly #events = new Map<string, StoredEvent>()
  readonly #scopesOf: (message: JSONRPCMessage) => readonly string[] | undefined
  #bytes = 0

  /**
   * @param maxBytes the limit for all events together
   * @param scopesOf returns the scopes that a message needs, if any
   */
  constructor(
    maxBytes: number,
    scopesOf: (message: JSONRPCMessage) => readonly string[] | undefined = () => undefined,
  ) {
    this.#maxBytes = maxBytes
    this.#scopesOf = scopesOf
  }

  /** The size of the kept events in UTF-8 bytes. */
  get bytes(): number {
    return this.#bytes
  }

  async storeEvent(streamId: string, message: JSONRPCMessage): Promise<string> {
    const id = randomUUID()
    const json = this.#jsonOf(message)
    this.#events.set(id, { streamId, json, scopes: this.#scopesOf(message) ?? NO_SCOPES })
    this.#bytes += json?.length ?? 0
    for (const [oldest, event] of this.#events) {
      if (this.#events.size <= MAX_EVENTS && this.#bytes <= this.#maxBytes) break
      this.#events.delete(oldest)
      this.#bytes -= event.json?.length ?? 0
    }
    return id
  }

  async getStreamIdForEventId(eventId: string): Promise<string | undefined> {
    return this.streamOf(eventId)
  }

  streamOf(eventId: string): string | undefined {
    return this.#events.get(eventId)?.streamId
  }

  /** Returns the scopes that a token needs to resume the stream after this event. */
  scopesAfter(eventId: string): readonly string[] {
    return this.#events.get(eventId)?.scopes ?? NO_SCOPES
  }

  /** Sets the scopes that a token needs to resume the stream after this event. */
  restrict(eventId: string, scopes: readonly string[]): void {
    const event = this.#events.get(eventId)
    if (event !== undefined) event.scopes = scopes
  }

  async replayEventsAfter(
    lastEventId: string,
    { send }: { send: (eventId: string, message: JSONRPCMessage) => Promise<void> },
    permits: (message: JSONRPCMessage) => boolean = () => true,
  ): Promise<string> {
    const last = this.#events.get(lastEventId)
    if (last === undefined) return ''
    let missed = false
    for (const [id, { streamId, json }] of [...this.#events]) {
      if (missed && streamId === last.streamId && json !== undefined) {
        const message = JSON.parse(json.toString('utf8'))
        if (permits(message)) await send(id, message)
      }
      if (id === lastEventId) missed = true
    }
    return last.streamId
  }

  /** Returns the JSON in a buffer. The buffer is not on the heap of V8, and nesting does not change its size. */
  #jsonOf(message: JSONRPCMessage): Buffer | undefined {
    // An event without a message only marks the beginning of its stream.
    if (Object.keys(message).length === 0) return undefined
    const json = JSON.stringify(message)
    const size = Buffer.byteLength(json)
    if (size <= this.#maxBytes) return bufferOf(json, size)
    // A request must get a response, even if its own response cannot be kept.
    if ('method' in message || !('id' in message)) return undefined
    const replacement = JSON.stringify({
      jsonrpc: '2.0',
      id: message.id,
      error: {
        code: ProtocolErrorCode.InternalError,
        message: `The response has ${size} bytes, more than the ${this.#maxBytes} that are kept of a session.`,
      },
    })
    const replacementSize = Buffer.byteLength(replacement)
    return replacementSize <= this.#maxBytes ? bufferOf(replacement, replacementSize) : undefined
  }
}

/** Returns a buffer outside Node's pool. A buffer of the pool would keep the whole pool in memory. */
function bufferOf(text: string, bytes: number): Buffer {
  const buffer = Buffer.allocUnsafeSlow(bytes)
  buffer.write(text)
  return buffer
}
