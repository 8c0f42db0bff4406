import { type Html, html, span, type Value } from '../../html.ts'
import type { Connect } from '../connect-commands.ts'
import type { Attributes, Feed } from './event.ts'
import { countText, durationText, timeOf } from './lines.ts'
import type { SessionSummary, Summary, ToolCall } from './summary.ts'

/** Facts that are constant while `mcp-gatekit dev` runs. */
export interface About {
  readonly command: string
  /** The URL of the authorization server of `dev`. */
  readonly issuer?: string
}

/** The state of the server process. */
export interface ServerState {
  readonly state: 'starting' | 'running' | 'ended'
  readonly pid?: number
  readonly how?: string
  /** The last lines of the error output of a server that has crashed. */
  readonly output?: string
  /** `true` if a server that has ended starts again when a file changes. */
  readonly waits?: true
  /** Disagreements in the configuration of the server. */
  readonly warnings?: readonly string[]
  /** The URL of the server with commands for clients, once it is known. */
  readonly connect?: Connect
}

/** The contents of elements of the page, by their IDs. The page does not show an element without content. */
export type Contents = Readonly<Record<string, Value>>

const COLUMNS = ['accepted', 'delivered', 'failed', 'dropped', 'pending'] as const

/** A part of the result of `manager.stats()`. `held` is missing if the sender is of an older version. */
interface Stats extends Readonly<Record<'emitted' | 'sampledOut' | 'droppedAfterShutdown', number>> {
  readonly held?: number
  readonly transports: readonly TransportLine[]
}

interface TransportLine extends Readonly<Record<(typeof COLUMNS)[number], number>> {
  readonly type: string
  readonly lastError?: string
}

/** Returns the state of the server, and what to do before the first event. */
export function serverContents(about: About, server: ServerState, hasTransport: boolean): Contents {
  const { state, pid, how = '', output, waits, connect, warnings = [] } = server
  const hasEnded = state === 'ended'
  const running = pid === undefined ? 'running' : `running, pid ${pid}`
  const exited = `exited: ${how}`
  const next = waits ? 'It starts again when a file changes.' : 'To start it, run mcp-gatekit dev again.'
  const said = output === undefined ? '' : html`<pre>${output}</pre>`
  const ended = html`The server has ${exited}. The terminal shows its output. ${next}${said}`
  const commands = connect?.commands.map(
    ({ client, command }) => html`<dt>${client}</dt>
      <dd><code>${unbroken(command)}</code>${copyButton(`the command for ${client}`, command)}</dd>`,
  )
  return {
    command: about.command,
    issuer: about.issuer ?? 'none',
    server: { starting: 'starting', running, ended: span('bad', exited) }[state],
    connection: hasEnded ? span('bad', 'server down') : 'live',
    warnings: warnings.map((warning) => html`<li>${warning}</li>`),
    ended: hasEnded ? ended : '',
    'welcome-title': hasEnded ? 'The server is not running' : 'Waiting for the first client',
    setup: hasTransport || hasEnded ? '' : SETUP,
    mcp: connect === undefined ? '' : html`<code>${connect.url}</code> ${copyButton('the URL', connect.url)}`,
    connect:
      hasEnded || commands === undefined
        ? ''
        : html`<p>Connect a client to the MCP URL:</p><dl id="connect-commands" class="commands">${commands}</dl>`,
  }
}

const SETUP = html`<p>The server has sent no telemetry yet. If this stays so, add these lines where it builds its telemetry:</p>
<pre>.withSampling({ debugRate: 1, infoRate: 1 })
.addTransport(DevConsoleTransportAdapter.create())</pre>
<p>Pass <code>telemetry</code> to <code>createMcpAdapter</code>. Then connect a client, or send a request without a token.</p>`

/** Returns a command. A line does not break within an option, such as `--login`. */
function unbroken(command: string): readonly Html[] {
  return command.split(/( )/).map((part) => (part.startsWith('--') ? span('option', part) : html`${part}`))
}

function copyButton(what: string, text: string): Html {
  return html`<button type="button" class="copy" aria-label="Copy ${what}" data-copy="${text}">Copy</button>`
}

