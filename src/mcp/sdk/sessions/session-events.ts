import { randomUUID } from 'node:crypto'
import { type EventStore, type JSONRPCMessage, ProtocolErrorCode } from '@modelcontextprotocol/server'
import { copyWellFormed } from '../../../runtime.ts'

/** The maximum number of events of streams that a session keeps. */
const MAX_EVENTS = 1_000

/** The stream that a client opens with GET, in the event store of the SDK. */
export const STANDALONE_STREAM = '_GET_stream'

interface StoredEvent {
  readonly streamId: string
  /** The JSON. Undefined if it is too large or if the event only marks a position in its stream. */
  readonly json: KeptJson | undefined
  /** The scopes that a token needs to receive the stream of this event. */
  scopes: readonly string[]
}

/** JSON in a buffer, which is not on the heap of V8. ASCII of up to `MAX_SHORT` characters is a string, which costs less. */
type KeptJson = Buffer | string

/** The maximum length of JSON that is kept as a string, in characters. */
const MAX_SHORT = 512

/** The memory that an event takes in addition to its JSON, in bytes: its object, its id, its entry, and its stream. */
const EVENT_BYTES = 600

/** The memory that an event without JSON takes, in bytes. */
const POSITION_BYTES = 200

const NO_SCOPES: readonly string[] = []

/** The scopes that a token needs to receive a message again. All sessions share the map, because an empty one takes memory. */
const neededScopes = new WeakMap<JSONRPCMessage, readonly string[]>()

/**
 * The latest events of one session, in memory. A client whose stream has broken off receives the events that it missed
 * (`Last-Event-ID`). The oldest events are dropped first. If an event is larger than the limit for all events, only its
 * position in the stream is kept.
 */
export class SessionEvents implements EventStore {
  readonly #maxBytes: number
  /** Returns `true` for a message that the client who resumes a stream may read. */
  permits: (message: JSONRPCMessage) => boolean = () => true
  readonly #events = new Map<string, StoredEvent>()
  readonly #onChange: (bytes: number) => void
  /** The beginning of the ids of this session, so that the ids of another session are unknown. */
  readonly #prefix = randomUUID().slice(0, 8)
  #bytes = 0
  #lastId = 0

  /**
   * @param maxBytes the limit for all events together
   * @param onChange receives the bytes that the events take in addition, or no longer
   */
  constructor(maxBytes: number, onChange: (bytes: number) => void = () => undefined) {
    this.#maxBytes = maxBytes
    this.#onChange = onChange
  }

  /** The memory that the kept events take, in bytes. */
  get bytes(): number {
    return this.#bytes
  }

  /** Sets the scopes that a token needs to receive a message again. Must be called before the message is stored. */
  needScopes(message: JSONRPCMessage, scopes: readonly string[]): void {
    if (scopes.length > 0) neededScopes.set(message, scopes)
  }

  async storeEvent(streamId: string, message: JSONRPCMessage): Promise<string> {
    // A short id, because a UUID takes more memory. The UUID of the stream takes half a kilobyte until it is copied.
    const id = this.#prefix + ++this.#lastId
    // An event without a message only marks the beginning of its stream.
    const json = Object.keys(message).length === 0 ? undefined : this.#keptJson(message)
    this.#keep(id, {
      streamId: copyWellFormed(streamId),
      json,
      scopes: neededScopes.get(message) ?? NO_SCOPES,
    })
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
  ): Promise<string> {
    const { permits } = this
    const streamId = this.streamOf(lastEventId) ?? ''
    let isMissed = false
    for (const [id, event] of [...this.#events]) {
      if (isMissed && event.streamId === streamId && event.json !== undefined) {
        const message = JSON.parse(event.json.toString())
        if (permits(message)) await send(id, message)
      }
      if (id === lastEventId) isMissed = true
    }
    return streamId
  }

  /** Drops the event that was stored first. Returns `false` if there is none. */
  dropOldest(): boolean {
    const oldest = this.#events.keys().next()
    if (oldest.done === true) return false
    this.#drop(oldest.value)
    return true
  }

  #keep(id: string, event: StoredEvent): void {
    this.#events.set(id, event)
    this.#count(sizeOf(event))
    while (this.#events.size > MAX_EVENTS || this.#bytes > this.#maxBytes) this.dropOldest()
  }

  #drop(id: string): void {
    const event = this.#events.get(id)
    this.#events.delete(id)
    if (event !== undefined) this.#count(-sizeOf(event))
  }

  #count(bytes: number): void {
    this.#bytes += bytes
    this.#onChange(bytes)
  }

  /** Returns the JSON in the form in which it is kept. Nesting does not change the size of either form. */
  #keptJson(message: JSONRPCMessage): KeptJson | undefined {
    const json = JSON.stringify(message)
    const size = Buffer.byteLength(json)
    const max = this.#maxBytes - EVENT_BYTES
    if (size <= max) return keptForm(json, size)
    // A request must get a response, even if its own response cannot be kept.
    if ('method' in message || !('id' in message)) return undefined
    const replacement = JSON.stringify({
      jsonrpc: '2.0',
      id: message.id,
      error: {
        code: ProtocolErrorCode.InternalError,
        message: `The response has ${size} bytes, more than the ${max} that are kept of a session.`,
      },
    })
    const replacementSize = Buffer.byteLength(replacement)
    return replacementSize <= max ? keptForm(replacement, replacementSize) : undefined
  }
}

/** Returns JSON as it is kept. A buffer is outside Node's pool, because it would keep the whole pool in memory. */
function keptForm(json: string, bytes: number): KeptJson {
  if (bytes === json.length && bytes <= MAX_SHORT) return json
  const buffer = Buffer.allocUnsafeSlow(bytes)
  buffer.write(json)
  return buffer
}

function sizeOf({ json }: StoredEvent): number {
  return json === undefined ? POSITION_BYTES : EVENT_BYTES + json.length
}
