import type { ServerState } from '../events/event-log.ts'
import type { EventRow } from '../events/row.ts'
import type { SessionSummary, SummaryMessage, ToolCall } from '../events/summary.ts'
import { browser, byId, type PageElement, show, span } from './browser.ts'
import { type Html, html } from './html.ts'
import { countText, decades, durationText, quantile, timeText } from './lines.ts'

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

const COLUMNS = ['accepted', 'delivered', 'failed', 'dropped', 'pending'] as const

interface TransportLine extends Readonly<Record<(typeof COLUMNS)[number], number>> {
  readonly type: string
  readonly lastError?: string
}

/** Shows the state of the server, and what to do before the first event. */
export function showServer(server: ServerState, hasTransport: boolean, isConnected: boolean): void {
  const { state, pid, how = '', output, waits, connect, warnings = [] } = server
  const hasEnded = state === 'ended'
  const running = pid === undefined ? 'running' : `running, pid ${pid}`
  show('server', { starting: 'starting', running, ended: `exited: ${how}` }[state])
  byId('server').classList.toggle('bad', hasEnded)
  show('connection', isConnected ? (hasEnded ? 'server down' : 'live') : 'not connected')
  byId('connection').classList.toggle('bad', !isConnected || hasEnded)
  show(
    'warnings',
    warnings.map((warning) => html`<li>${warning}</li>`),
  )
  byId('warnings').hidden = warnings.length === 0
  const next = waits ? 'It starts again when a file changes.' : 'To start it, run mcp-gatekit dev again.'
  const said = output === undefined ? '' : html`<pre>${output}</pre>`
  show('ended', html`The server has exited: ${how}. The terminal shows its output. ${next}${said}`)
  byId('ended').hidden = !hasEnded
  show('welcome-title', hasEnded ? 'The server is not running' : 'Waiting for the first client')
  byId('setup').hidden = hasTransport || hasEnded
  if (connect !== undefined) {
    show('mcp', html`<code>${connect.url}</code> ${copyButton('the URL', connect.url)}`)
    byId('mcp-fact').hidden = false
    const commands = connect.commands.map(
      ({ client, command }) => html`<dt>${client}</dt>
        <dd><code>${unbroken(command)}</code>${copyButton(`the command for ${client}`, command)}</dd>`,
    )
    show('connect-commands', commands)
  }
  byId('connect').hidden = hasEnded || byId('mcp-fact').hidden
}

/** Returns a command. A line does not break within an option, such as `--login`. */
function unbroken(command: string): readonly Html[] {
  return command.split(/( )/).map((part) => (part.startsWith('--') ? span('option', part) : html`${part}`))
}

function copyButton(what: string, text: string): Html {
  return html`<button type="button" class="copy" aria-label="Copy ${what}" data-copy="${text}">Copy</button>`
}

/** Copies the text of a button, and says so on the button. */
export async function copy(button: PageElement): Promise<void> {
  try {
    await browser.navigator.clipboard?.writeText(button.dataset.copy ?? '')
    button.textContent = 'Copied'
  } catch {
    button.textContent = 'Not allowed by the browser'
  }
}

/** Shows all data of one event, or nothing. */
export function showDetails(row: EventRow | undefined): void {
  byId('details').hidden = row === undefined
  browser.document.body.classList.toggle('has-details', row !== undefined)
  if (row === undefined) return
  const { name, time, attributes = {}, error, ...about } = row.event
  byId('copy').textContent = 'Copy as JSON'
  byId('copy').dataset.copy = JSON.stringify(row.event, null, 2)
  show('details-title', name)
  show(
    'details-body',
    html`<p class="verdict ${row.tone}"><strong>${row.word}</strong> ${row.title}</p>
      ${[row.hint, row.kept && `Session ${row.kept}`].map((hint) => paragraph('hint', hint))}
      ${row.facts.map((fact) => paragraph('fact', fact))}
      ${definitions({ time: timeText(time), ...about })}${definitions(attributes)}
      ${error === undefined ? '' : html`<pre>${errorText(error)}</pre>`}`,
  )
  byId('details-body').scrollTop = 0
}

