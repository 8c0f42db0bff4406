/**
 * Returns options of an `LRUCache` for at most `max` entries. The option `max` would allocate memory for all of them at
 * once: 28 bytes for each.
 */
export function entriesUpTo(max: number): { maxSize: number; sizeCalculation: () => number } {
  return { maxSize: max, sizeCalculation: () => 1 }
}
