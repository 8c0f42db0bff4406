import type { EventRow } from '../events/row.ts'

/** The maximum number of lines in the list, and of earlier events that steps of clients can show. */
export const MAX_ROWS = 2000

/** The filter of the list of events. */
export interface Filter {
  readonly view: 'all' | 'gate' | 'tool' | 'event' | 'problems'
  /** Words that the event must contain. Words after a minus sign must not occur. */
  readonly text: string
}

/** The latest events, and those of the steps of clients. */
export class Rows {
  #all = new Map<number, EventRow>()
  #listed: readonly EventRow[] = []
  /** The searchable texts, created on demand. */
  readonly #texts = new WeakMap<EventRow, string>()

  /** The events that the list can show, by their times, oldest first. */
  get listed(): readonly EventRow[] {
    return this.#listed
  }

  /** Adds events. @param numbersOfSteps returns the events to keep, even if they are old @returns the listed events */
  add(rows: readonly EventRow[], numbersOfSteps: () => ReadonlySet<number>): readonly EventRow[] {
    for (const row of rows) this.#all.set(row.number, row)
    if (this.#all.size > 3 * MAX_ROWS) {
      const kept = numbersOfSteps()
      const old = [...this.#all.keys()].slice(0, -MAX_ROWS)
      for (const number of old) if (!kept.has(number)) this.#all.delete(number)
    }
    const added = rows.filter(({ group }) => group !== 'hidden')
    const all = [...this.#listed, ...added]
    // Events of two processes do not arrive in the order of their times.
    all.sort((a, b) => (a.event.time < b.event.time ? -1 : Number(a.event.time > b.event.time)))
    this.#listed = all.slice(-MAX_ROWS)
    return added
  }

  find(number: number): EventRow | undefined {
    return this.#all.get(number)
  }

  clear(): void {
    this.#all = new Map()
    this.#listed = []
  }

  matches(row: EventRow, { view, text }: Filter): boolean {
    const isProblem = (row.tone === 'bad' || row.tone === 'warn') && !row.isProbe
    if (view === 'problems' ? !isProblem : view !== 'all' && view !== row.group) return false
    const words = text.toLowerCase().split(/\s+/)
    return words.every((word) => {
      const isExcluded = word.startsWith('-')
      const wanted = isExcluded ? word.slice(1) : word
      return wanted === '' || this.#textOf(row).includes(wanted) !== isExcluded
    })
  }

  #textOf(row: EventRow): string {
    const text = this.#texts.get(row) ?? `${row.word} ${row.title} ${JSON.stringify(row.event)}`.toLowerCase()
    this.#texts.set(row, text)
    return text
  }
}
