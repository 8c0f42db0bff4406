import { byId, element, type PageElement } from './browser.ts'
import { timeText } from './event-list.ts'
import type { EventStore, SessionSummary } from './event-store.ts'

/** The maximum number of listed sessions. */
const MAX_LISTED = 12

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

  draw(store: EventStore): void {
    const sessions = store.sessions().slice(0, MAX_LISTED)
    const now = sessions.map(({ id, events }) => `${id} ${events}`).join()
    if (now === this.#shown) return
    this.#shown = now
    byId('no-sessions').hidden = sessions.length > 0
    this.#list.replaceChildren(...sessions.map((session) => element('li', '', buttonOf(session))))
  }
}

function buttonOf(session: SessionSummary): PageElement {
  const { id, who, events, hasProblem, latest, startedAt, mcpSession, kept } = session
  const head = element(
    'span',
    'head',
    element('strong', '', who ?? 'unknown user'),
    element('span', 'dim', `${events} event${events === 1 ? '' : 's'} · ${timeText(startedAt)}`),
  )
  const button = element(
    'button',
    hasProblem ? 'session bad' : 'session',
    head,
    element('span', 'latest', latest),
    ...(kept === undefined ? [] : [element('span', 'dim', kept)]),
  )
  button.append(element('code', '', mcpSession === undefined ? id : `${id} · MCP session ${mcpSession}`))
  button.type = 'button'
  button.dataset.session = id
  return button
}
