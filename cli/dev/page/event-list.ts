import type { EventRow } from '../events/row.ts'
import { byId, element, type PageElement } from './browser.ts'
import { durationText } from './durations.ts'
import { rowContent } from './row-content.ts'

/** The maximum number of lines in the list. */
const MAX_LISTED = 200

/** The list of the latest events, newest first. One line can be selected. */
export class EventList {
  readonly #list: PageElement = byId('events')
  readonly #select: (row: EventRow | undefined) => void
  /** The lines with their elements, newest first, as on the page. */
  #shown: readonly (readonly [EventRow, PageElement])[] = []
  #selected: EventRow | undefined

  /** @param select called when the selection changes */
  constructor(select: (row: EventRow | undefined) => void) {
    this.#select = select
    this.#list.addEventListener('click', ({ target }) => {
      const id = target.closest('[role=option]')?.id
      const found = this.#shown.find(([, element]) => element.id === id)
      if (found !== undefined) this.select(found[0])
    })
  }

  get selected(): EventRow | undefined {
    return this.#selected
  }

  /** Adds lines at the top and removes old ones at the bottom. @param added oldest first */
  add(added: readonly EventRow[]): void {
    if (added.length === 0) return
    const made = added.slice(-MAX_LISTED).map((row) => [row, elementOf(row)] as const)
    const all = [...made.reverse(), ...this.#shown]
    this.#shown = all.slice(0, MAX_LISTED)
    this.#list.prepend(...made.map(([, element]) => element))
    for (const [, element] of all.slice(MAX_LISTED)) element.remove()
    this.#update()
  }

  /** Replaces all lines. @param rows oldest first */
  show(rows: readonly EventRow[]): void {
    this.#shown = []
    this.#list.replaceChildren()
    this.add(rows)
    this.#update()
  }

  select(row: EventRow | undefined): void {
    this.#elementOf(this.#selected)?.setAttribute('aria-selected', 'false')
    this.#selected = row
    this.#update()
    this.#select(row)
  }

  /** Moves the selection. @param by the number of lines down, or up if negative */
  move(by: number): void {
    const at = this.#shown.findIndex(([row]) => row === this.#selected)
    const [row, element] = this.#shown[at === -1 ? 0 : clamped(at + by, this.#shown.length)] ?? []
    if (row === undefined) return
    this.select(row)
    element?.scrollIntoView({ block: 'nearest' })
  }

  focus(): void {
    this.#list.focus()
  }

  #elementOf(row: EventRow | undefined): PageElement | undefined {
    return this.#shown.find(([one]) => one === row)?.[1]
  }

  #update(): void {
    byId('nothing').hidden = this.#shown.length > 0
    const selected = this.#elementOf(this.#selected)
    selected?.setAttribute('aria-selected', 'true')
    if (selected === undefined) this.#list.removeAttribute('aria-activedescendant')
    else this.#list.setAttribute('aria-activedescendant', selected.id)
  }
}

/** Returns the nearest index of a list with that length. */
export function clamped(index: number, length: number): number {
  return Math.max(0, Math.min(length - 1, index))
}

function elementOf(row: EventRow): PageElement {
  const ms = element('span', 'ms', row.ms === undefined ? '' : durationText(row.ms))
  const made = element('li', `row ${row.tone}`, ...rowContent(row, row.about), ms)
  made.id = `event-${row.number}`
  made.setAttribute('role', 'option')
  made.setAttribute('aria-selected', 'false')
  return made
}
