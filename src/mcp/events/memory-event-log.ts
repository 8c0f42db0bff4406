import { randomUUID } from 'node:crypto'
import type { LoggedEvent, LogPage, LogState, Position } from './store.ts'

/** The memory of an event in addition to its text. */
const EVENT_BYTES = 512

interface Entry extends LoggedEvent {
  readonly channels: readonly string[]
  readonly bytes: number
}

/** The log of one event type in memory. */
export class MemoryEventLog {
  readonly #limits: { readonly maxLogBytes: number; readonly maxLogAgeMs: number }
  readonly #epoch = randomUUID().slice(0, 8)
  /** The last events, without gaps in their positions. */
  readonly #entries: Entry[] = []
  #head: Position = 0
  #bytes = 0

  constructor(limits: { readonly maxLogBytes: number; readonly maxLogAgeMs: number }) {
    this.#limits = limits
  }

  get state(): LogState {
    return { epoch: this.#epoch, head: this.#head }
  }

  append(body: string, channels: readonly string[]): Position {
    const bytes = 2 * (body.length + channels.join().length) + EVENT_BYTES
    this.#entries.push({ position: ++this.#head, body, atMs: Date.now(), channels, bytes })
    this.#bytes += bytes
    this.trim()
    return this.#head
  }

  /** Reads a page, as `EventStore.read` does. */
  read(
    channels: readonly string[],
    { after, maxEvents, maxBytes }: { after: Position; maxEvents: number; maxBytes: number },
  ): LogPage {
    this.trim()
    const events: LoggedEvent[] = []
    const droppedUpTo = this.#head - this.#entries.length
    let bytes = 0
    for (const entry of this.#entries.slice(Math.max(0, after - droppedUpTo))) {
      if (!channels.some((channel) => entry.channels.includes(channel))) continue
      bytes += entry.body.length
      const last = events.at(-1)
      if (last !== undefined && (events.length >= maxEvents || bytes > maxBytes))
        return { ...this.state, droppedUpTo, events, hasMore: true, position: last.position }
      events.push(entry)
    }
    return { ...this.state, droppedUpTo, events, hasMore: false, position: this.#head }
  }

  /** Drops the events that are too old, and the oldest ones of a log that is too large. */
  trim(): void {
    const { maxLogBytes, maxLogAgeMs } = this.#limits
    const oldestMs = Date.now() - maxLogAgeMs
    let count = 0
    for (const { atMs, bytes } of this.#entries) {
      if (this.#bytes <= maxLogBytes && atMs > oldestMs) break
      this.#bytes -= bytes
      count++
    }
    this.#entries.splice(0, count)
  }
}
