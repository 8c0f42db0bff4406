import { type ConsoleEvent, durationOf, type EventKind, kindOf } from './event-kind.ts'
import { Timings } from './timings.ts'

/** Events the page keeps; what is older is forgotten. */
export const MAX_EVENTS = 2000
/** Sessions it keeps. */
const MAX_SESSIONS = 100

/** An event, and what it comes to. */
export interface Entry {
  readonly event: ConsoleEvent
  readonly kind: EventKind
}

/** A telemetry session: with the gate, one request. */
export interface SessionSummary {
  readonly id: string
  readonly startedAt: string
  who: string | undefined
  events: number
  /** Whether something in it was refused or failed. */
  trouble: boolean
  /** What happened in it last. */
  latest: string
  /** The MCP session it was in, for clients that have one. */
  mcpSession: string | undefined
}

export interface Counts {
  accepted: number
  refused: number
  outages: number
  toolCalls: number
  toolFailures: number
  events: number
}

const NONE: Counts = { accepted: 0, refused: 0, outages: 0, toolCalls: 0, toolFailures: 0, events: 0 }

/** What is to be seen. */
export interface Filter {
  readonly view: 'all' | 'gate' | 'tool' | 'trouble'
  /** Words, all of which must be in the event; one behind a minus sign must not. */
  readonly text: string
}

/** The latest events with what was counted of all. Knows nothing of the page. */
export class EventStore {
  readonly timings: Timings = new Timings()
  #counts: Counts = { ...NONE }
  #lastReason: string | undefined
  #entries: Entry[] = []
  readonly #sessions = new Map<string, SessionSummary>()
  /** Of entries that were searched, what is searched in. */
  #texts = new WeakMap<Entry, string>()

  get counts(): Readonly<Counts> {
    return this.#counts
  }

  /** Why the gate refused last. */
  get lastReason(): string | undefined {
    return this.#lastReason
  }

  /** The oldest first. */
  get entries(): readonly Entry[] {
    return this.#entries
  }

  /** @returns the entries that were made of the events */
  add(events: readonly ConsoleEvent[]): readonly Entry[] {
    const added = events.map((event) => ({ event, kind: kindOf(event) }))
    for (const entry of added) this.#count(entry)
    this.#entries = [...this.#entries, ...added].slice(-MAX_EVENTS)
    return added
  }

  /** The one that began last comes first. */
  sessions(): readonly SessionSummary[] {
    return [...this.#sessions.values()].reverse()
  }

  /** Forgets everything. */
  clear(): void {
    this.#counts = { ...NONE }
    this.#lastReason = undefined
    this.#entries = []
    this.#sessions.clear()
    this.#texts = new WeakMap()
    this.timings.clear()
  }

  matches(entry: Entry, { view, text }: Filter): boolean {
    const { kind } = entry
    if (
      view === 'trouble'
        ? kind.tone === 'plain' || kind.tone === 'good'
        : view !== 'all' && kind.group !== view
    )
      return false
    const words = text.toLowerCase().split(/\s+/)
    return words.every((word) => {
      if (word === '' || word === '-') return true
      return word.startsWith('-')
        ? !this.#textOf(entry).includes(word.slice(1))
        : this.#textOf(entry).includes(word)
    })
  }

  #textOf(entry: Entry): string {
    let text = this.#texts.get(entry)
    if (text === undefined) {
      text = `${entry.kind.word} ${entry.kind.title} ${JSON.stringify(entry.event)}`.toLowerCase()
      this.#texts.set(entry, text)
    }
    return text
  }

  #count({ event, kind }: Entry): void {
    const counts = this.#counts
    counts.events++
    if (event.name === 'kit.mcp.auth.accepted') counts.accepted++
    else if (event.name === 'kit.mcp.auth.unavailable') counts.outages++
    else if (event.name === 'kit.mcp.auth.refused') {
      counts.refused++
      this.#lastReason = String(event.attributes?.reason)
    } else if (kind.group === 'tool') {
      const failed = kind.tone === 'bad'
      counts.toolCalls++
      if (failed) counts.toolFailures++
      const ms = durationOf(event)
      const tool = String(event.attributes?.['gen_ai.tool.name'] ?? '')
      if (ms !== undefined) this.timings.add({ number: event.number, tool, ms, failed })
    }
    this.#countSession(event, kind)
  }

  #countSession(event: ConsoleEvent, kind: EventKind): void {
    let session = this.#sessions.get(event.sessionId)
    if (session === undefined) {
      session = {
        id: event.sessionId,
        startedAt: event.time,
        who: undefined,
        events: 0,
        trouble: false,
        latest: '',
        mcpSession: undefined,
      }
      this.#sessions.set(event.sessionId, session)
      if (this.#sessions.size > MAX_SESSIONS)
        this.#sessions.delete(this.#sessions.keys().next().value as string)
    }
    session.events++
    session.latest = `${kind.word}: ${kind.title}`
    session.who ??= event.actor?.id ?? event.actor?.type
    session.trouble ||= kind.tone === 'bad'
    const mcpSession = event.attributes?.['mcp.session.id']
    if (typeof mcpSession === 'string') session.mcpSession = mcpSession
  }
}
