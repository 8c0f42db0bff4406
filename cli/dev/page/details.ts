import { browser, byId, element, type PageElement } from './browser.ts'
import { keptText } from './console-event.ts'
import type { Entry } from './event-kind.ts'
import { timeText } from './event-list.ts'
import { factText } from './facts.ts'

/** Members that are shown separately. */
const SHOWN_APART = ['attributes', 'error', 'number', 'name', 'time']

/** The panel with all data of one event. */
export class Details {
  readonly #panel: PageElement = byId('details')
  readonly #title: PageElement = byId('details-title')
  readonly #body: PageElement = byId('details-body')
  readonly #onlySession: PageElement = byId('only-session')
  readonly #copied: PageElement = byId('copy')
  #entry: Entry | undefined

  /** @param showSession shows only the events of a session */
  constructor(showSession: (sessionId: string) => void) {
    this.#onlySession.addEventListener('click', () => {
      if (this.#entry !== undefined) showSession(this.#entry.event.sessionId)
    })
    this.#copied.addEventListener('click', () => void this.#copy())
  }

  show(entry: Entry | undefined): void {
    this.#entry = entry
    this.#panel.hidden = entry === undefined
    if (entry === undefined) return
    const { event, kind } = entry
    this.#title.textContent = event.name
    this.#copied.textContent = 'Copy as JSON'
    const { number: _number, ...envelope } = event
    const about = Object.entries(envelope).filter(([member]) => !SHOWN_APART.includes(member))
    const kept = keptText(event)
    this.#body.replaceChildren(
      element('p', `verdict ${kind.tone}`, element('strong', '', kind.word), ` ${kind.title}`),
      ...(kind.hint === undefined ? [] : [element('p', 'hint', kind.hint)]),
      ...(kind.facts ?? []).map((fact) => element('p', 'fact', factText(fact))),
      ...(kept === undefined ? [] : [element('p', 'hint', `Session ${kept}`)]),
      definitions([['time', timeText(event.time)], ...about]),
      ...(event.attributes === undefined ? [] : [definitions(Object.entries(event.attributes))]),
      ...(event.error === undefined ? [] : [errorOf(event.error)]),
    )
    this.#body.scrollTop = 0
  }

  async #copy(): Promise<void> {
    if (this.#entry === undefined) return
    const { number: _number, ...envelope } = this.#entry.event
    try {
      await browser.navigator.clipboard?.writeText(JSON.stringify(envelope, null, 2))
      this.#copied.textContent = 'Copied'
    } catch {
      this.#copied.textContent = 'Not allowed by the browser'
    }
  }
}

function definitions(pairs: readonly (readonly [string, unknown])[]): PageElement {
  const list = element('dl', '')
  for (const [name, value] of pairs) list.append(element('dt', '', name), element('dd', '', textOf(value)))
  return list
}

function textOf(value: unknown): string {
  return typeof value === 'string' ? value : JSON.stringify(value, null, 1).replaceAll(/\n\s*/g, ' ')
}

function errorOf({ name, message, code, stack }: NonNullable<Entry['event']['error']>): PageElement {
  const head = code === undefined ? name : `${name} (${code})`
  return element('pre', '', stack ?? `${head}: ${message}`)
}
