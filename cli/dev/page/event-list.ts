import { byId, element, type PageElement } from './browser.ts'
import { durationOf, operationOf, whoOf } from './console-event.ts'
import type { Entry, Tone } from './event-kind.ts'
import { factText } from './facts.ts'
import { durationText } from './timings.ts'

/** The maximum number of rows. */
export const MAX_ROWS = 200

const SIGNS: Readonly<Record<Tone, string>> = { good: '✓', bad: '✕', warn: '!', plain: '·' }

/** The list of the latest events, newest first. One row can be selected. */
export class EventList {
  readonly #list: PageElement = byId('events')
  readonly #empty: PageElement = byId('nothing')
  readonly #select: (entry: Entry | undefined) => void
  /** Newest first, as on the page. */
  #entries: Entry[] = []
  #rows: Map<Entry, PageElement> = new Map()
  #selected: Entry | undefined

  /** @param select called when the selection changes */
  constructor(select: (entry: Entry | undefined) => void) {
    this.#select = select
    this.#list.addEventListener('click', ({ target }) => {
      const number = Number(target.closest('[role=option]')?.dataset.number)
      const entry = this.#entries.find(({ event }) => event.number === number)
      if (entry !== undefined) this.select(entry)
    })
  }

  get selected(): Entry | undefined {
    return this.#selected
  }

  /** Adds rows at the top and removes old ones at the bottom. @param added oldest first */
  add(added: readonly Entry[]): void {
    if (added.length === 0) return
    if (added.length >= MAX_ROWS) {
      this.show(added)
      return
    }
    const newest = added.toReversed()
    this.#entries = [...newest, ...this.#entries]
    this.#list.prepend(...newest.map((entry) => this.#rowOf(entry)))
    while (this.#entries.length > MAX_ROWS) this.#removeLast()
    this.#empty.hidden = true
  }

  /** Replaces all rows. @param entries oldest first */
  show(entries: readonly Entry[]): void {
    this.#entries = entries.slice(-MAX_ROWS).reverse()
    this.#rows = new Map()
    this.#list.replaceChildren(...this.#entries.map((entry) => this.#rowOf(entry)))
    this.#empty.hidden = this.#entries.length > 0
    this.#mark(this.#selected)
  }

  select(entry: Entry | undefined): void {
    if (this.#selected !== undefined) this.#rows.get(this.#selected)?.setAttribute('aria-selected', 'false')
    this.#selected = entry
    this.#mark(entry)
    this.#select(entry)
  }

  /** Moves the selection. @param by the number of rows down, or up if negative */
  move(by: number): void {
    const at = this.#selected === undefined ? -1 : this.#entries.indexOf(this.#selected)
    const to = at === -1 ? 0 : Math.max(0, Math.min(this.#entries.length - 1, at + by))
    const entry = this.#entries[to]
    if (entry === undefined) return
    this.select(entry)
    this.#rows.get(entry)?.scrollIntoView({ block: 'nearest' })
  }

  focus(): void {
    this.#list.focus()
  }

  #removeLast(): void {
    const gone = this.#entries.pop()
    if (gone === undefined) return
    this.#rows.get(gone)?.remove()
    this.#rows.delete(gone)
    if (gone === this.#selected) this.#list.removeAttribute('aria-activedescendant')
  }

  #mark(entry: Entry | undefined): void {
    const row = entry === undefined ? undefined : this.#rows.get(entry)
    if (row === undefined) this.#list.removeAttribute('aria-activedescendant')
    else {
      row.setAttribute('aria-selected', 'true')
      this.#list.setAttribute('aria-activedescendant', row.id)
    }
  }

  #rowOf(entry: Entry): PageElement {
    const { event, kind } = entry
    const what = element('span', 'what', element('span', 'title', kind.title))
    const operation = kind.group === 'gate' && kind.tone === 'bad' ? operationOf(event) : undefined
    const text = [operation ?? '', whoOf(event)].filter((part) => part !== '').join(' · ')
    if (text !== '') what.append(element('span', 'about', text))
    for (const fact of kind.facts ?? []) what.append(element('span', 'fact', factText(fact)))
    if (kind.hint !== undefined) what.append(element('span', 'hint', kind.hint))
    const ms = durationOf(event)
    const row = element(
      'li',
      `row ${kind.tone}`,
      element('span', 'time', timeText(event.time)),
      element('span', 'chip', element('span', 'sign', SIGNS[kind.tone]), kind.word),
      what,
      element('span', 'ms', ms === undefined ? '' : durationText(ms)),
    )
    row.id = `event-${event.number}`
    row.dataset.number = String(event.number)
    row.setAttribute('role', 'option')
    row.setAttribute('aria-selected', String(entry === this.#selected))
    this.#rows.set(entry, row)
    return row
  }
}

/** Formats a time as the local time of day with milliseconds. */
export function timeText(iso: string): string {
  const time = new Date(iso)
  if (Number.isNaN(time.getTime())) return iso
  const two = (part: number): string => String(part).padStart(2, '0')
  const clock = [time.getHours(), time.getMinutes(), time.getSeconds()].map(two).join(':')
  return `${clock}.${String(time.getMilliseconds()).padStart(3, '0')}`
}
