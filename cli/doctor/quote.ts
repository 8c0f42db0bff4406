const MAX_LENGTH = 160
/** The maximum length of the text of one check, which can contain several quotes. */
const MAX_LINE_LENGTH = 4_000

/**
 * Returns text from outside in a form that is safe to print: on one line, without control characters (which a terminal
 * executes) and direction marks, and with at most 160 characters.
 */
export function quote(text: string): string {
  return printable(text, MAX_LENGTH)
}

/** Returns the text of a check in the same form, with at most 4,000 characters. */
export function printableLine(text: string): string {
  return printable(text, MAX_LINE_LENGTH)
}

function printable(text: string, maxLength: number): string {
  // The rest of a long text is ignored. A character can have two code units, and white space is removed.
  const start = text.slice(0, 4 * maxLength)
  const plain = start.replace(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\s]+/gu, ' ').trim()
  const characters = [...plain]
  if (characters.length <= maxLength && start.length === text.length) return plain
  return `${characters.slice(0, maxLength).join('')}…`
}

/** Returns a JSON value in a form that is safe to print. */
export function quoteValue(value: unknown): string {
  if (value === undefined) return 'nothing'
  if (typeof value === 'string') return quote(value)
  try {
    return quote(JSON.stringify(value))
  } catch {
    // JSON.stringify is recursive and can exceed the stack. JSON.parse cannot.
    return 'a deeply nested value'
  }
}

/** Returns up to twelve values, separated by commas, and the number of the others. */
export function quoteAll(values: readonly unknown[]): string {
  const shown = values.slice(0, 12).map(quoteValue).join(', ')
  return values.length > 12 ? `${shown} and ${values.length - 12} more` : shown
}
