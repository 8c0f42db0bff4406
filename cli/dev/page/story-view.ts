import { byId, element, type PageElement } from './browser.ts'
import type { Entry, Tone } from './event-kind.ts'
import { timeText } from './event-list.ts'
import { FAILED, STAGE_TEXTS } from './next-step.ts'
import type { Step, Stories, Story } from './stories.ts'

const SIGNS: Readonly<Record<Tone, string>> = { good: '✓', bad: '✕', warn: '!', plain: '·' }

/** The list of clients, newest first. Each one is shown with its steps, oldest first. */
export class StoryView {
  readonly #list: PageElement = byId('stories')
  /** The elements of the stories, and the state that they show. */
  readonly #shown = new Map<number, { readonly state: string; readonly element: PageElement }>()
  readonly #closed = new Set<number>()
  /** The events of the steps, in the order of the page. */
  #entries = new Map<string, Entry>()
  readonly #buttons = new Map<string, PageElement>()
  #current: string | undefined
  readonly #select: (entry: Entry) => void

  /** @param select called with the event of a step that is clicked */
  constructor(select: (entry: Entry) => void) {
    this.#select = select
    this.#list.addEventListener('click', ({ target }) => {
      const step = target.closest('[data-step]')?.dataset.step
      if (step !== undefined) this.#open(step)
      const story = target.closest('[data-toggle]')?.dataset.toggle
      if (story !== undefined) this.#toggle(Number(story))
    })
  }

  draw({ all }: Stories): void {
    this.#entries = new Map()
    const elements = all.map((story) => this.#elementOf(story))
    const ids = new Set(all.map(({ id }) => id))
    for (const id of this.#shown.keys()) if (!ids.has(id)) this.#shown.delete(id)
    for (const id of this.#buttons.keys()) if (!this.#entries.has(id)) this.#buttons.delete(id)
    const isChanged =
      elements.length !== this.#list.children.length ||
      elements.some((one, index) => one !== this.#list.children[index])
    if (isChanged) this.#list.replaceChildren(...elements)
  }

  /** Moves the focus to another step. @param by the number of steps down, or up if negative */
  move(by: number): void {
    const ids = [...this.#entries.keys()].filter((id) => !this.#closed.has(Number(id.split('-', 1)[0])))
    const at = this.#current === undefined ? -1 : ids.indexOf(this.#current)
    const id = ids[at === -1 ? 0 : Math.max(0, Math.min(ids.length - 1, at + by))]
    if (id !== undefined) this.#open(id)
  }

  #open(id: string): void {
    const entry = this.#entries.get(id)
    this.#current = id
    this.#buttons.get(id)?.focus()
    if (entry !== undefined) this.#select(entry)
  }

  #toggle(id: number): void {
    if (!this.#closed.delete(id)) this.#closed.add(id)
    const shown = this.#shown.get(id)
    shown?.element.classList.toggle('closed', this.#closed.has(id))
    const head = shown?.element.children[0]?.children[0]
    head?.setAttribute('aria-expanded', String(!this.#closed.has(id)))
  }

  #elementOf(story: Story): PageElement {
    story.steps.forEach(({ entry }, index) => void this.#entries.set(`${story.id}-${index}`, entry))
    const state = JSON.stringify([
      story.name,
      story.user,
      story.stage,
      story.next,
      story.dropped,
      story.steps.map((step) => [step.entry.event.number, step.title, step.tone, step.count, step.facts]),
    ])
    const before = this.#shown.get(story.id)
    if (before?.state === state) return before.element
    const made = this.#make(story)
    this.#shown.set(story.id, { state, element: made })
    return made
  }

  #make(story: Story): PageElement {
    const { id, name, user, stage, next, steps, dropped, startedAt } = story
    const isOpen = !this.#closed.has(id)
    const tone = stage === 'called' ? 'good' : FAILED.includes(stage) ? 'bad' : 'warn'
    const head = element(
      'button',
      'head',
      element('strong', '', name),
      element('span', 'who', user === undefined ? '' : `· ${user}`),
      element('span', `chip ${tone}`, STAGE_TEXTS[stage]),
      element('span', 'time', timeText(startedAt)),
    )
    head.type = 'button'
    head.dataset.toggle = String(id)
    head.setAttribute('aria-expanded', String(isOpen))
    const rows = steps.map((step, index) => element('li', step.tone, this.#stepOf(step, `${id}-${index}`)))
    if (dropped > 0) rows.splice(rows.length - 1, 0, element('li', 'dropped', `… ${dropped} more steps`))
    const list = element('ol', 'steps', ...rows)
    const last =
      next === undefined ? [] : [element('p', `next ${tone}`, element('strong', '', 'Next'), ` ${next}`)]
    const made = element('li', isOpen ? 'story' : 'story closed', element('h3', '', head), list, ...last)
    made.setAttribute('aria-label', `${name}: ${STAGE_TEXTS[stage]}`)
    return made
  }

  #stepOf(step: Step, id: string): PageElement {
    const button = element('button', 'step', ...contentOf(step))
    button.type = 'button'
    button.dataset.step = id
    this.#buttons.set(id, button)
    return button
  }
}

function contentOf({ entry, word, title, tone, hint, facts, count }: Step): readonly PageElement[] {
  const text = element('span', 'what', element('span', 'title', title))
  if (count > 1) text.append(element('span', 'about', `× ${count.toLocaleString('en')}`))
  for (const fact of facts) text.append(element('span', 'fact', fact))
  if (hint !== undefined && tone === 'bad') text.append(element('span', 'hint', hint))
  return [
    element('span', 'time', timeText(entry.event.time)),
    element('span', 'chip', element('span', 'sign', SIGNS[tone]), word),
    text,
  ]
}
