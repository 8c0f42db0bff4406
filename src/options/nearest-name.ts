import { closest, distance } from 'fastest-levenshtein'

/** Longer names are no misspelling of anything, and not worth comparing. */
const MAX_LENGTH = 256

/** The known name that was probably meant by a misspelt one, whatever its case; undefined when none is near. */
export function nearestName(given: string, known: Iterable<string>): string | undefined {
  if (given.length > MAX_LENGTH) return undefined
  const names = new Map([...known].map((name) => [name.toLowerCase(), name]))
  if (names.size === 0) return undefined
  const wanted = given.toLowerCase()
  // Two letters the wrong way round are one mistake, but two edits.
  const swapped = swaps(wanted).find((name) => names.has(name))
  const nearest = swapped ?? closest(wanted, [...names.keys()])
  const tolerated = Math.min(3, Math.ceil(given.length / 3))
  return swapped !== undefined || distance(wanted, nearest) <= tolerated ? names.get(nearest) : undefined
}

function swaps(name: string): string[] {
  return Array.from({ length: Math.max(0, name.length - 1) }, (_, index) => {
    const [before, one, other] = [name.slice(0, index), name.charAt(index), name.charAt(index + 1)]
    return before + other + one + name.slice(index + 2)
  })
}
