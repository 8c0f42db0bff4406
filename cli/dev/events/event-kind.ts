import type { Stage } from './stages.ts'

export type Tone = 'good' | 'bad' | 'warn' | 'plain'

/**
 * The outcomes of a request that an event can tell, least important first. `asked`: the client is asked for a token or a confirmation.
 * `refused`: the gate, a policy, a limit, or a missing confirmation has stopped it.
 */
export const OUTCOMES = ['accepted', 'completed', 'asked', 'failed', 'outage', 'refused'] as const
export type Outcome = (typeof OUTCOMES)[number]

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
  readonly outcome?: Outcome | undefined
  /** The stage that a client reaches with the event. */
  readonly stage?: Stage | undefined
}
