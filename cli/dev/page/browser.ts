/**
 * The parts of the DOM that the page uses. The library types of the DOM would be global in every file of the package.
 */
export interface PageElement {
  readonly id: string
  readonly tagName: string
  readonly dataset: Record<string, string | undefined>
  readonly classList: { toggle(name: string, on: boolean): void }
  readonly childElementCount: number
  readonly lastElementChild: PageElement | null
  readonly scrollHeight: number
  readonly clientHeight: number
  textContent: string | null
  innerHTML: string
  outerHTML: string
  hidden: boolean
  value: string
  scrollTop: number
  insertAdjacentHTML(position: 'afterbegin', text: string): void
  remove(): void
  setAttribute(name: string, value: string): void
  removeAttribute(name: string): void
  closest(selector: string): PageElement | null
  querySelectorAll(selector: string): Iterable<PageElement>
  addEventListener(type: string, listener: (event: PageEvent) => void): void
  focus(): void
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

/** HTML in which all values are escaped. */
export class Html {
  readonly text: string

  constructor(text: string) {
    this.text = text
  }
}

type Value = Html | string | number | readonly Html[]

/** Returns HTML with values, which are escaped unless they are HTML. An attribute must be in double quotes. */
export function html(strings: TemplateStringsArray, ...values: readonly Value[]): Html {
  return new Html(strings.map((text, index) => text + textOf(values[index] ?? '')).join(''))
}

function textOf(value: Value): string {
  if (value instanceof Html) return value.text
  if (typeof value === 'object') return value.map(({ text }) => text).join('')
  return String(value).replace(/[&<>"]/g, (character) => `&#${character.charCodeAt(0)};`)
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
