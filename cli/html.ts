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

/** The colors of the pages, in light and dark color schemes. */
export const THEME = `  color-scheme: light dark;
  --ground: light-dark(#f3f4f7, #0d1015);
  --card: light-dark(#ffffff, #151920);
  --line: light-dark(#dfe2e8, #2a303b);
  --text: light-dark(#171b23, #e6e9ef);
  --dim: light-dark(#596172, #98a2b3);
  --good: light-dark(#14713d, #56d08b);
  --bad: light-dark(#b3202c, #ff8c8c);
  --warn: light-dark(#8a5200, #f0b45a);`
