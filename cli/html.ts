/** HTML in which all values are escaped. */
export class Html {
  readonly text: string

  constructor(text: string) {
    this.text = text
  }
}

export type Value = Html | string | number | readonly Html[]

const ESCAPES: Readonly<Record<string, string>> = {
  '&': '&amp;',
  '<': '&lt;',
  '>': '&gt;',
  '"': '&quot;',
  "'": '&#39;',
}

/** Returns HTML with values, which are escaped unless they are HTML. An attribute must be in quotes. */
export function html(strings: TemplateStringsArray, ...values: readonly Value[]): Html {
  return new Html(strings.map((text, index) => text + textOf(values[index] ?? '')).join(''))
}

/** Returns an element with a class, or nothing without a text. */
export function span(className: string, text: string | undefined): Html {
  return text === undefined || text === '' ? html`` : html`<span class="${className}">${text}</span>`
}

function textOf(value: Value): string {
  if (value instanceof Html) return value.text
  if (typeof value === 'object') return value.map(({ text }) => text).join('')
  return String(value).replace(/[&<>"']/g, (character) => ESCAPES[character] as string)
}
