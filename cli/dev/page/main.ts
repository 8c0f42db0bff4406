import type { ServerState } from '../events/event-log.ts'
import type { EventRow, StoryRow } from '../events/row.ts'
import { Announcer } from './announcer.ts'
import { browser, byId, element } from './browser.ts'
import { connect } from './connection.ts'
import { type StatisticsMessage, showStatistics } from './delivery-statistics.ts'
import { Details } from './details.ts'
import { EventList } from './event-list.ts'
import { listenToKeys } from './keyboard.ts'
import { Plot } from './plot.ts'
import { type Filter, Rows } from './rows.ts'
import { Sessions } from './sessions.ts'
import { MAX_STORIES, StoryView } from './story-view.ts'
import { showSummary } from './summary.ts'
import { Welcome } from './welcome.ts'

const VIEWS: readonly View[] = ['clients', 'all', 'gate', 'tool', 'event', 'problems']
const PANELS = ['list', 'timing', 'sessions', 'delivery'] as const

/** `clients` shows the stories instead of the list of events. */
type View = Filter['view'] | 'clients'

const rows = new Rows()
const search = byId('search')
const announcer = new Announcer()
const welcome = new Welcome()
let view: View = 'clients'
let filter: Filter = { view: 'all', text: '' }
let paused = false
/** `true` if the server has ended. */
let isDown = false

/** The events and stories that the page has not shown yet. */
let fresh: EventRow[] = []
let freshStories = new Map<number, StoryRow>()
let statistics: StatisticsMessage | undefined
let isDrawingDue = false

const details = new Details(showSession)
const list = new EventList((row) => {
  details.show(row)
  browser.document.body.classList.toggle('has-details', row !== undefined)
})
const plot = new Plot((number) => {
  const row = rows.find(number)
  if (row !== undefined) list.select(row)
})
const sessions = new Sessions(showSession)
const storyView = new StoryView(({ number }) => list.select(rows.find(number)))

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
    storyView.show(freshStories.values())
    if (view === 'clients' && freshStories.size > 0) storyView.follow()
    freshStories = new Map()
  }
  byId('pause').textContent = paused ? `Resume (${fresh.length.toLocaleString('en')} new)` : 'Pause'
  if (statistics !== undefined) showNumbers(statistics)
  const hasStories = !storyView.isEmpty || freshStories.size > 0
  const isEmpty = rows.listed.length === 0 && !hasStories
  byId('welcome').hidden = !isEmpty
  byId('no-stories').hidden = isEmpty || view !== 'clients' || hasStories
}

function showNumbers(message: StatisticsMessage): void {
  showSummary(message)
  showStatistics(message)
  plot.draw(message.calls)
  sessions.draw(message.sessions)
  const [kept, all] = [rows.listed.length, message.counts.events]
  byId('how-many').textContent =
    all > kept
      ? `the latest ${kept.toLocaleString('en')} of ${all.toLocaleString('en')} events`
      : `${all} ${all === 1 ? 'event' : 'events'}`
  welcome.showSetup(message.sender !== undefined)
  const { service, environment } = message.sender ?? {}
  if (service === undefined) return
  byId('service').textContent = environment === undefined ? service : `${service} · ${environment}`
  browser.document.title = `${service} · mcp-gatekit dev`
}

function showFiltered(): void {
  fresh = []
  list.show(rows.listed.filter((row) => rows.matches(row, filter)))
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
  press(VIEWS, 'view', view)
  showFiltered()
}

/** Marks one button of a group as pressed. */
function press(group: readonly string[], prefix: string, pressed: string): void {
  for (const one of group) byId(`${prefix}-${one}`).setAttribute('aria-pressed', String(one === pressed))
}

function showSession(sessionId: string): void {
  setView('all')
  setFilter({ text: sessionId })
  showPanel('list')
}

function showPanel(panel: (typeof PANELS)[number]): void {
  browser.document.body.dataset.panel = panel
  press(PANELS, 'to', panel)
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

function showServer(server: ServerState): void {
  const { state, pid, how, warnings = [] } = server
  welcome.showServer(server)
  const running = pid === undefined ? 'running' : `running, pid ${pid}`
  byId('server').textContent = { starting: 'starting', running, ended: `exited: ${how}` }[state]
  byId('server').classList.toggle('bad', state === 'ended')
  isDown = state === 'ended'
  showConnection(true)
  byId('warnings').hidden = warnings.length === 0
  byId('warnings').replaceChildren(...warnings.map((warning) => element('li', '', warning)))
}

function showConnection(isConnected: boolean): void {
  byId('connection').textContent = isConnected ? (isDown ? 'server down' : 'live') : 'not connected'
  byId('connection').classList.toggle('bad', !isConnected || isDown)
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
listenToKeys({
  move: (by) => (view === 'clients' ? storyView : list).move(by),
  focus: () => list.focus(),
  leave,
  pause,
})

let run: string | undefined
connect(
  {
    hello(message) {
      // The command was restarted on the same port, so the shown events are outdated.
      if (run !== undefined && run !== message.run) {
        rows.clear()
        freshStories = new Map()
        storyView.clear()
        list.select(undefined)
        showFiltered()
      }
      run = message.run
      byId('command').textContent = message.command
      byId('issuer').textContent = message.issuer ?? 'none'
    },
    server: showServer,
    events(received) {
      const added = rows.add(received, () => storyView.numbers)
      announcer.add(added)
      fresh = [...fresh, ...added].slice(-rows.listed.length)
      drawSoon()
    },
    stories(stories) {
      for (const story of stories) freshStories.set(story.id, story)
      for (const id of freshStories.keys()) if (freshStories.size > MAX_STORIES) freshStories.delete(id)
      drawSoon()
    },
    statistics(message) {
      statistics = message
      drawSoon()
    },
  },
  showConnection,
)
