import type { ConsoleEvent } from './console-event.ts'
import type { Fact } from './facts.ts'

export type Tone = 'good' | 'bad' | 'warn' | 'plain'

/** The display form of an event. */
export interface EventKind {
  /** The view that contains the event. `hidden` events are shown only in the stories of clients. */
  readonly group: 'gate' | 'tool' | 'request' | 'other' | 'hidden'
  readonly tone: Tone
  /** One or two words for the outcome. */
  readonly word: string
  /** The most important fact about the event. */
  readonly title: string
  readonly hint?: string | undefined
  /** The values that were expected and received. */
  readonly facts?: readonly Fact[]
}

/** An event with its display form. */
export interface Entry {
  readonly event: ConsoleEvent
  readonly kind: EventKind
}
