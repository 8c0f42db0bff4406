import { randomUUID } from 'node:crypto'
import { type EventStore, type JSONRPCMessage, ProtocolErrorCode } from '@modelcontextprotocol/server'

/** The number of events that are kept of one session. */
const MAX_EVENTS = 1_000

interface StoredEvent {
  readonly streamId: string
  /** UTF-8 bytes of the JSON. Absent if the event only marks a place in its stream. */
  readonly json: Buffer | undefined
  /** The scopes that a token needs to be given what this stream carries. */
  scopes: readonly string[]
}

const NO_SCOPES: readonly string[] = []

/**
 * The latest events of one session, in memory, so that a client whose stream broke off gets what it missed
 * (`Last-Event-ID`). The oldest are dropped first. An event that is larger than all of them may be is not kept: only its
 * place in the stream is.
 */
export class SessionEvents implements EventStore {
  readonly #maxBytes: number
  readonly #events = new Map<string, StoredEvent>()
  readonly #scopesOf: (message: JSONRPCMessage) => readonly string[] | undefined
  #bytes = 0

  /**
   * @param maxBytes of all events together.
   * @param scopesOf the scopes that a message needs, if any.
   */
  constructor(
    maxBytes: number,
    scopesOf: (message: JSONRPCMessage) => readonly string[] | undefined = () => undefined,
  ) {
    this.#maxBytes = maxBytes
    this.#scopesOf = scopesOf
  }

  /** UTF-8 bytes of the events that are kept. */
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

  /** The scopes that a token needs to go on after this event. */
  scopesAfter(eventId: string): readonly string[] {
    return this.#events.get(eventId)?.scopes ?? NO_SCOPES
  }

  /** Says which scopes a token needs to go on after this event, if that was not known when it was stored. */
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

  /** Nothing of it is on the heap of V8, and its size does not depend on how the message is nested. */
  #jsonOf(message: JSONRPCMessage): Buffer | undefined {
    // An event without a message only marks the beginning of its stream.
    if (Object.keys(message).length === 0) return undefined
    const json = JSON.stringify(message)
    const size = Buffer.byteLength(json)
    if (size <= this.#maxBytes) return bufferOf(json, size)
    // A request must get an answer, also where the answer itself cannot be kept.
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

/** A buffer of its own: one from Node's pool would keep the whole pool in memory. */
function bufferOf(text: string, bytes: number): Buffer {
  const buffer = Buffer.allocUnsafeSlow(bytes)
  buffer.write(text)
  return buffer
}
