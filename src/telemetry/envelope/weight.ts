/** The bytes of an event without its values: the envelope, and its place in a queue. */
export const EVENT_BYTES = 256

/** The bytes of the ids of a span. */
export const TRACE_BYTES = 256

/** The bytes of an empty object or array. */
export const CONTAINER_BYTES = 64

/** The bytes of a member of an object, without its key and its text. Objects with new keys take more memory than others. */
export const MEMBER_BYTES = 96

/** The bytes of an item of an array, without its text. */
export const ITEM_BYTES = 32

/** The length up to which the characters of a string are not examined. */
const MAX_UNEXAMINED = 256

/** The characters for which V8 stores a string with two bytes per UTF-16 unit. A search in any other string takes no time. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: the pattern matches all characters beyond Latin-1 on purpose
const TWO_BYTES = /[^\u0000-\u00ff]/

/** Returns the bytes of the characters of a string in memory, or a few more. */
export function textBytes(text: string): number {
  const { length } = text
  return length <= MAX_UNEXAMINED ? 2 * length : longTextBytes(text)
}

function longTextBytes(text: string): number {
  return TWO_BYTES.test(text) ? 2 * text.length : text.length
}

/** Returns the bytes of a JSON value in memory, in addition to those of its place in an object or array. */
export function valueBytes(value: unknown): number {
  if (typeof value === 'string') return textBytes(value)
  if (typeof value !== 'object' || value === null) return 0
  let bytes = CONTAINER_BYTES
  if (Array.isArray(value)) {
    for (const item of value) bytes += ITEM_BYTES + valueBytes(item)
  } else {
    for (const [key, member] of Object.entries(value))
      bytes += MEMBER_BYTES + textBytes(key) + valueBytes(member)
  }
  return bytes
}
