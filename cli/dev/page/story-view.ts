import type { StepRow, StoryRow } from '../events/row.ts'
import { byId, element, type PageElement } from './browser.ts'
import { clamped } from './event-list.ts'
import { rowContent, timeText } from './row-content.ts'

/** The maximum number of clients on the page. */
export const MAX_STORIES = 30

/** The list of clients, newest first. Each one is shown with its steps, oldest first. */
export class StoryView {
  readonly #list: PageElement = byId('stories')
  readonly #scroll: PageElement = byId('scroll')
  /** The position to which the newest step was scrolled. The user has scrolled elsewhere if it differs. */
  #followed = 0
  /** The stories with their elements, by ID. */
  #shown = new Map<number, { readonly story: StoryRow; readonly element: PageElement }>()
  readonly #closed = new Set<number>()
  /** The ID of the element of the step that was opened last. */
  #current: string | undefined
  readonly #select: (step: StepRow) => void

  /** @param select called with a step that is clicked */
  constructor(select: (step: StepRow) => void) {
    this.#select = select
    this.#list.addEventListener('click', ({ target }) => {
      const step = target.closest('.step')
      if (step !== null) this.#open(step)
      const head = target.closest('.head')
      if (head !== null) this.#toggle(head, Number(head.dataset.story))
    })
  }

  get isEmpty(): boolean {
    return this.#shown.size === 0
  }

  /** The numbers of the events of all steps. */
  get numbers(): ReadonlySet<number> {
    return new Set([...this.#shown.values()].flatMap(({ story }) => story.steps.map(({ number }) => number)))
  }

  /** Shows new or changed stories. @param stories oldest first */
  show(stories: Iterable<StoryRow>): void {
    for (const story of stories) {
      const before = this.#shown.get(story.id)?.element
      if (before === undefined && story.isProbe) this.#closed.add(story.id)
      const made = this.#make(story)
      if (before === undefined) this.#list.prepend(made)
      else before.replaceWith(made)
      this.#shown.set(story.id, { story, element: made })
    }
    for (const [id, { element }] of this.#shown) {
      if (this.#shown.size <= MAX_STORIES) break
      element.remove()
      this.#shown.delete(id)
    }
  }

  /** Scrolls to the newest step of the newest story, unless the user has scrolled or has opened a step. On a narrow screen the whole page scrolls, and stays. */
  follow(): void {
    if (this.#current !== undefined || this.#scroll.scrollTop !== this.#followed) return
    if (this.#scroll.scrollHeight <= this.#scroll.clientHeight) return
    const [newest] = this.#list.querySelectorAll('.story')
    const last = [...(newest?.querySelectorAll('.step') ?? [])].at(-1)
    last?.scrollIntoView({ block: 'nearest' })
    this.#followed = this.#scroll.scrollTop
  }

  clear(): void {
    this.#shown = new Map()
    this.#list.replaceChildren()
  }

  /** Moves the focus to another step. @param by the number of steps down, or up if negative */
  move(by: number): void {
    const steps = [...this.#list.querySelectorAll('.story:not(.closed) .step')]
    const at = steps.findIndex(({ id }) => id === this.#current)
    const step = steps[at === -1 ? 0 : clamped(at + by, steps.length)]
    if (step !== undefined) this.#open(step)
  }

  #open(button: PageElement): void {
    const { story, step } = button.dataset
    this.#current = button.id
    button.focus()
    const row = this.#shown.get(Number(story))?.story.steps[Number(step)]
    if (row !== undefined) this.#select(row)
  }

  #toggle(head: PageElement, id: number): void {
    const isOpen = this.#closed.delete(id)
    if (!isOpen) this.#closed.add(id)
    head.closest('.story')?.classList.toggle('closed', !isOpen)
    head.setAttribute('aria-expanded', String(isOpen))
  }

  #make({ id, name, user, state, tone, next, steps, dropped, startedAt }: StoryRow): PageElement {
    const isOpen = !this.#closed.has(id)
    const head = buttonOf('head', id, [
      element('strong', '', name),
      element('span', 'who', user === undefined ? '' : `· ${user}`),
      element('span', `chip ${tone}`, state),
      element('span', 'time', timeText(startedAt)),
    ])
    head.setAttribute('aria-expanded', String(isOpen))
    const rows = steps.map((step, index) => {
      const about = step.count > 1 ? `× ${step.count.toLocaleString('en')}` : ''
      const button = buttonOf('step', id, rowContent(step, about))
      button.id = `step-${id}-${index}`
      button.dataset.step = String(index)
      return element('li', step.tone, button)
    })
    if (dropped > 0) rows.splice(-1, 0, element('li', 'dropped', `… ${dropped} more steps`))
    const made = element('li', isOpen ? 'story' : 'story closed', element('h3', '', head))
    made.append(element('ol', 'steps', ...rows))
    if (next !== undefined)
      made.append(element('p', `next ${tone}`, element('strong', '', 'Next'), ` ${next}`))
    made.setAttribute('aria-label', `${name}: ${state}`)
    return made
  }
}

function buttonOf(className: string, story: number, content: readonly PageElement[]): PageElement {
  const button = element('button', className, ...content)
  button.type = 'button'
  button.dataset.story = String(story)
  return button
}
