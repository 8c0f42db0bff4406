import type { SessionSummary } from '../events/summary.ts'
import { byId, element, type PageElement } from './browser.ts'
import { timeText } from './row-content.ts'

/** The list of the latest telemetry sessions. A click shows only the events of a session. */
export class Sessions {
  readonly #list: PageElement = byId('sessions')
  #shown = ''

  /** @param show shows only the events of a session */
  constructor(show: (sessionId: string) => void) {
    this.#list.addEventListener('click', ({ target }) => {
      const id = target.closest('button')?.dataset.session
      if (id !== undefined) show(id)
    })
  }

  draw(sessions: readonly SessionSummary[]): void {
    const now = JSON.stringify(sessions)
    if (now === this.#shown) return
    this.#shown = now
    byId('no-sessions').hidden = sessions.length > 0
    this.#list.replaceChildren(...sessions.map((session) => element('li', '', buttonOf(session))))
  }
}

function buttonOf({
  id,
  who,
  events,
  hasProblem,
  latest,
  startedAt,
  mcpSession,
  kept,
}: SessionSummary): PageElement {
  const count = `${events} event${events === 1 ? '' : 's'} · ${timeText(startedAt)}`
  const button = element(
    'button',
    hasProblem ? 'session bad' : 'session',
    element('span', 'head', element('strong', '', who ?? 'unknown user'), element('span', 'dim', count)),
    element('span', 'latest', latest),
    ...(kept === undefined ? [] : [element('span', 'dim', kept)]),
    element('code', '', mcpSession === undefined ? id : `${id} · MCP session ${mcpSession}`),
  )
  button.type = 'button'
  button.dataset.session = id
  return button
}
