/** The bytes of an event without its values: the envelope, and its place in a queue. */
export const EVENT_BYTES = 512

/** The bytes of an empty object or array. */
export const CONTAINER_BYTES = 64

/** The bytes of an item of an array. */
export const ITEM_BYTES = 24

/** The bytes of a member of an object without its key. Objects with new keys take more memory than others. */
const MEMBER_BYTES = 80

/** The bytes of an empty string. */
const STRING_BYTES = 16

/** The length up to which the characters of a string are not examined. */
const MAX_UNEXAMINED = 256

/** The characters for which V8 stores a string with two bytes per UTF-16 unit. A search in any other string takes no time. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: the pattern matches all characters beyond Latin-1 on purpose
const TWO_BYTES = /[^\u0000-\u00ff]/

/** Returns the bytes of a string in memory, or a few more. */
export function textBytes(text: string): number {
  const { length } = text
  return STRING_BYTES + (length > MAX_UNEXAMINED && !TWO_BYTES.test(text) ? length : 2 * length)
}

/** Returns the bytes of a member of an object in memory, without those of its value. */
export function memberBytes(key: string): number {
  return MEMBER_BYTES + 2 * key.length
}

/** Returns the bytes of a JSON value in memory, in addition to those of its place in an object or array. */
export function valueBytes(value: unknown): number {
  if (typeof value === 'string') return textBytes(value)
  if (typeof value !== 'object' || value === null) return 0
  let bytes = CONTAINER_BYTES
  if (Array.isArray(value)) {
    for (const item of value) bytes += ITEM_BYTES + valueBytes(item)
  } else {
    for (const [key, member] of Object.entries(value)) bytes += memberBytes(key) + valueBytes(member)
  }
  return bytes
}
