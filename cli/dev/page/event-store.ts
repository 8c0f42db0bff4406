import { attributeText } from './attribute-text.ts'
import { type ConsoleEvent, durationOf, keptText } from './console-event.ts'
import { kindOf } from './describe-event.ts'
import type { Entry, EventKind } from './event-kind.ts'
import { Stories } from './stories.ts'
import { Timings } from './timings.ts'

/** The maximum number of events that the page keeps. */
export const MAX_EVENTS = 2000
/** The maximum number of sessions that the page keeps. */
const MAX_SESSIONS = 100

/** A telemetry session. The gate uses one session for each request. */
export interface SessionSummary {
  readonly id: string
  readonly startedAt: string
  who: string | undefined
  events: number
  /** `true` if a request was refused or failed. */
  hasProblem: boolean
  /** The latest event. */
  latest: string
  /** The ID of the MCP session, if the client has one. */
  mcpSession: string | undefined
  /** The reason why sampling has kept the session, if it was decided at its end. */
  kept: string | undefined
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

/** The filter of the event list. */
export interface Filter {
  readonly view: 'all' | 'gate' | 'tool' | 'problems'
  /** Words that the event must contain. Words after a minus sign must not occur. */
  readonly text: string
}

/** The latest events, and counts of all events. Independent of the page. */
export class EventStore {
  readonly timings: Timings = new Timings()
  readonly stories: Stories = new Stories(() => this.issuer)
  /** The URL of the authorization server of `dev`. */
  issuer: string | undefined
  /** `true` if sampling has dropped events, so that counts are incomplete. */
  isSampled = false
  #counts: Counts = { ...NONE }
  #lastReason: string | undefined
  #entries: Entry[] = []
  readonly #sessions = new Map<string, SessionSummary>()
  /** The searchable texts of entries, created on demand. */
  #texts = new WeakMap<Entry, string>()

  get counts(): Readonly<Counts> {
    return this.#counts
  }

  /** The reason of the latest refusal. */
  get lastReason(): string | undefined {
    return this.#lastReason
  }

  /** Oldest first. */
  get entries(): readonly Entry[] {
    return this.#entries
  }

  /** Adds events. @returns the new entries */
  add(events: readonly ConsoleEvent[]): readonly Entry[] {
    const all = events.map((event) => ({ event, kind: kindOf(event) }))
    this.stories.add(all)
    const added = all.filter(({ kind }) => kind.group !== 'hidden')
    for (const entry of added) this.#count(entry)
    this.#entries = [...this.#entries, ...added].slice(-MAX_EVENTS)
    return added
  }

  /** Returns the sessions, newest first. */
  sessions(): readonly SessionSummary[] {
    return [...this.#sessions.values()].reverse()
  }

  /** Removes everything. */
  clear(): void {
    this.#counts = { ...NONE }
    this.#lastReason = undefined
    this.#entries = []
    this.#sessions.clear()
    this.#texts = new WeakMap()
    this.timings.clear()
    this.stories.clear()
    this.isSampled = false
  }

  matches(entry: Entry, { view, text }: Filter): boolean {
    const { kind } = entry
    if (
      view === 'problems'
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
      this.#lastReason = attributeText(event.attributes?.reason)
    } else if (kind.group === 'tool') {
      const failed = kind.tone === 'bad'
      counts.toolCalls++
      if (failed) counts.toolFailures++
      const ms = durationOf(event)
      const tool = attributeText(event.attributes?.['gen_ai.tool.name'] ?? '')
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
        hasProblem: false,
        latest: '',
        mcpSession: undefined,
        kept: undefined,
      }
      this.#sessions.set(event.sessionId, session)
      if (this.#sessions.size > MAX_SESSIONS)
        this.#sessions.delete(this.#sessions.keys().next().value as string)
    }
    session.events++
    session.latest = `${kind.word}: ${kind.title}`
    session.who ??= event.actor?.id ?? event.actor?.type
    session.hasProblem ||= kind.tone === 'bad'
    session.kept ??= keptText(event)
    const mcpSession = event.attributes?.['mcp.session.id']
    if (typeof mcpSession === 'string') session.mcpSession = mcpSession
  }
}
