import type { About, ServerState } from '../events/event-log.ts'
import type { EventRow, StoryRow } from '../events/row.ts'
import { browser, byId, type PageElement, show, showItems } from './browser.ts'
import { countText, eventItems, idOf, storyItems } from './lines.ts'
import { announce, copy, type StatisticsMessage, showDetails, showServer, showStatistics } from './panels.ts'
import { type Filter, Rows } from './rows.ts'

/** The messages of `mcp-gatekit dev`, by type. */
interface Messages {
  /** Facts that are constant while `mcp-gatekit dev` runs. */
  hello: About & { readonly run: string }
  server: ServerState
  /** Oldest first. */
  events: readonly EventRow[]
  /** The new and changed stories of clients, oldest first. */
  stories: readonly StoryRow[]
  statistics: StatisticsMessage
}

/** `clients` shows the stories instead of the list of events. */
const VIEWS: readonly (Filter['view'] | 'clients')[] = ['clients', 'all', 'gate', 'tool', 'event', 'problems']
const PANELS = ['list', 'timing', 'sessions', 'delivery']

/** The maximum number of lines in the list, and of clients. */
const MAX_LISTED = 200
const MAX_STORIES = 30

const rows = new Rows()
/** By ID, oldest first. */
const stories = new Map<number, StoryRow>()
const search = byId('search')
const scroll = byId('scroll')
const { body } = browser.document
let view: (typeof VIEWS)[number] = 'clients'
let filter: Filter = { view: 'all', text: '' }
let paused = false
let isConnected = false
let server: ServerState | undefined
let statistics: StatisticsMessage | undefined
let isDrawingDue = false

/** The lines that the lists show, newest first. They stay while the page is paused. */
let shown: { readonly rows: readonly EventRow[]; readonly upTo: number } = { rows: [], upTo: 0 }
let shownStories: readonly StoryRow[] = []
/** The number of the latest event. */
let latest = 0
let selected: EventRow | undefined
/** The IDs of the elements of the clients that the user has opened or closed, and of the step that was opened last. */
const toggled = new Set<string>()
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
    shownStories = [...stories.values()].reverse()
  }
  showItems('events', eventItems(shown.rows, selected))
  byId('events').setAttribute('aria-activedescendant', selected === undefined ? '' : idOf(selected))
  byId('nothing').hidden = shown.rows.length > 0
  showItems('stories', storyItems(shownStories, toggled))
  if (view === 'clients') follow()
  const fresh = rows.listed.filter(({ number }) => number > shown.upTo).length
  show('pause', paused ? `Resume (${countText(fresh)} new)` : 'Pause')
  if (server !== undefined) showServer(server, statistics?.sender !== undefined, isConnected)
  if (statistics !== undefined) {
    showStatistics(statistics)
    const [kept, all] = [rows.listed.length, statistics.counts.events]
    const events = `${all} ${all === 1 ? 'event' : 'events'}`
    show('how-many', all > kept ? `the latest ${countText(kept)} of ${countText(all)} events` : events)
  }
  const isEmpty = rows.listed.length === 0 && stories.size === 0
  byId('welcome').hidden = !isEmpty
  byId('no-stories').hidden = isEmpty || view !== 'clients' || stories.size > 0
}

/** Finds the events that match the filter. */
function find(): void {
  const found = rows.listed.filter((row) => rows.matches(row, filter))
  shown = { rows: found.slice(-MAX_LISTED).reverse(), upTo: latest }
}

/** Scrolls to the newest step of the newest story, unless the user has scrolled or has opened a step. On a narrow screen the whole page scrolls, and stays. */
function follow(): void {
  if (step !== undefined || scroll.scrollTop !== followed) return
  if (scroll.scrollHeight <= scroll.clientHeight) return
  const steps = [...browser.document.querySelectorAll('.story:first-child .step')]
  steps.at(-1)?.scrollIntoView({ block: 'nearest' })
  followed = scroll.scrollTop
}

function select(row: EventRow | undefined): void {
  selected = row
  showDetails(row)
  draw()
}

/** Opens the event of an element. */
function open(element: PageElement): void {
  if (element.tagName === 'BUTTON') step = element.id
  select(rows.find(Number(element.dataset.number)))
}

