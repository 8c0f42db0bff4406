import { html } from '../../html.ts'
import { OWN_USER_AGENT } from '../observer/observed-request.ts'
import type { ConsoleEvent, Feed } from './event.ts'
import { pageRow, storyHtml } from './lines.ts'
import { type About, type Contents, type ServerState, serverContents, statisticsContents } from './panels.ts'
import { type Expected, eventRow } from './row.ts'
import { Stories, type Story } from './stories.ts'
import { Summary } from './summary.ts'

/** The maximum number of events that are kept for pages that open later. */
const MAX_EVENTS = 2000
/** The maximum total length of the lines and details of these events. */
const MAX_CHARACTERS = 16_000_000

/** Receives messages in the format of server-sent events. */
export type Listener = (message: string) => void

interface Kept {
  readonly number: number
  readonly isListed: boolean
  readonly json: string
}

/**
 * The latest events, the stories of clients, the state of the server, and statistics of all events, as HTML for the page. Sends
 * updates to listeners as server-sent events.
 */
export class EventLog {
  /** The metadata document of the server. Refusals are compared with it. */
  expected: Expected = {}
  readonly #listeners = new Set<Listener>()
  readonly #about: About
  readonly #onListening: (event: ConsoleEvent) => void
  readonly #stories: Stories
  readonly #summary = new Summary()
  #kept: Kept[] = []
  #characters = 0
  #latest = 0
  #server: ServerState = { state: 'starting' }
  #sender: Feed['sender'] | undefined
  /** The contents of elements of the page, by their IDs. */
  readonly #shown = new Map<string, string>()

  /** @param onListening called with each event `dev.listening`, which is not shown */
  constructor(about: About, onListening: (event: ConsoleEvent) => void = () => undefined) {
    this.#about = about
    this.#onListening = onListening
    this.#stories = new Stories(about.issuer)
    this.#showAll()
  }

  add({ sender, events }: Feed): void {
    if (sender.observer !== true) this.#sender = sender
    const first = this.#latest + 1
    events.forEach((event, index) => {
      if (event.name === 'dev.listening') this.#onListening(event)
      else if (event.request?.agent !== OWN_USER_AGENT)
        this.#addEvent(event, index >= events.length - MAX_EVENTS)
    })
    this.#trim()
    const added = this.#kept.filter(({ number }) => number >= first)
    if (added.length > 0) this.#send(eventsMessage(added))
    const changed = this.#stories.takeChanged()
    if (changed.length > 0) this.#send(storiesMessage(changed))
    this.#showAll()
  }

  /** Sets the state of the server process. */
  setServer(server: ServerState): void {
    this.#server = server
    this.#showAll()
  }

  /**
   * Sends the current state and then all updates to a listener.
   * @returns a function that removes the listener
   */
  listen(listener: Listener): () => void {
    listener(message('hello', {}))
    listener(message('contents', Object.fromEntries(this.#shown)))
    if (this.#kept.length > 0) listener(eventsMessage(this.#kept))
    listener(storiesMessage(this.#stories.all.toReversed()))
    this.#listeners.add(listener)
    return () => void this.#listeners.delete(listener)
  }

  #addEvent(event: ConsoleEvent, isKept: boolean): void {
    const number = ++this.#latest
    const row = eventRow(number, event, this.expected)
    const isListed = row.group !== 'hidden'
    this.#stories.add(row, this.expected)
    if (isListed) this.#summary.add(row)
    if (!isKept) return
    const json = JSON.stringify(pageRow(row))
    this.#kept.push({ number, isListed, json })
    this.#characters += json.length
  }

  #send(text: string): void {
    for (const listener of this.#listeners) listener(text)
  }

  #trim(): void {
    const excess = this.#kept.length - MAX_EVENTS
    let gone = 0
    for (; gone < excess || this.#characters > MAX_CHARACTERS; gone++)
      this.#characters -= this.#kept[gone]?.json.length as number
    if (gone > 0) this.#kept = this.#kept.slice(gone)
  }

  /** Sends the contents of elements that have changed. */
  #showAll(): void {
    const kept = this.#kept.filter(({ isListed }) => isListed).length
    const contents: Contents = {
      ...serverContents(this.#about, this.#server, this.#sender !== undefined),
      ...statisticsContents(this.#summary, kept, this.#sender),
    }
    const texts = Object.entries(contents).map(([id, value]) => [id, html`${value}`.text] as const)
    const changed = texts.filter(([id, text]) => this.#shown.get(id) !== text)
    for (const [id, text] of changed) this.#shown.set(id, text)
    if (changed.length > 0) this.#send(message('contents', Object.fromEntries(changed)))
  }
}

const eventsMessage = (events: readonly Kept[]): string =>
  `event: events\ndata: [${events.map(({ json }) => json).join(',')}]\n\n`

const storiesMessage = (stories: readonly Story[]): string =>
  message(
    'stories',
    stories.map((story) => ({ id: story.id, html: storyHtml(story) })),
  )

/** Formats a server-sent event. JSON contains no line breaks, so one `data` line is enough. */
function message(event: string, data: object): string {
  return `event: ${event}\ndata: ${JSON.stringify(data)}\n\n`
}
