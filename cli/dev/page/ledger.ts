import { byId, element, type PageElement } from './browser.ts'

/** What the server says of its telemetry: `manager.stats()`, and who it is. */
export interface LedgerMessage {
  readonly sender?: { readonly service?: string; readonly environment?: string; readonly version?: string }
  readonly stats?: {
    readonly emitted: number
    readonly sampledOut: number
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

/** What became of every event, by transport. */
export function showLedger({ stats }: LedgerMessage): void {
  if (stats === undefined) return
  const { emitted, sampledOut, droppedAfterShutdown, transports } = stats
  const late = droppedAfterShutdown === 0 ? '' : `, ${count(droppedAfterShutdown)} after shutdown`
  byId('ledger-total').textContent = `${count(emitted)} emitted, ${count(sampledOut)} sampled out${late}.`
  byId('sampled').hidden = sampledOut === 0
  byId('ledger').replaceChildren(...transports.flatMap(linesOf))
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
