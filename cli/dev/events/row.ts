import type { ConsoleEvent } from './console-event.ts'
import type { EventKind, Tone } from './event-kind.ts'

/** A line of the page, for an event or for a step of a client. */
export interface Row extends Pick<EventKind, 'tone' | 'word' | 'title' | 'hint'> {
  /** The sequence number of the event. */
  readonly number: number
  readonly time: string
  /** The values that were expected and received. */
  readonly facts: readonly string[]
}

/** The line of an event. */
export interface EventRow extends Row, EventKind {
  /** The requested operation, such as `tools/call search`. */
  readonly operation?: string | undefined
  /** The text after the title: the operation and the user. */
  readonly about: string
  readonly ms?: number | undefined
  /** The reason why sampling has kept the session of the event. */
  readonly kept?: string | undefined
  /** `true` if `mcp-gatekit doctor` has caused the event. It does not count. */
  readonly isProbe: boolean
  readonly event: ConsoleEvent
}

/** A step of a client, or several equal ones in a row. */
export interface StepRow extends Row {
  readonly count: number
}

/** Everything that one client has done: one sign-in, and the calls after it. */
export interface StoryRow {
  readonly id: number
  readonly startedAt: string
  readonly name: string
  readonly user?: string | undefined
  /** The state of the sign-in. */
  readonly state: string
  readonly tone: Tone
  /** The step that the client has to take next, or `undefined` if it is signed in. */
  readonly next?: string | undefined
  /** Oldest first. */
  readonly steps: readonly StepRow[]
  /** `true` for the probes of `mcp-gatekit doctor`, which are folded. */
  readonly isProbe: boolean
  /** The number of steps that were removed. */
  readonly dropped: number
}
