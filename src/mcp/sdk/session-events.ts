import { randomUUID } from 'node:crypto'
import type { EventStore, JSONRPCMessage } from '@modelcontextprotocol/server'

/** How many events of one session can be asked for again. */
const MAX_EVENTS = 1_000

/** How many UTF-16 units of JSON they may take together. */
const MAX_LENGTH = 1_000_000

interface StoredEvent {
  readonly streamId: string
  readonly message: JSONRPCMessage
  readonly length: number
}

/**
 * The latest events of one session, in memory, so that a client whose stream broke off gets what it missed
 * (`Last-Event-ID`). The oldest go first.
 */
export class SessionEvents implements EventStore {
  readonly #events = new Map<string, StoredEvent>()
  #length = 0

  async storeEvent(streamId: string, message: JSONRPCMessage): Promise<string> {
    const id = randomUUID()
    const { length } = JSON.stringify(message)
    this.#events.set(id, { streamId, message, length })
    this.#length += length
    for (const [oldest, event] of this.#events) {
      if (this.#events.size <= MAX_EVENTS && (this.#length <= MAX_LENGTH || oldest === id)) break
      this.#events.delete(oldest)
      this.#length -= event.length
    }
    return id
  }

  async getStreamIdForEventId(eventId: string): Promise<string | undefined> {
    return this.#events.get(eventId)?.streamId
  }

  async replayEventsAfter(
    lastEventId: string,
    { send }: { send: (eventId: string, message: JSONRPCMessage) => Promise<void> },
  ): Promise<string> {
    const last = this.#events.get(lastEventId)
    if (last === undefined) return ''
    let missed = false
    for (const [id, { streamId, message }] of [...this.#events]) {
      // An event without a message only marked the beginning of its stream.
      if (missed && streamId === last.streamId && Object.keys(message).length > 0) await send(id, message)
      if (id === lastEventId) missed = true
    }
    return last.streamId
  }
}
