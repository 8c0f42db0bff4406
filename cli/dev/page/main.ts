import type { PageRow } from '../events/lines.ts'
import { browser, byId, localTimes, type PageElement, show, showItems } from './browser.ts'

/** `clients` shows the stories instead of the list of events. */
const VIEWS = ['clients', 'all', 'gate', 'tool', 'event', 'problems'] as const

/** The maximum number of events that are kept, of lines in the list, and of clients. */
const MAX_ROWS = 2000
const MAX_LISTED = 200
const MAX_STORIES = 30

/** By number, oldest first. */
const rows = new Map<number, PageRow>()
/** The HTML of clients by ID, oldest first. */
const stories = new Map<number, string>()
const search = byId('search')
const scroll = byId('scroll')
let view: (typeof VIEWS)[number] = 'clients'
let words = ''
let paused = false
let isDrawingDue = false

/** The lines that the lists show, newest first. They stay while the page is paused. */
let shown: { readonly rows: readonly PageRow[]; readonly upTo: number } = { rows: [], upTo: 0 }
let shownStories: ReadonlyMap<string, string> = new Map()
/** The number of the latest event. */
let latest = 0
let selected: PageRow | undefined
/** The ID of the step that was opened last. */
let step: string | undefined
/** The position to which the newest step was scrolled. The user has scrolled elsewhere if it differs. */
let followed = 0

/** Schedules one update of the page for the next frame. */
function drawSoon(): void {
  if (isDrawingDue) return
  isDrawingDue = true
  browser.requestAnimationFrame(draw)
}

function draw(): void {
  isDrawingDue = false
  if (!paused) {
    find()
    shownStories = new Map([...stories].reverse().map(([id, text]) => [`story-${id}`, text]))
  }
  const items = shown.rows.map((row) => [idOf(row), row === selected ? marked(row) : row.line] as const)
  showItems('events', new Map(items))
  byId('events').setAttribute('aria-activedescendant', selected === undefined ? '' : idOf(selected))
  showItems('stories', shownStories)
  if (view === 'clients') follow()
  const isFresh = ({ number, group }: PageRow): boolean => number > shown.upTo && group !== 'hidden'
  const fresh = paused ? [...rows.values()].filter(isFresh).length : 0
  show('pause', paused ? `Resume (${fresh.toLocaleString('en')} new)` : 'Pause')
  const isEmpty = rows.size === 0 && stories.size === 0
  byId('nothing').hidden = isEmpty || shown.rows.length > 0
  byId('welcome').hidden = !isEmpty
  byId('no-stories').hidden = isEmpty || view !== 'clients' || stories.size > 0
}

const idOf = ({ number }: PageRow): string => `event-${number}`
const marked = ({ line }: PageRow): string => line.replace('aria-selected="false"', 'aria-selected="true"')

/** Finds the events that match the filter, by their times: events of two processes do not arrive in that order. */
function find(): void {
  const found = [...rows.values()].filter(matches)
  found.sort(({ event: a }, { event: b }) => (a.time < b.time ? -1 : Number(a.time > b.time)))
  shown = { rows: found.slice(-MAX_LISTED).reverse(), upTo: latest }
}

/** Returns `true` if the view has the event, and the event has all words of the filter, and none after a minus sign. */
function matches(row: PageRow): boolean {
  const isInView =
    view === 'problems' ? row.isProblem : view === 'all' || view === 'clients' || view === row.group
  if (!isInView || row.group === 'hidden') return false
  const text = words === '' ? '' : `${row.words} ${JSON.stringify(row.event)}`.toLowerCase()
  return words.split(/\s+/).every((word) => {
    const isExcluded = word.startsWith('-')
    const wanted = isExcluded ? word.slice(1) : word
    return wanted === '' || text.includes(wanted) !== isExcluded
  })
}

/** Scrolls to the newest step of the newest story, unless the user has scrolled or has opened a step. */
function follow(): void {
  if (step !== undefined || scroll.scrollTop !== followed) return
  if (scroll.scrollHeight <= scroll.clientHeight) return
  const steps = [...browser.document.querySelectorAll('.story:first-child .step')]
  steps.at(-1)?.scrollIntoView({ block: 'nearest' })
  followed = scroll.scrollTop
}

/** Shows all data of one event, or nothing. */
function select(row: PageRow | undefined): void {
  selected = row
  show('details', row?.details ?? '')
  draw()
}

/** Opens the event of an element. */
function open(element: PageElement): void {
  if (element.tagName === 'BUTTON') step = element.id
  select(rows.get(Number(element.dataset.number)))
}

