import { randomUUID } from 'node:crypto'
import { type EventStore, type JSONRPCMessage, ProtocolErrorCode } from '@modelcontextprotocol/server'

/** The maximum number of events of streams that a session keeps. */
const MAX_EVENTS = 1_000

/** The maximum number of responses without a stream of their own that a session keeps. */
const MAX_RESPONSES = 32

interface StoredEvent {
  readonly streamId: string
  /** The JSON. Undefined if it is too large or if the event only marks a position in its stream. */
  readonly json: KeptJson | undefined
  /** The scopes that a token needs to receive the stream of this event. */
  scopes: readonly string[]
}

/** The ids of the events of a response: the beginning of its stream, which has the id of the stream, and the message. */
interface ResponseIds {
  readonly beginning: string
  readonly message: string
}

/** The end of the id of a message that `ResponseIds` names. */
const MESSAGE = ':message'

/** JSON in a buffer, which is not on the heap of V8. ASCII of up to `MAX_SHORT` characters is a string, which costs less. */
type KeptJson = Buffer | string

/** The maximum length of JSON that is kept as a string, in characters. */
const MAX_SHORT = 512

/** The memory that an event takes in addition to its JSON, in bytes: its object, its id, its entry, and its stream. */
const EVENT_BYTES = 600

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
  /** By id. A response that was stored as a whole has the id of its stream. */
  readonly #events = new Map<string, StoredEvent>()
  /** The ids of the responses among them. Undefined until there is one, because an empty set takes memory. */
  #responses: Set<string> | undefined
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
    return this.store(joined(streamId), message)
  }

  /** Stores a message of a stream. Returns its id. */
  store(streamId: string, message: JSONRPCMessage): string {
    const id = this.#nextId()
    // An event without a message only marks the beginning of its stream.
    const isBeginning = Object.keys(message).length === 0
    const json = isBeginning ? undefined : this.#keptJson(message, JSON.stringify(message))
    this.#keep(id, { streamId, json, scopes: neededScopes.get(message) ?? NO_SCOPES })
    return id
  }

  /** Stores a response as a stream of two events. @param json the response as JSON */
  storeResponse(response: JSONRPCMessage, json: string, scopes: readonly string[]): ResponseIds {
    const streamId = this.#nextId()
    this.#responses ??= new Set()
    this.#responses.add(streamId)
    this.#keep(streamId, { streamId, json: this.#keptJson(response, json), scopes })
    if (this.#responses.size > MAX_RESPONSES) this.#drop(this.#responses.keys().next().value as string)
    return { beginning: streamId, message: streamId + MESSAGE }
  }

  async getStreamIdForEventId(eventId: string): Promise<string | undefined> {
    return this.streamOf(eventId)
  }

  streamOf(eventId: string): string | undefined {
    return this.#find(eventId)?.streamId
  }

  /** Returns the scopes that a token needs to resume the stream after this event. */
  scopesAfter(eventId: string): readonly string[] {
    return this.#find(eventId)?.scopes ?? NO_SCOPES
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
    const streamId = this.streamOf(lastEventId) ?? ''
    for (const [id, message] of this.missedAfter(lastEventId)) if (permits(message)) await send(id, message)
    return streamId
  }

  /** Returns the messages of a stream that follow one of its events, with their ids. */
  *missedAfter(lastEventId: string): Iterable<[id: string, message: JSONRPCMessage]> {
    const last = this.#find(lastEventId)
    if (last === undefined) return
    if (this.#isResponse(last.streamId)) {
      if (lastEventId === last.streamId && last.json !== undefined)
        yield [lastEventId + MESSAGE, parsed(last.json)]
      return
    }
    let isMissed = false
    for (const [id, { streamId, json }] of [...this.#events]) {
      if (isMissed && streamId === last.streamId && json !== undefined) yield [id, parsed(json)]
      if (id === lastEventId) isMissed = true
    }
  }

  /** Drops the event that was stored first. Returns `false` if there is none. */
  dropOldest(): boolean {
    const oldest = this.#events.keys().next()
    if (oldest.done === true) return false
    this.#drop(oldest.value)
    return true
  }

  /** Returns a short id, because a UUID takes more memory. See `joined`. */
  #nextId(): string {
    return this.#prefix + ++this.#lastId
  }

  #find(eventId: string): StoredEvent | undefined {
    if (!eventId.endsWith(MESSAGE)) return this.#events.get(eventId)
    const streamId = eventId.slice(0, -MESSAGE.length)
    return this.#isResponse(streamId) ? this.#events.get(streamId) : undefined
  }

  #isResponse(streamId: string): boolean {
    return this.#responses?.has(streamId) === true
  }

  #keep(id: string, event: StoredEvent): void {
    this.#events.set(id, event)
    this.#count(sizeOf(event))
    while (this.#events.size > MAX_EVENTS || this.#bytes > this.#maxBytes) this.dropOldest()
  }

  #drop(id: string): void {
    const event = this.#events.get(id)
    this.#events.delete(id)
    this.#responses?.delete(id)
    if (event !== undefined) this.#count(-sizeOf(event))
  }

  #count(bytes: number): void {
    this.#bytes += bytes
    this.#onChange(bytes)
  }

  /** Returns the JSON in the form in which it is kept. Nesting does not change the size of either form. */
  #keptJson(message: JSONRPCMessage, json: string): KeptJson | undefined {
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

/** Returns the same string in one piece. A UUID takes half a kilobyte of memory, because Node.js concatenates it from many parts. */
function joined(text: string): string {
  return Buffer.from(text).toString()
}

function sizeOf({ json }: StoredEvent): number {
  return EVENT_BYTES + (json?.length ?? 0)
}

function parsed(json: KeptJson): JSONRPCMessage {
  return JSON.parse(json.toString())
}
