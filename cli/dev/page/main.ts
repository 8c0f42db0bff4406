import type { About, ServerState } from '../events/event-log.ts'
import type { EventRow, StoryRow } from '../events/row.ts'
import { browser, byId, show } from './browser.ts'
import { countText } from './lines.ts'
import { EventList, MAX_STORIES, StoryList } from './lists.ts'
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

const rows = new Rows()
const search = byId('search')
const { body } = browser.document
let view: (typeof VIEWS)[number] = 'clients'
let filter: Filter = { view: 'all', text: '' }
let paused = false
let isConnected = false

/** The events and stories that the page has not shown yet. */
let fresh: EventRow[] = []
let freshStories = new Map<number, StoryRow>()
let server: ServerState | undefined
let statistics: StatisticsMessage | undefined
let isDrawingDue = false

const list = new EventList(showDetails)
const stories = new StoryList(({ number }) => list.select(rows.find(number)))

/** Schedules one update of the page for the next frame. */
function drawSoon(): void {
  if (isDrawingDue) return
  isDrawingDue = true
  browser.requestAnimationFrame(draw)
}

function draw(): void {
  isDrawingDue = false
  if (!paused) {
    if (rows.takeReordered()) list.show(rows.listed.filter((row) => rows.matches(row, filter)))
    else list.add(fresh.filter((row) => rows.matches(row, filter)))
    fresh = []
    stories.show(freshStories.values())
    if (view === 'clients' && freshStories.size > 0) stories.follow()
    freshStories = new Map()
  }
  show('pause', paused ? `Resume (${countText(fresh.length)} new)` : 'Pause')
  if (server !== undefined) showServer(server, statistics?.sender !== undefined, isConnected)
  if (statistics !== undefined) {
    showStatistics(statistics)
    const [kept, all] = [rows.listed.length, statistics.counts.events]
    const events = `${all} ${all === 1 ? 'event' : 'events'}`
    show('how-many', all > kept ? `the latest ${countText(kept)} of ${countText(all)} events` : events)
  }
  const hasStories = !stories.isEmpty || freshStories.size > 0
  const isEmpty = rows.listed.length === 0 && !hasStories
  byId('welcome').hidden = !isEmpty
  byId('no-stories').hidden = isEmpty || view !== 'clients' || hasStories
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
  fresh = []
  list.show(rows.listed.filter((row) => rows.matches(row, filter)))
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
  if (list.selected !== undefined) list.select(undefined)
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
byId('close').addEventListener('click', () => list.select(undefined))
byId('only-session').addEventListener('click', () => showSession(list.selected?.event.sessionId))
browser.document.addEventListener('click', ({ target }) => {
  const button = target.closest('[data-copy]')
  if (button !== null) void copy(button)
  showSession(target.closest('[data-session]')?.dataset.session)
  const row = rows.find(Number(target.closest('[data-number]')?.dataset.number))
  if (row !== undefined) list.select(row)
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
  else (view === 'clients' ? stories : list).move(MOVES[key] as number)
  event.preventDefault()
})

let run: string | undefined
const LISTENERS: { readonly [Type in keyof Messages]: (message: Messages[Type]) => void } = {
  hello(message) {
    // The command was restarted on the same port, so the shown events are outdated.
    if (run !== undefined && run !== message.run) {
      rows.clear()
      freshStories = new Map()
      stories.clear()
      list.select(undefined)
      setFilter({})
    }
    run = message.run
    show('command', message.command)
    show('issuer', message.issuer ?? 'none')
  },
  server(message) {
    server = message
  },
  events(received) {
    const added = rows.add(received, () => stories.numbers)
    announce(added)
    fresh = [...fresh, ...added].slice(-rows.listed.length)
  },
  stories(changed) {
    for (const story of changed) freshStories.set(story.id, story)
    for (const id of freshStories.keys()) if (freshStories.size > MAX_STORIES) freshStories.delete(id)
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
