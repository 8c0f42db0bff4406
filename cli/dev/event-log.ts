import { randomBytes } from 'node:crypto'
import type { Feed, FeedEvent } from './feed.ts'

/** The maximum number of events that are kept for pages that open later. */
const MAX_EVENTS = 2000
/** The maximum total length of these events as JSON. */
const MAX_CHARACTERS = 8_000_000

/** Receives messages in the format of server-sent events. */
export type Listener = (message: string) => void

interface Kept {
  readonly number: number
  readonly json: string
}

/**
 * The latest events, numbered, with the state of the server and its delivery statistics. Sends updates to listeners as
 * server-sent events.
 */
export class EventLog {
  /** Distinguishes this log from the log of an earlier start on the same port. */
  readonly #run = randomBytes(4).toString('hex')
  readonly #listeners = new Set<Listener>()
  readonly #about: Readonly<Record<string, unknown>>
  readonly #onObserved: (event: FeedEvent) => void
  #kept: Kept[] = []
  #characters = 0
  #latest = 0
  #server: Readonly<Record<string, unknown>> = { state: 'starting' }
  #sender: Feed['sender'] | undefined
  #stats: Feed['stats']

  /**
   * @param about constant facts for the header of the page
   * @param onObserved called with events of the observer that are not shown: `dev.listening`
   */
  constructor(
    about: Readonly<Record<string, unknown>>,
    onObserved: (event: FeedEvent) => void = () => undefined,
  ) {
    this.#about = about
    this.#onObserved = onObserved
  }

  add({ sender, stats, events: received }: Feed): void {
    const events = received.filter(({ name }) => name !== 'dev.listening')
    if (events.length < received.length)
      for (const event of received) if (event.name === 'dev.listening') this.#onObserved(event)
    const isObserver = sender.observer === true
    if (!isObserver) this.#sender = sender
    this.#stats = stats ?? this.#stats
    const first = this.#latest + 1
    const added = events.map((event) => ({ number: ++this.#latest, json: JSON.stringify(event) }))
    for (const event of added) {
      this.#kept.push(event)
      this.#characters += event.json.length
    }
    this.#trim()
    if (added.length > 0) this.#send(this.#eventsMessage(first, added))
    if (!isObserver) this.#send(this.#statisticsMessage())
  }

  /** Sets the state of the server process. */
  setServer(server: Readonly<Record<string, unknown>>): void {
    this.#server = server
    this.#send(message('server', server))
  }

  /**
   * Sends the current state and then all updates to a listener.
   * @param lastId the ID of the last message that the listener has received; earlier events are not sent again
   * @returns a function that removes the listener
   */
  listen(listener: Listener, lastId?: string): () => void {
    const [run, number] = lastId?.split('-') ?? []
    const seen = run === this.#run ? Number(number) : 0
    const unseen = this.#kept.filter((event) => event.number > seen)
    listener(message('hello', { ...this.#about, run: this.#run }))
    listener(message('server', this.#server))
    if (unseen.length > 0) listener(this.#eventsMessage(unseen[0]?.number as number, unseen))
    listener(this.#statisticsMessage())
    this.#listeners.add(listener)
    return () => void this.#listeners.delete(listener)
  }

  #send(text: string): void {
    for (const listener of this.#listeners) listener(text)
  }

  #trim(): void {
    let gone = Math.max(0, this.#kept.length - MAX_EVENTS)
    let characters = 0
    for (let index = 0; index < gone; index++) characters += this.#kept[index]?.json.length ?? 0
    while (this.#characters - characters > MAX_CHARACTERS && gone < this.#kept.length)
      characters += this.#kept[gone++]?.json.length ?? 0
    if (gone === 0) return
    this.#kept = this.#kept.slice(gone)
    this.#characters -= characters
  }

  /** @param first the number of the first event */
  #eventsMessage(first: number, events: readonly Kept[]): string {
    const json = `{"first":${first},"events":[${events.map((event) => event.json).join(',')}]}`
    return `id: ${this.#run}-${events.at(-1)?.number}\nevent: events\ndata: ${json}\n\n`
  }

  #statisticsMessage(): string {
    return message('statistics', { sender: this.#sender, stats: this.#stats, seen: this.#latest })
  }
}

/** Formats a server-sent event. JSON contains no line breaks, so one `data` line is enough. */
function message(event: string, data: object): string {
  return `event: ${event}\ndata: ${JSON.stringify(data)}\n\n`
}
