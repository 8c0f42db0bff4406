/**
 * The parts of the DOM that the page uses. The library types of the DOM would be global in every file of the package.
 */
export interface PageElement {
  readonly id: string
  readonly tagName: string
  readonly dataset: Record<string, string | undefined>
  readonly firstElementChild: PageElement | null
  readonly nextElementSibling: PageElement | null
  readonly scrollHeight: number
  readonly clientHeight: number
  textContent: string | null
  innerHTML: string
  outerHTML: string
  hidden: boolean
  /** Of a `details` element. */
  open: boolean | undefined
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

/** Replaces times of events with the local time of day with milliseconds. Their texts end at a `<`, also within JSON. */
export function localTimes(text: string): string {
  return text.replaceAll(/<time>(\d{4}-\d\d-\d\dT[\d:.]+Z)<\/time>/g, (_, iso) => {
    const time = new Date(iso)
    const two = (part: number): string => String(part).padStart(2, '0')
    const clock = [time.getHours(), time.getMinutes(), time.getSeconds()].map(two).join(':')
    return `${clock}.${String(time.getMilliseconds()).padStart(3, '0')}`
  })
}

const shown = new Map<string, string>()

/** Shows HTML in the element with an ID, unless it was the last one: elements stay for clicks and focus. */
export function show(id: string, html: string): void {
  if (shown.get(id) !== html) byId(id).innerHTML = html
  shown.set(id, html)
}

const items = new Map<string, ReadonlyMap<string, string>>()

/** Shows a list of elements by their IDs in the element with an ID. Elements that have not changed stay, and so does the focus. */
export function showItems(id: string, wanted: ReadonlyMap<string, string>): void {
  const before = items.get(id)
  const focused = browser.document.activeElement?.id
  for (const key of before?.keys() ?? []) if (!wanted.has(key)) byId(key).remove()
  let at = byId(id).firstElementChild
  for (const [key, html] of wanted) {
    const known = before?.get(key)
    if (at?.id === key) {
      const { nextElementSibling: next, open } = at
      if (known !== html) {
        at.outerHTML = html
        // The user may have opened or closed it.
        byId(key).open = open
      }
      at = next
    } else {
      if (known !== undefined) byId(key).remove()
      if (at === null) byId(id).insertAdjacentHTML('beforeend', html)
      else at.insertAdjacentHTML('beforebegin', html)
    }
  }
  items.set(id, wanted)
  if (focused) browser.document.getElementById(focused)?.focus({ preventScroll: true })
}
