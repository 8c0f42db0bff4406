/** Returns `text`, or its beginning and an ellipsis if it has more than `max` characters. */
export function shortened(text: string, max: number): string {
  if (text.length <= max) return text
  const last = text.charCodeAt(max - 2)
  // A surrogate pair must not be split.
  const isHalf = last >= 0xd8_00 && last <= 0xdb_ff
  return `${text.slice(0, isHalf ? max - 2 : max - 1)}…`
}
