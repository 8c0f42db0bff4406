import { randomUUID } from 'node:crypto'
import { type JSONRPCMessage, ProtocolErrorCode } from '@modelcontextprotocol/server'

/** The maximum number of events of streams that a session keeps. */
const MAX_EVENTS = 1_000

/** The time after which a client opens a stream again that has ended, in milliseconds. */
const RETRY_MS = 1_000

interface StoredEvent {
  readonly streamId: number
  /** The JSON, which is not on the heap of V8. Undefined if it is too large or if the event only marks a position in its stream. */
  readonly json: Buffer | undefined
  /** The scopes that a token needs to receive the stream of this event. */
  readonly scopes: readonly string[]
}

/** The memory that an event takes in addition to its JSON, in bytes: its object, its id, its entry, and its stream. */
const EVENT_BYTES = 600

/** The memory that an event without JSON takes, in bytes. */
const POSITION_BYTES = 200

/**
 * The latest events of one session, in memory. A client whose stream has broken off receives the events that it missed
 * (`Last-Event-ID`). The oldest events are dropped first. If an event is larger than the limit for all events, only its
 * position in the stream is kept.
 */
export class SessionEvents {
  readonly #maxBytes: number
  readonly #events = new Map<string, StoredEvent>()
  readonly #onKept: () => void
  /** The beginning of the ids of this session, so that the ids of another session are unknown. */
  readonly #prefix = randomUUID().slice(0, 8)
  #bytes = 0
  #lastId = 0

  /**
   * @param maxBytes the limit for all events together
   * @param onKept called when a further event is kept
   */
  constructor(maxBytes: number, onKept: () => void = () => undefined) {
    this.#maxBytes = maxBytes
    this.#onKept = onKept
  }

  /** The memory that the kept events take, in bytes. */
  get bytes(): number {
    return this.#bytes
  }

  /**
   * Keeps an event, and returns its text.
   * @param scopes the scopes that a token needs to receive the event again
   * @param message the message. Without one, the event marks the beginning of its stream.
   */
  store(streamId: number, scopes: readonly string[], message?: JSONRPCMessage): string {
    // A short id, because a UUID takes more memory.
    const id = this.#prefix + ++this.#lastId
    if (message === undefined) {
      this.#keep(id, { streamId, json: undefined, scopes })
      return `id: ${id}\nretry: ${RETRY_MS}\ndata: \n\n`
    }
    const json = JSON.stringify(message)
    this.#keep(id, { streamId, json: this.#keptJson(message, json), scopes })
    return eventOf(id, json)
  }

  /** Returns the stream of an event and the scopes that a token needs to resume it, if the event is kept. */
  find(eventId: string): Pick<StoredEvent, 'streamId' | 'scopes'> | undefined {
    return this.#events.get(eventId)
  }

  /** Returns the texts of the messages in a stream after an event. @param permits returns `true` if the client may read one */
  after(lastEventId: string, permits: (message: JSONRPCMessage) => boolean = () => true): string[] {
    const streamId = this.find(lastEventId)?.streamId
    const texts: string[] = []
    let isMissed = false
    for (const [id, event] of this.#events) {
      if (isMissed && event.streamId === streamId && event.json !== undefined) {
        const json = event.json.toString()
        if (permits(JSON.parse(json))) texts.push(eventOf(id, json))
      }
      if (id === lastEventId) isMissed = true
    }
    return texts
  }

  /** Drops the event that was stored first. Returns the bytes that it took: 0 if there is none. */
  dropOldest(): number {
    const [oldest] = this.#events
    if (oldest === undefined) return 0
    this.#events.delete(oldest[0])
    const bytes = sizeOf(oldest[1])
    this.#bytes -= bytes
    return bytes
  }

  #keep(id: string, event: StoredEvent): void {
    this.#events.set(id, event)
    this.#bytes += sizeOf(event)
    while (this.#events.size > MAX_EVENTS || this.#bytes > this.#maxBytes) this.dropOldest()
    this.#onKept()
  }

  /** Returns the JSON in the form in which it is kept. Nesting does not change its size. */
  #keptJson(message: JSONRPCMessage, json: string): Buffer | undefined {
    const size = Buffer.byteLength(json)
    const max = this.#maxBytes - EVENT_BYTES
    if (size <= max) return kept(json, size)
    // A request must get a response, even if its own response cannot be kept.
    if ('method' in message || !('id' in message)) return undefined
    const text = `The response has ${size} bytes, more than the ${max} that are kept of a session.`
    const error = { code: ProtocolErrorCode.InternalError, message: text }
    const replacement = JSON.stringify({ jsonrpc: '2.0', id: message.id, error })
    const replacementSize = Buffer.byteLength(replacement)
    return replacementSize <= max ? kept(replacement, replacementSize) : undefined
  }
}

function eventOf(id: string, json: string): string {
  return `event: message\nid: ${id}\ndata: ${json}\n\n`
}

/** Copies JSON to a buffer outside Node's pool, because it would keep the whole pool in memory. */
function kept(json: string, bytes: number): Buffer {
  const buffer = Buffer.allocUnsafeSlow(bytes)
  buffer.write(json)
  return buffer
}

function sizeOf({ json }: StoredEvent): number {
  return json === undefined ? POSITION_BYTES : EVENT_BYTES + json.length
}
