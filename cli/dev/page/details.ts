import type { EventRow } from '../events/row.ts'
import { browser, byId, element, type PageElement } from './browser.ts'
import { timeText } from './row-content.ts'

/** The panel with all data of one event. */
export class Details {
  readonly #copied: PageElement = byId('copy')
  #row: EventRow | undefined

  /** @param showSession shows only the events of a session */
  constructor(showSession: (sessionId: string) => void) {
    byId('only-session').addEventListener('click', () => {
      if (this.#row !== undefined) showSession(this.#row.event.sessionId)
    })
    this.#copied.addEventListener('click', () => void this.#copy())
  }

  show(row: EventRow | undefined): void {
    this.#row = row
    byId('details').hidden = row === undefined
    if (row === undefined) return
    const { name, time, attributes, error, ...about } = row.event
    byId('details-title').textContent = name
    this.#copied.textContent = 'Copy as JSON'
    const body = byId('details-body')
    body.replaceChildren(
      element('p', `verdict ${row.tone}`, element('strong', '', row.word), ` ${row.title}`),
      ...(row.hint === undefined ? [] : [element('p', 'hint', row.hint)]),
      ...row.facts.map((fact) => element('p', 'fact', fact)),
      ...(row.kept === undefined ? [] : [element('p', 'hint', `Session ${row.kept}`)]),
      definitions({ time: timeText(time), ...about }),
      ...(attributes === undefined ? [] : [definitions(attributes)]),
      ...(error === undefined ? [] : [errorOf(error)]),
    )
    body.scrollTop = 0
  }

  async #copy(): Promise<void> {
    if (this.#row === undefined) return
    try {
      await browser.navigator.clipboard?.writeText(JSON.stringify(this.#row.event, null, 2))
      this.#copied.textContent = 'Copied'
    } catch {
      this.#copied.textContent = 'Not allowed by the browser'
    }
  }
}

function definitions(values: Readonly<Record<string, unknown>>): PageElement {
  const list = element('dl', '')
  for (const [name, value] of Object.entries(values)) {
    const text = typeof value === 'string' ? value : JSON.stringify(value, null, 1).replaceAll(/\n\s*/g, ' ')
    list.append(element('dt', '', name), element('dd', '', text))
  }
  return list
}

function errorOf({ name, message, code, stack }: NonNullable<EventRow['event']['error']>): PageElement {
  const head = code === undefined ? name : `${name} (${code})`
  return element('pre', '', stack ?? `${head}: ${message}`)
}
