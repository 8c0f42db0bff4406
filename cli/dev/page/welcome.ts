import type { Connect } from '../connect-commands.ts'
import type { ServerState } from '../events/event-log.ts'
import { browser, byId, element, type PageElement } from './browser.ts'

/** The text that is shown before the first event, and the notice of a server that has exited. */
export class Welcome {
  #connect: Connect | undefined
  #hasEnded = false
  #hasTransport = false

  showServer({ state, how, output, waits, connect }: ServerState): void {
    const hasEnded = state === 'ended'
    this.#hasEnded = hasEnded
    this.#showSetup()
    byId('ended').hidden = !hasEnded
    const next = waits ? 'It starts again when a file changes.' : 'To start it, run mcp-gatekit dev again.'
    byId('ended').replaceChildren(
      `The server has exited: ${how}. The terminal shows its output. ${next}`,
      ...(output === undefined ? [] : [element('pre', '', output)]),
    )
    byId('welcome-title').textContent = hasEnded
      ? 'The server is not running'
      : 'Waiting for the first client'
    if (connect !== undefined) this.#show(connect)
    byId('connect').hidden = hasEnded || this.#connect === undefined
  }

  /** @param hasTransport `true` if the telemetry of the server has sent something */
  showSetup(hasTransport: boolean): void {
    this.#hasTransport = hasTransport
    this.#showSetup()
  }

  #showSetup(): void {
    byId('setup').hidden = this.#hasTransport || this.#hasEnded
  }

  #show(connect: Connect): void {
    if (this.#connect?.url === connect.url) return
    this.#connect = connect
    byId('mcp').replaceChildren(element('code', '', connect.url), ' ', copyButton('the URL', connect.url))
    byId('mcp-fact').hidden = false
    byId('connect-commands').replaceChildren(
      ...connect.commands.flatMap(({ client, command }) => [
        element('dt', '', client),
        element(
          'dd',
          '',
          element('code', '', ...unbroken(command)),
          copyButton(`the command for ${client}`, command),
        ),
      ]),
    )
  }
}

/** Returns the parts of a command. A line does not break within an option, such as `--login`. */
function unbroken(command: string): readonly (PageElement | string)[] {
  return command.split(/( )/).map((part) => (part.startsWith('--') ? element('span', 'option', part) : part))
}

function copyButton(what: string, text: string): PageElement {
  const button = element('button', 'copy', 'Copy')
  button.type = 'button'
  button.setAttribute('aria-label', `Copy ${what}`)
  button.addEventListener('click', () => void copy())
  return button

  async function copy(): Promise<void> {
    try {
      await browser.navigator.clipboard?.writeText(text)
      button.textContent = 'Copied'
    } catch {
      button.textContent = 'Not allowed by the browser'
    }
  }
}
