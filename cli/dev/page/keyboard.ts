import { browser, byId, type PageEvent } from './browser.ts'

/** The list in which the keyboard moves. */
export interface KeyboardList {
  /** @param by the number of rows down, or up if negative */
  move(by: number): void
  focus(): void
}

/** The distance to the end of every list. */
const FAR = 10_000

/** Actions of the keyboard that do not move the selection. */
export interface KeyboardActions {
  /** Closes the details, or else clears the filter. */
  readonly leave: () => void
  readonly pause: () => void
}

/** Handles the keys j, k, arrows, Page Up, Page Down, Home, End, /, Escape, and p. */
export function listenToKeys(list: KeyboardList, { leave, pause }: KeyboardActions): void {
  const search = byId('search')
  const moves: Readonly<Record<string, () => void>> = {
    j: () => list.move(1),
    k: () => list.move(-1),
    ArrowDown: () => list.move(1),
    ArrowUp: () => list.move(-1),
    PageDown: () => list.move(10),
    PageUp: () => list.move(-10),
    Home: () => list.move(-FAR),
    End: () => list.move(FAR),
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
    // A focused input field handles arrow keys itself.
    if (act === undefined || (isArrow(event) && event.target.tagName === 'INPUT')) return
    event.preventDefault()
    act()
  })
}

function isArrow({ key }: PageEvent): boolean {
  return key.startsWith('Arrow')
}
