import { Announcer } from './announcer.ts'
import { browser, byId } from './browser.ts'
import { connect, type ServerMessage } from './connection.ts'
import { type StatisticsMessage, showStatistics } from './delivery-statistics.ts'
import { Details } from './details.ts'
import { EventList } from './event-list.ts'
import { type Entry, EventStore, type Filter } from './event-store.ts'
import { listenToKeys } from './keyboard.ts'
import { Plot } from './plot.ts'
import { Sessions } from './sessions.ts'
import { showSummary } from './summary.ts'

const VIEWS: readonly Filter['view'][] = ['all', 'gate', 'tool', 'problems']
const PANELS = ['list', 'timing', 'sessions', 'delivery'] as const

const store = new EventStore()
const search = byId('search')
const announcer = new Announcer()
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
  byId('welcome').hidden = store.counts.events > 0
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

function setFilter(changes: Partial<Filter>): void {
  filter = { ...filter, ...changes }
  if (search.value !== filter.text) search.value = filter.text
  for (const view of VIEWS) byId(`view-${view}`).setAttribute('aria-pressed', String(view === filter.view))
  showFiltered()
}

function showSession(sessionId: string): void {
  setFilter({ view: 'all', text: sessionId })
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
  else setFilter({ view: 'all' })
}

function serverText({ state, pid, how }: ServerMessage): string {
  if (state === 'running') return pid === undefined ? 'running' : `running, pid ${pid}`
  return state === 'ended' ? `exited: ${how}` : 'starting'
}

search.addEventListener('input', () => setFilter({ text: search.value }))
byId('pause').addEventListener('click', pause)
byId('close').addEventListener('click', () => list.select(undefined))
for (const view of VIEWS) byId(`view-${view}`).addEventListener('click', () => setFilter({ view }))
for (const panel of PANELS) byId(`to-${panel}`).addEventListener('click', () => showPanel(panel))
listenToKeys(list, { leave, pause })

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
  },
  server(message) {
    byId('server').textContent = serverText(message)
    byId('server').classList.toggle('bad', message.state === 'ended')
  },
  events(events) {
    const added = store.add(events)
    announcer.add(added)
    fresh = [...fresh, ...added].slice(-store.entries.length)
    drawSoon()
  },
  statistics(message) {
    freshStatistics = message
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
