/**
 * Returns a number with its noun: `1 event`, `2 events`.
 * @param noun the singular of a noun whose plural ends in `s`.
 */
export function counted(count: number, noun: string): string {
  return `${count} ${noun}${count === 1 ? '' : 's'}`
}
