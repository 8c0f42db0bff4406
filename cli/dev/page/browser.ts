/**
 * The parts of the DOM that the page uses. The library types of the DOM would be global in every file of the package.
 */
export interface PageElement {
  id: string
  className: string
  textContent: string | null
  hidden: boolean
  value: string
  type: string
  scrollTop: number
  readonly scrollHeight: number
  readonly clientHeight: number
  readonly tagName: string
  readonly dataset: Record<string, string | undefined>
  readonly classList: { toggle(name: string, on: boolean): void }
  append(...nodes: readonly (PageElement | string)[]): void
  prepend(...nodes: readonly (PageElement | string)[]): void
  replaceChildren(...nodes: readonly (PageElement | string)[]): void
  replaceWith(node: PageElement): void
  remove(): void
  setAttribute(name: string, value: string): void
  removeAttribute(name: string): void
  closest(selector: string): PageElement | null
  querySelectorAll(selector: string): Iterable<PageElement>
  addEventListener(type: string, listener: (event: PageEvent) => void): void
  focus(): void
  scrollIntoView(options: { readonly block: 'nearest' }): void
}

export interface PageEvent {
  readonly target: PageElement
  readonly key: string
  readonly ctrlKey: boolean
  readonly metaKey: boolean
  readonly altKey: boolean
  preventDefault(): void
}

export interface PageEventSource {
  addEventListener(type: string, listener: (event: { readonly data: string }) => void): void
}

interface Browser {
  readonly document: {
    title: string
    readonly body: PageElement
    createElement(name: string): PageElement
    createElementNS(namespace: string, name: string): PageElement
    getElementById(id: string): PageElement | null
    addEventListener(type: string, listener: (event: PageEvent) => void): void
  }
  readonly EventSource: new (url: string) => PageEventSource
  readonly navigator: { readonly clipboard?: { writeText(text: string): Promise<void> } }
  requestAnimationFrame(callback: () => void): void
}

export const browser: Browser = globalThis as unknown as Browser

/** Returns the element with an ID, which must exist in the document. */
export function byId(id: string): PageElement {
  return browser.document.getElementById(id) as PageElement
}

/** Creates an element with a class and content. */
export function element(
  name: string,
  className: string,
  ...content: readonly (PageElement | string)[]
): PageElement {
  const made = browser.document.createElement(name)
  if (className !== '') made.className = className
  made.append(...content)
  return made
}

/** Creates an SVG element. */
export function shape(name: string, attributes: Readonly<Record<string, string | number>>): PageElement {
  const made = browser.document.createElementNS('http://www.w3.org/2000/svg', name)
  for (const [attribute, value] of Object.entries(attributes)) made.setAttribute(attribute, String(value))
  return made
}
