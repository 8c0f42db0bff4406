import { closest, distance } from 'fastest-levenshtein'

/** Longer names are no misspelling of anything, and not worth comparing. */
const MAX_LENGTH = 256

/** The known name that was probably meant by a misspelt one; undefined when none is near. */
export function nearestName(given: string, known: Iterable<string>): string | undefined {
  const names = [...known]
  if (given.length > MAX_LENGTH || names.length === 0) return undefined
  const nearest = closest(given, names)
  const tolerated = Math.min(3, Math.ceil(given.length / 3))
  return distance(given.toLowerCase(), nearest.toLowerCase()) <= tolerated ? nearest : undefined
}
