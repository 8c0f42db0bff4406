import { byId, type PageElement } from './browser.ts'
import { operationOf } from './console-event.ts'
import type { Entry } from './event-kind.ts'

/** The minimum time between two announcements. */
const INTERVAL_MS = 2000

/** Announces refused requests to screen readers. Combines several refusals into one sentence. */
export class Announcer {
  readonly #region: PageElement = byId('announcer')
  #waiting: Entry[] = []
  #count = 0
  #resting = false

  add(entries: readonly Entry[]): void {
    const refused = entries.filter(({ event }) => event.name === 'kit.mcp.auth.refused')
    if (refused.length === 0) return
    this.#count += refused.length
    this.#waiting = refused.slice(-1)
    if (!this.#resting) this.#announce()
  }

  #announce(): void {
    const [latest] = this.#waiting
    if (latest === undefined) return
    const { event, kind } = latest
    const text = [kind.title, operationOf(event)].filter((part) => part !== undefined).join(', ')
    this.#region.textContent =
      this.#count === 1 ? `Refused: ${text}` : `${this.#count} refused, most recently: ${text}`
    this.#waiting = []
    this.#count = 0
    this.#resting = true
    setTimeout(() => {
      this.#resting = false
      this.#announce()
    }, INTERVAL_MS)
  }
}
