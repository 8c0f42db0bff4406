import { Announcer } from './announcer.ts'
import { browser, byId, element } from './browser.ts'
import { connect, type ServerMessage } from './connection.ts'
import { type StatisticsMessage, showStatistics } from './delivery-statistics.ts'
import { Details } from './details.ts'
import type { Entry } from './event-kind.ts'
import { EventList } from './event-list.ts'
import { EventStore, type Filter } from './event-store.ts'
import { setExpected } from './facts.ts'
import { listenToKeys } from './keyboard.ts'
import { Plot } from './plot.ts'
import { Sessions } from './sessions.ts'
import { StoryView } from './story-view.ts'
import { showSummary } from './summary.ts'

const VIEWS: readonly View[] = ['clients', 'all', 'gate', 'tool', 'problems']
const PANELS = ['list', 'timing', 'sessions', 'delivery'] as const

/** `clients` shows the stories instead of the list of events. */
type View = Filter['view'] | 'clients'

const store = new EventStore()
const search = byId('search')
const announcer = new Announcer()
let view: View = 'clients'
let filter: Filter = { view: 'all', text: '' }
let paused = false

/** The events and statistics that the page has not shown yet. */
let fresh: Entry[] = []
let freshStatistics: StatisticsMessage | undefined
let isDrawingDue = false

const details = new Details(showSession)
const list = new EventList((entry) => {
  details.show(entry)
  browser.document.body.classList.toggle('has-details', entry !== undefined)
})
const plot = new Plot((number) => {
  const entry = store.entries.find(({ event }) => event.number === number)
  if (entry !== undefined) list.select(entry)
})
const sessions = new Sessions(showSession)
const storyView = new StoryView((entry) => list.select(entry))

/** Schedules one update of the page for the next frame. */
function drawSoon(): void {
  if (isDrawingDue) return
  isDrawingDue = true
  browser.requestAnimationFrame(draw)
}

function draw(): void {
  isDrawingDue = false
  if (!paused) {
    list.add(fresh.filter((entry) => store.matches(entry, filter)))
    fresh = []
  }
  byId('pause').textContent = paused ? `Resume (${fresh.length.toLocaleString('en')} new)` : 'Pause'
  const isEmpty = store.counts.events === 0 && store.stories.all.length === 0
  byId('welcome').hidden = !isEmpty
  byId('no-stories').hidden = isEmpty || view !== 'clients' || store.stories.all.length > 0
  if (!paused) storyView.draw(store.stories)
  showSummary(store)
  plot.draw(store.timings)
  sessions.draw(store)
  if (freshStatistics !== undefined) showStatistics(freshStatistics)
  freshStatistics = undefined
  showHowMany()
}

function showHowMany(): void {
  const kept = store.entries.length
  const all = store.counts.events
  byId('how-many').textContent =
    all > kept
      ? `the latest ${kept.toLocaleString('en')} of ${all.toLocaleString('en')} events`
      : `${all} ${all === 1 ? 'event' : 'events'}`
}

function showFiltered(): void {
  fresh = []
  list.show(store.entries.filter((entry) => store.matches(entry, filter)))
  drawSoon()
}

function setView(next: View): void {
  view = next
  browser.document.body.dataset.view = next
  setFilter({ view: next === 'clients' ? 'all' : next })
}

function setFilter(changes: Partial<Filter>): void {
  filter = { ...filter, ...changes }
  if (search.value !== filter.text) search.value = filter.text
  for (const one of VIEWS) byId(`view-${one}`).setAttribute('aria-pressed', String(one === view))
  showFiltered()
}

function showSession(sessionId: string): void {
  setView('all')
  setFilter({ text: sessionId })
  showPanel('list')
}

function showPanel(panel: (typeof PANELS)[number]): void {
  browser.document.body.dataset.panel = panel
  for (const one of PANELS) byId(`to-${one}`).setAttribute('aria-pressed', String(one === panel))
}

function pause(): void {
  paused = !paused
  byId('pause').setAttribute('aria-pressed', String(paused))
  drawSoon()
}

function leave(): void {
  if (list.selected !== undefined) list.select(undefined)
  else if (filter.text !== '') setFilter({ text: '' })
  else if (view !== 'clients') setView('all')
}

function showWarnings(warnings: readonly string[]): void {
  byId('warnings').hidden = warnings.length === 0
  byId('warnings').replaceChildren(...warnings.map((warning) => element('li', '', warning)))
}

function serverText({ state, pid, how }: ServerMessage): string {
  if (state === 'running') return pid === undefined ? 'running' : `running, pid ${pid}`
  return state === 'ended' ? `exited: ${how}` : 'starting'
}

search.addEventListener('input', () => {
  // The filter applies to events.
  if (view === 'clients' && search.value !== '') setView('all')
  setFilter({ text: search.value })
})
byId('pause').addEventListener('click', pause)
byId('close').addEventListener('click', () => list.select(undefined))
for (const one of VIEWS) byId(`view-${one}`).addEventListener('click', () => setView(one))
for (const panel of PANELS) byId(`to-${panel}`).addEventListener('click', () => showPanel(panel))
listenToKeys(
  {
    move: (by) => (view === 'clients' ? storyView : list).move(by),
    focus: () => list.focus(),
  },
  { leave, pause },
)

let run: string | undefined
connect({
  hello(message) {
    // The command was restarted on the same port, so the shown events are outdated.
    if (run !== undefined && run !== message.run) {
      store.clear()
      list.select(undefined)
      showFiltered()
    }
    run = message.run
    byId('command').textContent = message.command
    byId('issuer').textContent = message.issuer ?? 'none'
    store.issuer = message.issuer
  },
  server(message) {
    byId('server').textContent = serverText(message)
    byId('server').classList.toggle('bad', message.state === 'ended')
    if (message.expected !== undefined) setExpected(message.expected)
    showWarnings(message.warnings ?? [])
  },
  events(events) {
    const added = store.add(events)
    announcer.add(added)
    fresh = [...fresh, ...added].slice(-store.entries.length)
    drawSoon()
  },
  statistics(message) {
    freshStatistics = message
    store.isSampled = (message.stats?.sampledOut ?? 0) > 0
    const { service, environment } = message.sender ?? {}
    if (service !== undefined) {
      byId('service').textContent = environment === undefined ? service : `${service} · ${environment}`
      browser.document.title = `${service} · mcp-gatekit dev`
    }
    drawSoon()
  },
  connected(isConnected) {
    byId('connection').textContent = isConnected ? 'live' : 'not connected'
    byId('connection').classList.toggle('bad', !isConnected)
  },
})
