import { browser, byId } from './browser.ts'

/** The distance to the end of every list. */
const FAR = 10_000

/** The actions of the keyboard. */
export interface KeyboardActions {
  /** Moves the selection. @param by the number of rows down, or up if negative */
  readonly move: (by: number) => void
  /** Moves the focus to the list. */
  readonly focus: () => void
  /** Closes the details, or else clears the filter. */
  readonly leave: () => void
  readonly pause: () => void
}

/** Handles the keys j, k, arrows, Page Up, Page Down, Home, End, /, Escape, and p. */
export function listenToKeys({ move, focus, leave, pause }: KeyboardActions): void {
  const search = byId('search')
  const moves: Readonly<Record<string, () => void>> = {
    j: () => move(1),
    k: () => move(-1),
    ArrowDown: () => move(1),
    ArrowUp: () => move(-1),
    PageDown: () => move(10),
    PageUp: () => move(-10),
    Home: () => move(-FAR),
    End: () => move(FAR),
    '/': () => search.focus(),
    p: pause,
    Escape: leave,
  }
  browser.document.addEventListener('keydown', (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return
    if (event.target === search) {
      if (event.key === 'Escape' || event.key === 'Enter') {
        if (event.key === 'Escape') leave()
        focus()
        event.preventDefault()
      }
      return
    }
    const act = Object.hasOwn(moves, event.key) ? moves[event.key] : undefined
    // A focused input field handles arrow keys itself.
    if (act === undefined || (event.key.startsWith('Arrow') && event.target.tagName === 'INPUT')) return
    event.preventDefault()
    act()
  })
}