/** Returns the numbers of all events. @param kept the number of events that the page can list */
export function statisticsContents(
  { counts, lastReason, calls, sessions }: Summary,
  kept: number,
  sender: Attributes = {},
  given: Feed['stats'],
): Contents {
  const { accepted, refused, outages, toolCalls, toolFailures, events } = counts
  const stats = given as Stats | undefined
  const isSampled = (stats?.sampledOut ?? 0) > 0
  const incomplete = isSampled ? 'not all are counted' : ''
  const share = Math.round((accepted / (accepted + refused + outages)) * 100)
  const failures = toolFailures === 0 ? '' : `${toolFailures} failed`
  const median = quantile(calls, 0.5)
  const { service, environment } = sender
  const tools = [failures, incomplete].filter((text) => text !== '').join(', ')
  // If sampling has dropped events, 0 is not known.
  const textOf = (value: number | string): string =>
    isSampled && (value === 0 || value === '–') ? 'sampled' : value.toLocaleString('en')
  const all = `${countText(events)} ${events === 1 ? 'event' : 'events'}`
  return {
    'accepted-value': textOf(accepted),
    'accepted-note': incomplete || (accepted === 0 ? '' : `${share} % of decisions`),
    'refused-value': refused > 0 ? span('bad', textOf(refused)) : textOf(refused),
    'refused-note': lastReason === undefined ? '' : `last: ${lastReason}`,
    'tools-value': textOf(toolCalls),
    'tools-note': toolFailures > 0 ? span('bad', tools) : tools,
    'median-value': textOf(median === undefined ? '–' : durationText(median)),
    'median-note': calls.length === 0 ? '' : `of the latest ${calls.length}`,
    'how-many': events > kept ? `the latest ${countText(kept)} of ${all}` : all,
    plot: calls.length === 0 ? '' : plotOf(calls),
    'plot-caption': captionOf(calls),
    sessions: sessions.map(sessionOf),
    'no-sessions': sessions.length === 0 ? 'No sessions yet.' : '',
    ...(typeof service === 'string' && {
      service: environment === undefined ? service : `${service} · ${environment}`,
      title: `${service} · mcp-gatekit dev`,
    }),
    ...(stats !== undefined && deliveryContents(stats)),
  }
}

/** Returns the number of events by outcome and transport. */
function deliveryContents(stats: Stats): Contents {
  const { emitted, sampledOut, held = 0, droppedAfterShutdown: late, transports } = stats
  const parts = [
    `${countText(emitted)} emitted, ${countText(sampledOut)} sampled out`,
    held === 0 ? '' : `, ${countText(held)} held until their sessions end`,
    late === 0 ? '' : `, ${countText(late)} after shutdown`,
  ]
  const lines = transports.map(({ type, lastError, ...line }) => {
    const cells = COLUMNS.map((column) => {
      const isBad = (column === 'failed' || column === 'dropped') && line[column] > 0
      return html`<td class="${isBad ? 'bad' : ''}">${countText(line[column])}</td>`
    })
    const error = html`<tr><td class="error" colspan="${COLUMNS.length + 1}">${lastError ?? ''}</td></tr>`
    return html`<tr><th scope="row">${type}</th>${cells}</tr>${lastError === undefined ? '' : error}`
  })
  return {
    'delivery-total': `${parts.join('')}.`,
    sampled: sampledOut === 0 ? '' : SAMPLED,
    delivery: lines,
  }
}

const SAMPLED = html`Events that are sampled out are not shown. To keep all events, use <code>.withSampling({ debugRate: 1, infoRate: 1 })</code>.`

function sessionOf({ id, who = 'unknown user', events, ...session }: SessionSummary): Html {
  const count = html`${events} event${events === 1 ? '' : 's'} · ${timeOf(session.startedAt)}`
  const mcp = session.mcpSession === undefined ? '' : ` · MCP session ${session.mcpSession}`
  return html`<li><button type="button" class="session ${session.hasProblem ? 'bad' : ''}" data-session="${id}">
    <span class="head"><strong>${who}</strong><span class="dim">${count}</span></span>
    ${span('latest', session.latest)}${span('dim', session.kept)}<code>${id}${mcp}</code></button></li>`
}

const WIDTH = 400
const HEIGHT = 120
/** The left edge of the bars. The durations are left of it. */
const LEFT = 52
const TOP = 6
const BOTTOM = HEIGHT - 6
/** The number of bars that fit in the chart: those of the latest calls in the summary. */
const PLACES = 96
const STEP = (WIDTH - LEFT) / PLACES

/** Returns a bar chart of the latest tool calls, newest on the right. The heights are logarithmic. */
function plotOf(calls: readonly ToolCall[]): Html {
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
  return html`<svg viewBox="0 0 ${WIDTH} ${HEIGHT}" role="img" aria-label="${captionOf(calls)}">${grid}${bars}</svg>`
}

function captionOf(calls: readonly ToolCall[]): string {
  const [median, high] = [quantile(calls, 0.5), quantile(calls, 0.95)]
  if (median === undefined || high === undefined) return 'No tool calls yet.'
  const which = calls.length === 1 ? 'One call' : `Latest ${calls.length} calls`
  const failed = calls.filter((call) => call.failed).length
  const failures = failed === 0 ? '' : `, ${failed} failed`
  return `${which}: median ${durationText(median)}, 95 % within ${durationText(high)}${failures}.`
}

/** Returns a quantile of the durations, such as the median for 0.5, or `undefined` without calls. */
export function quantile(calls: readonly ToolCall[], part: number): number | undefined {
  const sorted = calls.map(({ ms }) => ms).sort((a, b) => a - b)
  return sorted[Math.min(sorted.length - 1, Math.ceil(sorted.length * part) - 1)]
}

/** Returns the exponents of the powers of ten, in milliseconds, that enclose all durations. */
export function decades(calls: readonly ToolCall[]): { readonly from: number; readonly to: number } {
  const durations = calls.map(({ ms }) => ms)
  const from = Math.max(-2, Math.floor(Math.log10(Math.min(1, ...durations))))
  return { from, to: Math.max(2, Math.ceil(Math.log10(Math.max(1, ...durations)))) }
}