/** Opens another line or step. @param by the number of lines down, or up if negative */
function move(by: number): void {
  const isList = view !== 'clients'
  const all = [...browser.document.querySelectorAll(isList ? '#events .row' : '.story[open] .step')]
  const current = isList ? selected && idOf(selected) : step
  const at = all.findIndex(({ id }) => id === current)
  const next = all[at === -1 ? 0 : Math.max(0, Math.min(all.length - 1, at + by))]
  if (next === undefined) return
  open(next)
  byId(next.id).focus()
  byId(next.id).scrollIntoView({ block: 'nearest' })
}

function setView(next: typeof view): void {
  view = next
  browser.document.body.dataset.view = next
  for (const one of VIEWS) byId(`view-${one}`).setAttribute('aria-pressed', String(one === next))
  setFilter(search.value)
}

function setFilter(text: string): void {
  words = text.toLowerCase()
  if (search.value !== text) search.value = text
  find()
  drawSoon()
}

function pause(): void {
  paused = !paused
  byId('pause').setAttribute('aria-pressed', String(paused))
  drawSoon()
}

/** Closes the details, or else clears the filter. */
function leave(): void {
  if (selected !== undefined) select(undefined)
  else if (words !== '') setFilter('')
  else if (view !== 'clients') setView('all')
}

/** Copies the text of a button, or else the selected event, and says so on the button. */
async function copy(button: PageElement): Promise<void> {
  try {
    const text = button.dataset.copy || JSON.stringify(selected?.event, null, 2)
    await browser.navigator.clipboard?.writeText(text)
    button.textContent = 'Copied'
  } catch {
    button.textContent = 'Not allowed by the browser'
  }
}

/** Announces refused requests to screen readers. Combines several refusals into one sentence. */
function announce(refusals: readonly string[]): void {
  if (refusals.length === 0) return
  const start = refusals.length === 1 ? 'Refused:' : `${refusals.length} refused, most recently:`
  byId('announcer').textContent = `${start} ${refusals.at(-1)}`
}

search.addEventListener('input', () => {
  // The filter applies to events.
  if (view === 'clients' && search.value !== '') setView('all')
  else setFilter(search.value)
})
for (const one of VIEWS) byId(`view-${one}`).addEventListener('click', () => setView(one))
byId('pause').addEventListener('click', pause)
browser.document.addEventListener('click', ({ target }) => {
  const button = target.closest('[data-copy]')
  if (button !== null) void copy(button)
  if (target.closest('#close') !== null) select(undefined)
  const session = target.closest('[data-session]')?.dataset.session
  if (session !== undefined) {
    setView('all')
    setFilter(session)
  }
  const element = target.closest('[data-number]')
  if (element !== null) open(element)
})

/** The distances of the keys that move the selection: the number of rows down, or up if negative. */
const MOVES: Readonly<Record<string, number>> = {
  j: 1,
  k: -1,
  ArrowDown: 1,
  ArrowUp: -1,
}
const ACTIONS: Readonly<Record<string, () => void>> = {
  '/': () => search.focus(),
  p: pause,
  Escape: leave,
}

browser.document.addEventListener('keydown', (event) => {
  const { key, target } = event
  if (event.ctrlKey || event.metaKey || event.altKey) return
  if (target === search) {
    if (key !== 'Escape' && key !== 'Enter') return
    if (key === 'Escape') leave()
    byId('events').focus()
  } else if (Object.hasOwn(ACTIONS, key)) ACTIONS[key]?.()
  // A focused input field handles arrow keys itself.
  else if (!Object.hasOwn(MOVES, key) || (key.startsWith('Arrow') && target.tagName === 'INPUT')) return
  else move(MOVES[key] as number)
  event.preventDefault()
})

/** Receives the messages of `mcp-gatekit dev`, by type. Lists begin with the oldest. */
const LISTENERS = {
  /** The first message of each connection. All events follow. */
  hello() {
    rows.clear()
    stories.clear()
    select(undefined)
  },
  /** The contents of elements by their IDs. */
  contents(contents: Readonly<Record<string, string>>) {
    for (const [id, text] of Object.entries(contents)) show(id, text)
  },
  events(received: readonly PageRow[]) {
    for (const row of received) rows.set(row.number, row)
    for (const number of rows.keys()) if (rows.size > MAX_ROWS) rows.delete(number)
    latest = received.at(-1)?.number ?? latest
    announce(received.flatMap(({ refusal }) => refusal ?? []))
  },
  stories(changed: readonly { readonly id: number; readonly html: string }[]) {
    for (const { id, html } of changed) stories.set(id, html)
    for (const id of stories.keys()) if (stories.size > MAX_STORIES) stories.delete(id)
  },
} as const

const source = new browser.EventSource('/events')
for (const [type, listener] of Object.entries(LISTENERS))
  source.addEventListener(type, ({ data }) => {
    listener(JSON.parse(localTimes(data)) as never)
    drawSoon()
  })
// The browser reconnects automatically.
source.addEventListener('error', () => show('connection', '<span class="bad">not connected</span>'))
