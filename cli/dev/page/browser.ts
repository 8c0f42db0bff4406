import { type Html, html, type Value } from './html.ts'

/**
 * The parts of the DOM that the page uses. The library types of the DOM would be global in every file of the package.
 */
export interface PageElement {
  readonly id: string
  readonly tagName: string
  readonly dataset: Record<string, string | undefined>
  readonly classList: { toggle(name: string, on: boolean): void }
  readonly firstElementChild: PageElement | null
  readonly nextElementSibling: PageElement | null
  readonly scrollHeight: number
  readonly clientHeight: number
  textContent: string | null
  innerHTML: string
  outerHTML: string
  hidden: boolean
  value: string
  scrollTop: number
  insertAdjacentHTML(position: 'beforebegin' | 'beforeend', text: string): void
  remove(): void
  setAttribute(name: string, value: string): void
  closest(selector: string): PageElement | null
  addEventListener(type: string, listener: (event: PageEvent) => void): void
  focus(options?: { readonly preventScroll: true }): void
  scrollIntoView(options: { readonly block: 'nearest' }): void
}

interface PageEvent {
  readonly target: PageElement
  readonly key: string
  readonly ctrlKey: boolean
  readonly metaKey: boolean
  readonly altKey: boolean
  preventDefault(): void
}

interface Browser {
  readonly document: {
    title: string
    readonly body: PageElement
    readonly activeElement: PageElement | null
    querySelectorAll(selector: string): Iterable<PageElement>
    getElementById(id: string): PageElement | null
    addEventListener(type: string, listener: (event: PageEvent) => void): void
  }
  readonly EventSource: new (
    url: string,
  ) => { addEventListener(type: string, listener: (event: { readonly data: string }) => void): void }
  readonly navigator: { readonly clipboard?: { writeText(text: string): Promise<void> } }
  requestAnimationFrame(callback: () => void): void
}

export const browser: Browser = globalThis as unknown as Browser

/** Returns the element with an ID, which must exist in the document. */
export function byId(id: string): PageElement {
  return browser.document.getElementById(id) as PageElement
}

/** Returns an element with a class, or nothing without a text. */
export function span(className: string, text: string | undefined): Html {
  return text === undefined || text === '' ? html`` : html`<span class="${className}">${text}</span>`
}

const shown = new Map<string, string>()

/** Shows content in the element with an ID, unless it was the last one: elements stay for clicks and focus. */
export function show(id: string, content: Value): void {
  const { text } = html`${content}`
  if (shown.get(id) !== text) byId(id).innerHTML = text
  shown.set(id, text)
}

const items = new Map<string, ReadonlyMap<string, Html>>()

/** Shows a list of elements by their IDs in the element with an ID. Elements that have not changed stay, and so does the focus. */
export function showItems(id: string, wanted: ReadonlyMap<string, Html>): void {
  const before = items.get(id)
  const focused = browser.document.activeElement?.id
  for (const key of before?.keys() ?? []) if (!wanted.has(key)) byId(key).remove()
  let at = byId(id).firstElementChild
  for (const [key, { text }] of wanted) {
    const known = before?.get(key)
    if (at?.id === key) {
      const next = at.nextElementSibling
      if (known?.text !== text) at.outerHTML = text
      at = next
    } else {
      if (known !== undefined) byId(key).remove()
      if (at === null) byId(id).insertAdjacentHTML('beforeend', text)
      else at.insertAdjacentHTML('beforebegin', text)
    }
  }
  items.set(id, wanted)
  if (focused) browser.document.getElementById(focused)?.focus({ preventScroll: true })
}
