import { attributeText } from './event.ts'
import type { EventRow } from './row.ts'

/** Counts all events that the page lists. Bounded in memory. */
export class Summary {
  readonly counts = { accepted: 0, refused: 0, outages: 0, toolCalls: 0, toolFailures: 0, events: 0 }
  /** The reason of the latest refusal. */
  lastReason: string | undefined

  add({ event, group, outcome, word, isProbe }: EventRow): void {
    const { counts } = this
    counts.events++
    if (isProbe) return
    if (outcome === 'accepted') counts.accepted++
    else if (outcome === 'outage') counts.outages++
    else if (outcome === 'refused') {
      counts.refused++
      this.lastReason = attributeText(event.attributes?.reason ?? word)
    } else if (group === 'tool' && (outcome === 'completed' || outcome === 'failed')) {
      counts.toolCalls++
      if (outcome === 'failed') counts.toolFailures++
    }
  }
}
