const MAX_LENGTH = 160

/**
 * A text of a stranger, fit to be printed: on one line, without control characters (a terminal would obey them)
 * and direction marks, and of at most 160 characters.
 */
export function quote(text: string): string {
  const plain = text.replace(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\s]+/gu, ' ').trim()
  const characters = [...plain]
  return characters.length <= MAX_LENGTH ? plain : `${characters.slice(0, MAX_LENGTH).join('')}…`
}

/** Whatever JSON may hold, in the same way. */
export function quoteValue(value: unknown): string {
  return value === undefined ? 'nothing' : quote(typeof value === 'string' ? value : JSON.stringify(value))
}

/** Several of them, with commas. Beyond twelve they are only counted. */
export function quoteAll(texts: readonly string[]): string {
  const shown = texts.slice(0, 12).map(quote).join(', ')
  return texts.length > 12 ? `${shown} and ${texts.length - 12} more` : shown
}
