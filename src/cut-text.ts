/**
 * Returns the first `max` UTF-16 units of a string, never half a surrogate pair. The result is a string of its own: V8
 * lets a substring refer to the string that it was taken from, so that a few characters would keep megabytes in memory.
 * @param end replaces the last characters of a string that is too long, such as `…`.
 */
export function cutText(text: string, max: number, end = ''): string {
  if (text.length <= max) return text
  const length = max - end.length
  if (length < 0) return ''
  const splitsPair = length > 0 && (text.codePointAt(length - 1) as number) > 0xffff
  return ownText(text.slice(0, splitsPair ? length - 1 : length) + end)
}

/** A copy of a string that refers to no other string. Lone surrogates survive, as they do not in UTF-8. */
function ownText(text: string): string {
  return Buffer.from(text, 'utf16le').toString('utf16le')
}
