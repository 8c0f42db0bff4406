import type { EventRow, StepRow, StoryRow } from '../events/row.ts'
import { byId, type Html, html, type PageElement, span } from './browser.ts'
import { countText, durationText, rowContent, timeText } from './lines.ts'

/** The maximum number of lines in the list, and of clients. */
const MAX_LISTED = 200
export const MAX_STORIES = 30

/** The list of the latest events, newest first. One line can be selected. */
export class EventList {
  readonly #list: PageElement = byId('events')
  readonly #select: (row: EventRow | undefined) => void
  /** Newest first, as on the page. */
  #shown: readonly EventRow[] = []
  selected: EventRow | undefined

  /** @param select called when the selection changes */
  constructor(select: (row: EventRow | undefined) => void) {
    this.#select = select
    this.#list.addEventListener('click', ({ target }) => {
      const id = target.closest('[role=option]')?.id
      const row = this.#shown.find((one) => idOf(one) === id)
      if (row !== undefined) this.select(row)
    })
  }

  /** Adds lines at the top and removes old ones at the bottom. @param added oldest first */
  add(added: readonly EventRow[]): void {
    const made = added.slice(-MAX_LISTED).reverse()
    this.#shown = [...made, ...this.#shown].slice(0, MAX_LISTED)
    this.#list.insertAdjacentHTML('afterbegin', html`${made.map(lineOf)}`.text)
    while (this.#list.childElementCount > MAX_LISTED) this.#list.lastElementChild?.remove()
    byId('nothing').hidden = this.#shown.length > 0
    this.#mark(true)
  }

  /** Replaces all lines. @param rows oldest first */
  show(rows: readonly EventRow[]): void {
    this.#shown = []
    this.#list.innerHTML = ''
    this.add(rows)
  }

  select(row: EventRow | undefined): void {
    this.#mark(false)
    this.selected = row
    this.#mark(true)
    this.#select(row)
  }

  /** Moves the selection. @param by the number of lines down, or up if negative */
  move(by: number): void {
    const row = moved(this.#shown, (one) => one === this.selected, by)
    if (row === undefined) return
    this.select(row)
    byId(idOf(row)).scrollIntoView({ block: 'nearest' })
  }

  /** Marks the selected line as selected or not, if the list contains it. */
  #mark(isSelected: boolean): void {
    const row = this.#shown.find((one) => one === this.selected)
    if (row === undefined) this.#list.removeAttribute('aria-activedescendant')
    else {
      byId(idOf(row)).setAttribute('aria-selected', String(isSelected))
      this.#list.setAttribute('aria-activedescendant', idOf(row))
    }
  }
}

const idOf = ({ number }: EventRow): string => `event-${number}`

function lineOf(row: EventRow): Html {
  return html`<li class="row ${row.tone}" id="${idOf(row)}" role="option" aria-selected="false">
    ${rowContent(row, row.about)}<span class="ms">${row.ms === undefined ? '' : durationText(row.ms)}</span></li>`
}

/** Returns the item at a distance of the current one, or the first item if none is current. */
function moved<Item>(
  items: readonly Item[],
  isCurrent: (item: Item) => boolean,
  by: number,
): Item | undefined {
  const at = items.findIndex(isCurrent)
  return items[at === -1 ? 0 : Math.max(0, Math.min(items.length - 1, at + by))]
}

/** The list of clients, newest first. Each one is shown with its steps, oldest first. */
export class StoryList {
  readonly #list: PageElement = byId('stories')
  readonly #scroll: PageElement = byId('scroll')
  /** The position to which the newest step was scrolled. The user has scrolled elsewhere if it differs. */
  #followed = 0
  /** By ID, oldest first. */
  #shown = new Map<number, StoryRow>()
  readonly #closed = new Set<number>()
  /** The ID of the element of the step that was opened last. */
  #current: string | undefined
  readonly #select: (step: StepRow) => void

