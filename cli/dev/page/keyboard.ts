import { browser, byId, type PageEvent } from './browser.ts'
import type { EventList } from './event-list.ts'

/** What else the keys do. */
export interface KeyboardActions {
  /** Leaves what is open: the details, then the filter. */
  readonly leave: () => void
  readonly pause: () => void
}

/** j and k, arrows, Home and End, /, Escape, p. */
export function listenToKeys(list: EventList, { leave, pause }: KeyboardActions): void {
  const search = byId('search')
  const moves: Readonly<Record<string, () => void>> = {
    j: () => list.move(1),
    k: () => list.move(-1),
    ArrowDown: () => list.move(1),
    ArrowUp: () => list.move(-1),
    PageDown: () => list.move(10),
    PageUp: () => list.move(-10),
    Home: () => list.moveToEnd('top'),
    End: () => list.moveToEnd('bottom'),
    '/': () => search.focus(),
    p: pause,
    Escape: leave,
  }
  browser.document.addEventListener('keydown', (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return
    if (event.target === search) {
      if (event.key === 'Escape' || event.key === 'Enter') {
        if (event.key === 'Escape') leave()
        list.focus()
        event.preventDefault()
      }
      return
    }
    const act = Object.hasOwn(moves, event.key) ? moves[event.key] : undefined
    // Arrows belong to a group of radio buttons while that has the focus.
    if (act === undefined || (isArrow(event) && event.target.tagName === 'INPUT')) return
    event.preventDefault()
    act()
  })
}

function isArrow({ key }: PageEvent): boolean {
  return key.startsWith('Arrow')
}
