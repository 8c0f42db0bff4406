import type { SummaryMessage } from '../events/summary.ts'
import { byId, element, type PageElement } from './browser.ts'

/** The numbers of all events, with the sender and its `manager.stats()`. */
export interface StatisticsMessage extends SummaryMessage {
  readonly sender?: { readonly service?: string; readonly environment?: string; readonly version?: string }
  readonly stats?: {
    readonly emitted: number
    readonly sampledOut: number
    /** Missing if the sender is of an older version. */
    readonly held?: number
    readonly droppedAfterShutdown: number
    readonly transports: readonly TransportLine[]
  }
}

interface TransportLine {
  readonly type: string
  readonly accepted: number
  readonly delivered: number
  readonly failed: number
  readonly dropped: number
  readonly pending: number
  readonly lastError?: string
}

const COLUMNS = ['accepted', 'delivered', 'failed', 'dropped', 'pending'] as const

/** Shows the number of events by outcome and transport. */
export function showStatistics({ stats }: StatisticsMessage): void {
  if (stats === undefined) return
  const { emitted, sampledOut, held = 0, droppedAfterShutdown, transports } = stats
  const waiting = held === 0 ? '' : `, ${count(held)} held until their sessions end`
  const late = droppedAfterShutdown === 0 ? '' : `, ${count(droppedAfterShutdown)} after shutdown`
  byId('delivery-total').textContent =
    `${count(emitted)} emitted, ${count(sampledOut)} sampled out${waiting}${late}.`
  byId('sampled').hidden = sampledOut === 0
  byId('delivery').replaceChildren(...transports.flatMap(linesOf))
}

function linesOf(line: TransportLine): PageElement[] {
  const cells = COLUMNS.map((column) => {
    const bad = (column === 'failed' || column === 'dropped') && line[column] > 0
    return element('td', bad ? 'bad' : '', count(line[column]))
  })
  const name = element('th', '', line.type)
  name.setAttribute('scope', 'row')
  const row = element('tr', '', name, ...cells)
  if (line.lastError === undefined) return [row]
  const error = element('td', 'error', line.lastError)
  error.setAttribute('colspan', String(COLUMNS.length + 1))
  return [row, element('tr', '', error)]
}

function count(value: number): string {
  return Number(value).toLocaleString('en')
}
