import type { EventRow } from '../events/row.ts'
import { byId } from './browser.ts'

/** The minimum time between two announcements. */
const INTERVAL_MS = 2000

/** Announces refused requests to screen readers. Combines several refusals into one sentence. */
export class Announcer {
  #latest = ''
  #count = 0
  #isResting = false

  add(rows: readonly EventRow[]): void {
    const refused = rows.filter(({ outcome, isProbe }) => outcome === 'refused' && !isProbe)
    const latest = refused.at(-1)
    if (latest === undefined) return
    this.#count += refused.length
    this.#latest = latest.operation === undefined ? latest.title : `${latest.title}, ${latest.operation}`
    if (!this.#isResting) this.#announce()
  }

  #announce(): void {
    if (this.#count === 0) return
    byId('announcer').textContent =
      this.#count === 1
        ? `Refused: ${this.#latest}`
        : `${this.#count} refused, most recently: ${this.#latest}`
    this.#count = 0
    this.#isResting = true
    setTimeout(() => {
      this.#isResting = false
      this.#announce()
    }, INTERVAL_MS)
  }
}