/** Opens another line or step. @param by the number of lines down, or up if negative */
function move(by: number): void {
  const isList = view !== 'clients'
  const all = [...browser.document.querySelectorAll(isList ? '#events .row' : '.story:not(.closed) .step')]
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
  body.dataset.view = next
  press(VIEWS, 'view', next)
  setFilter({ view: next === 'clients' ? 'all' : next })
}

function setFilter(changes: Partial<Filter>): void {
  filter = { ...filter, ...changes }
  if (search.value !== filter.text) search.value = filter.text
  find()
  drawSoon()
}

/** Marks one button of a group as pressed. */
function press(group: readonly string[], prefix: string, pressed: string): void {
  for (const one of group) byId(`${prefix}-${one}`).setAttribute('aria-pressed', String(one === pressed))
}

function showSession(sessionId: string | undefined): void {
  if (sessionId === undefined) return
  setView('all')
  setFilter({ text: sessionId })
  showPanel('list')
}

function showPanel(panel: string): void {
  body.dataset.panel = panel
  press(PANELS, 'to', panel)
}

function pause(): void {
  paused = !paused
  byId('pause').setAttribute('aria-pressed', String(paused))
  drawSoon()
}

/** Closes the details, or else clears the filter. */
function leave(): void {
  if (selected !== undefined) select(undefined)
  else if (filter.text !== '') setFilter({ text: '' })
  else if (view !== 'clients') setView('all')
}

search.addEventListener('input', () => {
  // The filter applies to events.
  if (view === 'clients' && search.value !== '') setView('all')
  setFilter({ text: search.value })
})
for (const one of VIEWS) byId(`view-${one}`).addEventListener('click', () => setView(one))
for (const panel of PANELS) byId(`to-${panel}`).addEventListener('click', () => showPanel(panel))
byId('pause').addEventListener('click', pause)
byId('close').addEventListener('click', () => select(undefined))
byId('only-session').addEventListener('click', () => showSession(selected?.event.sessionId))
browser.document.addEventListener('click', ({ target }) => {
  const button = target.closest('[data-copy]')
  if (button !== null) void copy(button)
  showSession(target.closest('[data-session]')?.dataset.session)
  const element = target.closest('[data-number]')
  if (element !== null) open(element)
  const story = target.closest('[data-story]')?.dataset.story
  if (story === undefined) return
  if (!toggled.delete(story)) toggled.add(story)
  draw()
})

/** The distances of the keys that move the selection: the number of rows down, or up if negative. */
const MOVES: Readonly<Record<string, number>> = {
  j: 1,
  k: -1,
  ArrowDown: 1,
  ArrowUp: -1,
  PageDown: 10,
  PageUp: -10,
  Home: -10_000,
  End: 10_000,
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

let run: string | undefined
const LISTENERS: { readonly [Type in keyof Messages]: (message: Messages[Type]) => void } = {
  hello(message) {
    // The command was restarted on the same port, so the shown events are outdated.
    if (run !== undefined && run !== message.run) {
      rows.clear()
      stories.clear()
      shownStories = []
      setFilter({})
      select(undefined)
    }
    run = message.run
    show('command', message.command)
    show('issuer', message.issuer ?? 'none')
  },
  server(message) {
    server = message
  },
  events(received) {
    const stepsOf = () =>
      new Set([...stories.values()].flatMap(({ steps }) => steps.map(({ number }) => number)))
    announce(rows.add(received, stepsOf))
    latest = received.at(-1)?.number ?? latest
  },
  stories(changed) {
    for (const story of changed) stories.set(story.id, story)
    for (const id of stories.keys()) if (stories.size > MAX_STORIES) stories.delete(id)
  },
  statistics(message) {
    statistics = message
  },
}

/** Shows whether the page is connected to `mcp-gatekit dev`. The browser reconnects automatically. */
function setConnected(connected: boolean): void {
  isConnected = connected
  drawSoon()
}

const source = new browser.EventSource('/events')
for (const [type, listener] of Object.entries(LISTENERS))
  source.addEventListener(type, ({ data }) => {
    listener(JSON.parse(data) as never)
    drawSoon()
  })
source.addEventListener('open', () => setConnected(true))
source.addEventListener('error', () => setConnected(false))
