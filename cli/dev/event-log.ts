import { randomBytes } from 'node:crypto'
import type { Feed } from './feed.ts'

/** Events that are kept for a page that is opened later. */
const MAX_EVENTS = 2000
/** And their length altogether, in characters. */
const MAX_CHARACTERS = 8_000_000

/** What a page is told. Each part is a text for server-sent events. */
export type Listener = (message: string) => void

interface Kept {
  readonly number: number
  readonly json: string
}

/**
 * The latest events, numbered, with the latest state of the server and its counters. Says what comes to whoever
 * listens, as messages of server-sent events.
 */
export class EventLog {
  /** Tells this log from that of an earlier start on the same port. */
  readonly #run = randomBytes(4).toString('hex')
  readonly #listeners = new Set<Listener>()
  readonly #about: Readonly<Record<string, unknown>>
  #kept: Kept[] = []
  #characters = 0
  #latest = 0
  #server: Readonly<Record<string, unknown>> = { state: 'starting' }
  #sender: Feed['sender'] | undefined
  #stats: Feed['stats']

  /** @param about what stays as it is, for the head of the page */
  constructor(about: Readonly<Record<string, unknown>>) {
    this.#about = about
  }

  add({ sender, stats, events }: Feed): void {
    this.#sender = sender
    this.#stats = stats ?? this.#stats
    const first = this.#latest + 1
    const added = events.map((event) => ({ number: ++this.#latest, json: JSON.stringify(event) }))
    for (const event of added) {
      this.#kept.push(event)
      this.#characters += event.json.length
    }
    this.#trim()
    if (added.length > 0) this.#tell(this.#eventsMessage(first, added))
    this.#tell(this.#ledgerMessage())
  }

  /** What the process of the server is at. */
  serverIs(server: Readonly<Record<string, unknown>>): void {
    this.#server = server
    this.#tell(message('server', server))
  }

  /**
   * Tells everything, and then whatever comes.
   * @param lastId what the listener has seen, as an id of an earlier message; events up to it are left out
   * @returns ends that
   */
  listen(listener: Listener, lastId?: string): () => void {
    const [run, number] = lastId?.split('-') ?? []
    const seen = run === this.#run ? Number(number) : 0
    const unseen = this.#kept.filter((event) => event.number > seen)
    listener(message('hello', { ...this.#about, run: this.#run }))
    listener(message('server', this.#server))
    if (unseen.length > 0) listener(this.#eventsMessage(unseen[0]?.number as number, unseen))
    listener(this.#ledgerMessage())
    this.#listeners.add(listener)
    return () => void this.#listeners.delete(listener)
  }

  #tell(text: string): void {
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

  #ledgerMessage(): string {
    return message('ledger', { sender: this.#sender, stats: this.#stats, seen: this.#latest })
  }
}

/** JSON has no line breaks, so that one line of data does. */
function message(event: string, data: object): string {
  return `event: ${event}\ndata: ${JSON.stringify(data)}\n\n`
}
