import { type Html, html, span, type Value } from '../../html.ts'
import type { Connect } from '../connect-commands.ts'
import type { Attributes } from './event.ts'
import { countText } from './lines.ts'
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
      <dd><code>${command}</code>${copyButton(`the command for ${client}`, command)}</dd>`,
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

function copyButton(what: string, text: string): Html {
  return html`<button type="button" class="copy" aria-label="Copy ${what}" data-copy="${text}">Copy</button>`
}

/** Returns the numbers of all events. @param kept the number of events that the page can list */
export function statisticsContents(
  { counts, lastReason }: Summary,
  kept: number,
  sender: Attributes = {},
): Contents {
  const { accepted, refused, outages, toolCalls, toolFailures, events } = counts
  const share = Math.round((accepted / (accepted + refused + outages)) * 100)
  const { service, environment } = sender
  const all = `${countText(events)} ${events === 1 ? 'event' : 'events'}`
  return {
    'accepted-value': countText(accepted),
    'accepted-note': accepted === 0 ? '' : `${share} % of decisions`,
    'refused-value': refused > 0 ? span('bad', countText(refused)) : '0',
    'refused-note': lastReason === undefined ? '' : `last: ${lastReason}`,
    'tools-value': countText(toolCalls),
    'tools-note': toolFailures > 0 ? span('bad', `${countText(toolFailures)} failed`) : '',
    'how-many': events > kept ? `the latest ${countText(kept)} of ${all}` : all,
    ...(typeof service === 'string' && {
      service: environment === undefined ? service : `${service} · ${environment}`,
      title: `${service} · mcp-gatekit dev`,
    }),
  }
}
