import { copyText } from './runtime.ts'

/**
 * Returns the first `max` UTF-16 units of a string, and never splits a surrogate pair. The result is a copy, because a
 * substring in V8 refers to the original string, so that a few characters could keep megabytes in memory.
 * @param end replaces the last characters of a string that is too long, such as `…`.
 */
export function cutText(text: string, max: number, end = ''): string {
  if (text.length <= max) return text
  const length = max - end.length
  if (length < 0) return ''
  const splitsPair = length > 0 && (text.codePointAt(length - 1) as number) > 0xffff
  return copyText(text.slice(0, splitsPair ? length - 1 : length) + end)
}
