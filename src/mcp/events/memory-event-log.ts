import type { LoggedEvent, LogPage, NewEvent, Position } from './store.ts'

/** The memory of an event in addition to its text. */
const EVENT_BYTES = 512
/** The memory of a channel in addition to its name. */
const CHANNEL_BYTES = 64

/** The limits of a log. */
export interface LogLimits {
  readonly maxLogBytes: number
  readonly maxLogAgeMs: number
}

interface Entry extends LoggedEvent {
  readonly channels: Set<string>
}

/** The log of one event type in memory. */
export class MemoryEventLog {
  readonly #limits: LogLimits
  /** In the order of their positions. */
  readonly #entries: Entry[] = []
  #bytes = 0
  #droppedUpTo: Position = 0

  constructor(limits: LogLimits) {
    this.#limits = limits
  }

  append(position: Position, { body, channels }: Pick<NewEvent, 'body' | 'channels'>): void {
    const entry = { position, body, atMs: Date.now(), channels: new Set(channels) }
    this.#entries.push(entry)
    this.#bytes += bytesOf(entry)
    this.trim()
  }

  /** Adds events to channels. Returns the events that are still there. */
  extend(positions: readonly Position[], channels: readonly string[]): readonly LoggedEvent[] {
    const wanted = new Set(positions)
    const found = this.#entries.filter(({ position }) => wanted.has(position))
    for (const entry of found) {
      this.#bytes -= bytesOf(entry)
      for (const channel of channels) entry.channels.add(channel)
      this.#bytes += bytesOf(entry)
    }
    return found
  }

  /** Reads a page, as `EventStore.read` does. */
  read(
    channels: readonly string[],
    { after, maxEvents, maxBytes }: { after: Position; maxEvents: number; maxBytes: number },
  ): Omit<LogPage, 'head'> {
    this.trim()
    const events: LoggedEvent[] = []
    let bytes = 0
    let hasMore = false
    for (let index = this.#firstAfter(after); index < this.#entries.length; index++) {
      const { position, body, atMs, channels: own } = this.#entries[index] as Entry
      if (!channels.some((channel) => own.has(channel))) continue
      bytes += body.length
      hasMore = events.length >= maxEvents || (bytes > maxBytes && events.length > 0)
      if (hasMore) break
      events.push({ position, body, atMs })
    }
    return { events, hasMore, droppedUpTo: this.#droppedUpTo }
  }

  /** Drops the events that are too old, and the oldest ones of a log that is too large. */
  trim(): void {
    const oldestMs = Date.now() - this.#limits.maxLogAgeMs
    let count = 0
    for (const entry of this.#entries) {
      if (this.#bytes <= this.#limits.maxLogBytes && entry.atMs > oldestMs) break
      this.#bytes -= bytesOf(entry)
      this.#droppedUpTo = entry.position
      count++
    }
    this.#entries.splice(0, count)
  }

  /** Returns the index of the first event after a position. */
  #firstAfter(after: Position): number {
    let low = 0
    let high = this.#entries.length
    while (low < high) {
      const middle = (low + high) >> 1
      if ((this.#entries[middle] as Entry).position <= after) low = middle + 1
      else high = middle
    }
    return low
  }
}

/** Strings take at most two bytes per character. */
function bytesOf({ body, channels }: Entry): number {
  let bytes = 2 * body.length + EVENT_BYTES
  for (const channel of channels) bytes += 2 * channel.length + CHANNEL_BYTES
  return bytes
}
