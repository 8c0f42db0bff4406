import { type Html, html, span, type Value } from '../../html.ts'
import type { Connect } from '../connect-commands.ts'
import type { Attributes, Feed } from './event.ts'
import { countText, durationText } from './lines.ts'
import type { Summary } from './summary.ts'

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
  { counts, lastReason, calls }: Summary,
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
  const [median, high] = [quantile(calls, 0.5), quantile(calls, 0.95)]
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
    'median-note': high === undefined ? '' : `95 % within ${durationText(high)}`,
    'how-many': events > kept ? `the latest ${countText(kept)} of ${all}` : all,
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

/** Returns a quantile of the durations, such as the median for 0.5, or `undefined` without calls. */
export function quantile(calls: readonly number[], part: number): number | undefined {
  const sorted = calls.toSorted((a, b) => a - b)
  return sorted[Math.min(sorted.length - 1, Math.ceil(sorted.length * part) - 1)]
}
