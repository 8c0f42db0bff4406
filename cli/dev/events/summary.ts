import { attributeText, whoOf } from './event.ts'
import type { EventRow } from './row.ts'

/** The maximum number of sessions that are kept, and that the page lists. */
const MAX_SESSIONS = 100
const MAX_LISTED = 12
/** The maximum number of tool calls in the chart and in the median. */
const MAX_CALLS = 96

/** A telemetry session. The gate uses one session for each request. */
export interface SessionSummary {
  readonly id: string
  readonly startedAt: string
  readonly who: string | undefined
  readonly events: number
  /** `true` if a request was refused or failed, except for one without a token. */
  readonly hasProblem: boolean
  /** The latest event. */
  readonly latest: string
  /** The ID of the MCP session, if the client has one. */
  readonly mcpSession: string | undefined
  /** The reason why sampling has kept the session, if it was decided at its end. */
  readonly kept: string | undefined
}

/** A tool call in the chart. */
export interface ToolCall {
  /** The sequence number of the event. */
  readonly number: number
  readonly tool: string
  readonly ms: number
  readonly failed: boolean
}

/** Counts all events that the page lists. Bounded in memory. */
export class Summary {
  readonly counts = { accepted: 0, refused: 0, outages: 0, toolCalls: 0, toolFailures: 0, events: 0 }
  readonly #sessions = new Map<string, SessionSummary>()
  /** The reason of the latest refusal. */
  lastReason: string | undefined
  /** The latest tool calls, oldest first. */
  calls: readonly ToolCall[] = []

  add(row: EventRow): void {
    const { number, event, group, outcome, word, ms, isProbe } = row
    const { attributes = {} } = event
    const { counts } = this
    counts.events++
    if (isProbe) return
    if (outcome === 'accepted') counts.accepted++
    else if (outcome === 'outage') counts.outages++
    else if (outcome === 'refused') {
      counts.refused++
      this.lastReason = attributeText(attributes.reason ?? word)
    } else if (group === 'tool' && (outcome === 'completed' || outcome === 'failed')) {
      const failed = outcome === 'failed'
      counts.toolCalls++
      if (failed) counts.toolFailures++
      const tool = attributeText(attributes['gen_ai.tool.name'] ?? '')
      if (ms !== undefined) this.calls = [...this.calls, { number, tool, ms, failed }].slice(-MAX_CALLS)
    }
    this.#countSession(row)
  }

  /** The latest sessions, newest first. */
  get sessions(): readonly SessionSummary[] {
    return [...this.#sessions.values()].slice(-MAX_LISTED).reverse()
  }

  #countSession({ event, word, title, tone, outcome, kept }: EventRow): void {
    const { sessionId: id, time, attributes } = event
    const before = this.#sessions.get(id)
    const mcpSession = attributes?.['mcp.session.id']
    this.#sessions.set(id, {
      id,
      startedAt: before?.startedAt ?? time,
      who: before?.who ?? (whoOf(event) || undefined),
      events: (before?.events ?? 0) + 1,
      hasProblem: before?.hasProblem === true || tone === 'bad' || outcome === 'refused',
      latest: `${word}: ${title}`,
      mcpSession: typeof mcpSession === 'string' ? mcpSession : before?.mcpSession,
      kept: before?.kept ?? kept,
    })
    if (this.#sessions.size > MAX_SESSIONS)
      this.#sessions.delete(this.#sessions.keys().next().value as string)
  }
}