function paragraph(className: string, text: string | undefined): Html {
  return text === undefined ? html`` : html`<p class="${className}">${text}</p>`
}

function definitions(values: Readonly<Record<string, unknown>>): Html {
  const lines = Object.entries(values).map(([name, value]) => {
    const text = typeof value === 'string' ? value : JSON.stringify(value, null, 1).replaceAll(/\n\s*/g, ' ')
    return html`<dt>${name}</dt><dd>${text}</dd>`
  })
  return lines.length === 0 ? html`` : html`<dl>${lines}</dl>`
}

function errorText({ name, message, code, stack }: NonNullable<EventRow['event']['error']>): string {
  return stack ?? `${code === undefined ? name : `${name} (${code})`}: ${message}`
}

/** Shows the numbers of all events. */
export function showStatistics(message: StatisticsMessage): void {
  showTiles(message)
  showPlot(message.calls)
  show('sessions', message.sessions.map(sessionOf))
  byId('no-sessions').hidden = message.sessions.length > 0
  if (message.stats !== undefined) showDelivery(message.stats)
  const { service, environment } = message.sender ?? {}
  if (service === undefined) return
  show('service', environment === undefined ? service : `${service} · ${environment}`)
  browser.document.title = `${service} · mcp-gatekit dev`
}

/** Shows the numbers at the top of the page. If sampling has dropped events, 0 is not known. */
function showTiles({ counts, lastReason, calls, stats }: StatisticsMessage): void {
  const { accepted, refused, outages, toolCalls, toolFailures } = counts
  const isSampled = (stats?.sampledOut ?? 0) > 0
  const incomplete = isSampled ? 'not all are counted' : ''
  const share = Math.round((accepted / (accepted + refused + outages)) * 100)
  const failures = toolFailures === 0 ? '' : `${toolFailures} failed`
  const median = quantile(calls, 0.5)
  const tile = (id: string, value: number | string, note: string): void => {
    const text = typeof value === 'number' ? countText(value) : value
    show(`${id}-value`, isSampled && (value === 0 || value === '–') ? 'sampled' : text)
    show(`${id}-note`, note)
  }
  tile('accepted', accepted, incomplete || (accepted === 0 ? '' : `${share} % of decisions`))
  tile('refused', refused, lastReason === undefined ? '' : `last: ${lastReason}`)
  tile('tools', toolCalls, [failures, incomplete].filter((text) => text !== '').join(', '))
  const latest = calls.length === 0 ? '' : `of the latest ${calls.length}`
  tile('median', median === undefined ? '–' : durationText(median), latest)
  byId('refused').classList.toggle('some', refused > 0)
  byId('tools').classList.toggle('some', toolFailures > 0)
}

/** Shows the number of events by outcome and transport. */
function showDelivery(stats: NonNullable<StatisticsMessage['stats']>): void {
  const { emitted, sampledOut, held = 0, droppedAfterShutdown: late, transports } = stats
  const parts = [
    `${countText(emitted)} emitted, ${countText(sampledOut)} sampled out`,
    held === 0 ? '' : `, ${countText(held)} held until their sessions end`,
    late === 0 ? '' : `, ${countText(late)} after shutdown`,
  ]
  show('delivery-total', `${parts.join('')}.`)
  byId('sampled').hidden = sampledOut === 0
  const lines = transports.map((line) => {
    const cells = COLUMNS.map((column) => {
      const isBad = (column === 'failed' || column === 'dropped') && line[column] > 0
      return html`<td class="${isBad ? 'bad' : ''}">${countText(line[column])}</td>`
    })
    const error =
      line.lastError === undefined
        ? ''
        : html`<tr><td class="error" colspan="${COLUMNS.length + 1}">${line.lastError}</td></tr>`
    return html`<tr><th scope="row">${line.type}</th>${cells}</tr>${error}`
  })
  show('delivery', lines)
}

