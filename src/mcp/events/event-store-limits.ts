import { optionChecksOf } from '../../options/option-checks.ts'
import { optional, type RulesFor } from '../../options/option-rules.ts'

const { wholeNumber } = optionChecksOf('memoryEventStore')

/** The limits of a store of events. */
export interface EventStoreLimits {
  /**
   * The maximum size of the log of one event type, in bytes. The oldest events are dropped, and a client that has not read them gets
   * `truncated`. Defaults to 8 388 608 (8 MiB).
   */
  readonly maxLogBytes?: number | undefined
  /** The time for which the log keeps an event, in milliseconds. Defaults to 3 600 000 ms (one hour). */
  readonly maxLogAgeMs?: number | undefined
  /**
   * The maximum size of the subscriptions of one owner, and of the deliveries that wait for them, in bytes. A delivery beyond it is
   * dropped, and its webhook gets a `gap` message. Defaults to 8 388 608 (8 MiB).
   */
  readonly maxBytesPerOwner?: number | undefined
}

/** The rules of {@link EventStoreLimits}. */
export const LIMIT_RULES = {
  maxLogBytes: optional(wholeNumber(1), 8 * 1024 * 1024),
  maxLogAgeMs: optional(wholeNumber(1_000), 3_600_000),
  maxBytesPerOwner: optional(wholeNumber(1), 8 * 1024 * 1024),
} satisfies RulesFor<EventStoreLimits>
