import { byId } from './browser.ts'
import type { StatisticsMessage } from './delivery-statistics.ts'
import { durationText, quantile } from './durations.ts'

/** Shown instead of 0 if sampling has dropped events. */
const SAMPLED = 'sampled'

/** Shows the numbers at the top of the page. */
export function showSummary({ counts, lastReason, calls, stats }: StatisticsMessage): void {
  const { accepted, refused, outages, toolCalls, toolFailures } = counts
  const isSampled = (stats?.sampledOut ?? 0) > 0
  const incomplete = isSampled ? 'not all are counted' : ''
  const share = Math.round((accepted / (accepted + refused + outages)) * 100)
  const failures = toolFailures === 0 ? '' : `${toolFailures} failed`
  const median = quantile(calls, 0.5)
  const numberOf = (count: number): string =>
    isSampled && count === 0 ? SAMPLED : count.toLocaleString('en')
  showTile('accepted', numberOf(accepted), incomplete || (accepted === 0 ? '' : `${share} % of decisions`))
  showTile('refused', numberOf(refused), lastReason === undefined ? '' : `last: ${lastReason}`)
  showTile('tools', numberOf(toolCalls), [failures, incomplete].filter((text) => text !== '').join(', '))
  showTile(
    'median',
    median === undefined ? (isSampled ? SAMPLED : '–') : durationText(median),
    calls.length === 0 ? '' : `of the latest ${calls.length}`,
  )
  byId('refused').classList.toggle('some', refused > 0)
  byId('tools').classList.toggle('some', toolFailures > 0)
}

function showTile(id: string, value: string, note: string): void {
  byId(`${id}-value`).textContent = value
  byId(`${id}-note`).textContent = note
}
