import type { Stage } from './stages.ts'

export type Tone = 'good' | 'bad' | 'warn' | 'plain'

/** The meaning of an event. */
export interface EventKind {
  /** The view that contains the event. `hidden` events are shown only in the stories of clients. */
  readonly group: 'gate' | 'tool' | 'event' | 'request' | 'other' | 'hidden'
  readonly tone: Tone
  /** One or two words for the outcome. */
  readonly word: string
  /** The most important fact about the event. */
  readonly title: string
  readonly hint?: string | undefined
  /** The stage that a client reaches with the event. */
  readonly stage?: Stage | undefined
}
