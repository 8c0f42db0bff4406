/** The hours in which a person works. Nights and weekends pass quickly, and let tokens, sessions, and caches expire. */
import type { Random } from './random.ts'

const HOUR_MS = 3_600_000
const DAY_MS = 24 * HOUR_MS

export class Workday {
  readonly #beginsMs: number
  readonly #lastsMs: number

  /** @param hours the hours of a day, from Monday to Friday. With 24, a person always works. */
  constructor(random: Random, hours: number) {
    this.#lastsMs = hours * HOUR_MS
    this.#beginsMs = random.between(0, DAY_MS - this.#lastsMs)
  }

  /** Returns the milliseconds until the person works again: 0 at work. Every run begins on a Monday, at midnight. */
  untilWorkMs(nowMs: number): number {
    if (this.#lastsMs >= DAY_MS) return 0
    const day = Math.floor(nowMs / DAY_MS)
    const isFree = day % 7 > 4
    const sinceMs = nowMs - day * DAY_MS - this.#beginsMs
    if (!isFree && sinceMs >= 0 && sinceMs < this.#lastsMs) return 0
    if (!isFree && sinceMs < 0) return -sinceMs
    const days = day % 7 >= 4 ? 7 - (day % 7) : 1
    return days * DAY_MS - sinceMs
  }
}