  /** @param select called with a step that is clicked */
  constructor(select: (step: StepRow) => void) {
    this.#select = select
    this.#list.addEventListener('click', ({ target }) => {
      const button = target.closest('button')
      if (button?.dataset.step !== undefined) this.#open(button)
      else if (button !== null) this.#toggle(button, Number(button.dataset.story))
    })
  }

  get isEmpty(): boolean {
    return this.#shown.size === 0
  }

  /** The numbers of the events of all steps. */
  get numbers(): ReadonlySet<number> {
    return new Set([...this.#shown.values()].flatMap(({ steps }) => steps.map(({ number }) => number)))
  }

  /** Shows new or changed stories. @param stories oldest first */
  show(stories: Iterable<StoryRow>): void {
    for (const story of stories) {
      const isNew = !this.#shown.has(story.id)
      if (isNew && story.isProbe) this.#closed.add(story.id)
      const { text } = storyOf(story, !this.#closed.has(story.id))
      if (isNew) this.#list.insertAdjacentHTML('afterbegin', text)
      else byId(`story-${story.id}`).outerHTML = text
      this.#shown.set(story.id, story)
    }
    for (const [id] of [...this.#shown].slice(0, -MAX_STORIES)) {
      byId(`story-${id}`).remove()
      this.#shown.delete(id)
    }
  }

  /** Scrolls to the newest step of the newest story, unless the user has scrolled or has opened a step. On a narrow screen the whole page scrolls, and stays. */
  follow(): void {
    if (this.#current !== undefined || this.#scroll.scrollTop !== this.#followed) return
    if (this.#scroll.scrollHeight <= this.#scroll.clientHeight) return
    const steps = [...this.#list.querySelectorAll('.story:first-child .step')]
    steps.at(-1)?.scrollIntoView({ block: 'nearest' })
    this.#followed = this.#scroll.scrollTop
  }

  clear(): void {
    this.#shown = new Map()
    this.#list.innerHTML = ''
  }

  /** Moves the focus to another step. @param by the number of steps down, or up if negative */
  move(by: number): void {
    const steps = [...this.#list.querySelectorAll('.story:not(.closed) .step')]
    const step = moved(steps, ({ id }) => id === this.#current, by)
    if (step !== undefined) this.#open(step)
  }

  #open(button: PageElement): void {
    const { story, step } = button.dataset
    this.#current = button.id
    button.focus()
    const row = this.#shown.get(Number(story))?.steps[Number(step)]
    if (row !== undefined) this.#select(row)
  }

  #toggle(head: PageElement, id: number): void {
    const isOpen = this.#closed.delete(id)
    if (!isOpen) this.#closed.add(id)
    byId(`story-${id}`).classList.toggle('closed', !isOpen)
    head.setAttribute('aria-expanded', String(isOpen))
  }
}

function storyOf(
  { id, name, user, state, tone, next, steps, dropped, startedAt }: StoryRow,
  isOpen: boolean,
): Html {
  const rows = steps.map((step, index) => {
    const about = step.count > 1 ? `× ${countText(step.count)}` : ''
    return html`<li class="${step.tone}"><button type="button" class="step" id="step-${id}-${index}"
      data-story="${id}" data-step="${index}">${rowContent(step, about)}</button></li>`
  })
  if (dropped > 0) rows.splice(-1, 0, html`<li class="dropped">… ${dropped} more steps</li>`)
  return html`<li id="story-${id}" class="${isOpen ? 'story' : 'story closed'}" aria-label="${name}: ${state}">
    <h3><button type="button" class="head" data-story="${id}" aria-expanded="${String(isOpen)}">
      <strong>${name}</strong><span class="who">${user === undefined ? '' : `· ${user}`}</span>
      <span class="chip ${tone}">${state}</span>${span('time', timeText(startedAt))}</button></h3>
    <ol class="steps">${rows}</ol>
    ${next === undefined ? '' : html`<p class="next ${tone}"><strong>Next</strong> ${next}</p>`}</li>`
}