function sessionOf({ id, who = 'unknown user', events, ...session }: SessionSummary): Html {
  const count = `${events} event${events === 1 ? '' : 's'} · ${timeText(session.startedAt)}`
  const mcp = session.mcpSession === undefined ? '' : ` · MCP session ${session.mcpSession}`
  return html`<li><button type="button" class="session ${session.hasProblem ? 'bad' : ''}" data-session="${id}">
    <span class="head"><strong>${who}</strong>${span('dim', count)}</span>
    ${span('latest', session.latest)}${span('dim', session.kept)}<code>${id}${mcp}</code></button></li>`
}

const WIDTH = 400
const HEIGHT = 120
/** The left edge of the bars. The durations are left of it. */
const LEFT = 52
const TOP = 6
const BOTTOM = HEIGHT - 6
/** The number of bars that fit in the chart: those of the latest calls that the server sends. */
const PLACES = 96
const STEP = (WIDTH - LEFT) / PLACES

/** Draws a bar chart of the latest tool calls, newest on the right. The heights are logarithmic. */
function showPlot(calls: readonly ToolCall[]): void {
  const { from, to } = decades(calls)
  const y = (ms: number): number =>
    BOTTOM - ((Math.log10(Math.max(ms, 10 ** from)) - from) / (to - from)) * (BOTTOM - TOP)
  const grid = Array.from({ length: to - from + 1 }, (_, index) => {
    const decade = from + index
    const at = y(10 ** decade)
    const label = decade >= 3 ? `${10 ** (decade - 3)} s` : `${10 ** decade} ms`
    return html`<line x1="${LEFT}" x2="${WIDTH}" y1="${at}" y2="${at}" class="grid"/>
      <text x="${LEFT - 6}" y="${at + 3.5}" class="label">${label}</text>`
  })
  const bars = calls.map(({ number, tool, ms, failed }, index) => {
    const height = Math.max(2, BOTTOM - y(ms))
    return html`<rect x="${WIDTH - (calls.length - index) * STEP}" y="${BOTTOM - height}" width="${STEP * 0.76}"
      height="${height}" rx="1" class="bar ${failed ? 'bad' : ''}" data-number="${number}">
      <title>${tool} ${failed ? 'failed after' : 'took'} ${durationText(ms)}</title></rect>`
  })
  show('plot', [...grid, ...bars])
  byId('plot').classList.toggle('drawn', calls.length > 0)
  show('plot-caption', captionOf(calls))
  byId('plot').setAttribute('aria-label', captionOf(calls))
}

function captionOf(calls: readonly ToolCall[]): string {
  const [median, high] = [quantile(calls, 0.5), quantile(calls, 0.95)]
  if (median === undefined || high === undefined) return 'No tool calls yet.'
  const which = calls.length === 1 ? 'One call' : `Latest ${calls.length} calls`
  const failed = calls.filter((call) => call.failed).length
  const failures = failed === 0 ? '' : `, ${failed} failed`
  return `${which}: median ${durationText(median)}, 95 % within ${durationText(high)}${failures}.`
}

/** The minimum time between two announcements. */
const INTERVAL_MS = 2000
let refusals: readonly EventRow[] = []
let isResting = false

/** Announces refused requests to screen readers. Combines several refusals into one sentence. */
export function announce(rows: readonly EventRow[]): void {
  refusals = [...refusals, ...rows.filter(({ outcome, isProbe }) => outcome === 'refused' && !isProbe)]
  const latest = refusals.at(-1)
  if (latest === undefined || isResting) return
  const { title, operation } = latest
  const text = operation === undefined ? title : `${title}, ${operation}`
  byId('announcer').textContent =
    refusals.length === 1 ? `Refused: ${text}` : `${refusals.length} refused, most recently: ${text}`
  refusals = []
  isResting = true
  setTimeout(() => {
    isResting = false
    announce([])
  }, INTERVAL_MS)
}
