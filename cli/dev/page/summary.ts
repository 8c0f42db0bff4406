import { byId } from './browser.ts'
import type { EventStore } from './event-store.ts'
import { durationText, quantile } from './timings.ts'

/** Shown instead of 0 if sampling has dropped events. */
const SAMPLED = 'sampled'
const INCOMPLETE = 'not all are counted'

/** Shows the numbers at the top of the page. */
export function showSummary(store: EventStore): void {
  const { accepted, refused, outages, toolCalls, toolFailures } = store.counts
  const { isSampled } = store
  const calls = store.timings.latest()
  const median = quantile(calls, 0.5)
  showTile(
    'accepted',
    isSampled && accepted === 0 ? SAMPLED : accepted,
    isSampled
      ? INCOMPLETE
      : accepted === 0
        ? ''
        : `${percent(accepted, accepted + refused + outages)} of decisions`,
  )
  showTile(
    'refused',
    isSampled && refused === 0 ? SAMPLED : refused,
    store.lastReason === undefined ? '' : `last: ${store.lastReason}`,
  )
  showTile(
    'tools',
    isSampled && toolCalls === 0 ? SAMPLED : toolCalls,
    [...(toolFailures === 0 ? [] : [`${toolFailures} failed`]), ...(isSampled ? [INCOMPLETE] : [])].join(
      ', ',
    ),
  )
  showTile(
    'median',
    median === undefined ? (isSampled ? SAMPLED : '–') : durationText(median),
    calls.length === 0 ? '' : `of the latest ${calls.length}`,
  )
  byId('refused').classList.toggle('some', refused > 0)
  byId('tools').classList.toggle('some', toolFailures > 0)
}

function showTile(id: string, value: number | string, note: string): void {
  const [number, remark] = [byId(`${id}-value`), byId(`${id}-note`)]
  const text = typeof value === 'number' ? value.toLocaleString('en') : value
  if (number.textContent !== text) number.textContent = text
  if (remark.textContent !== note) remark.textContent = note
}

function percent(part: number, whole: number): string {
  return `${Math.round((part / whole) * 100)} %`
}
