import { closest, distance } from 'fastest-levenshtein'

/** Longer names are not compared. */
const MAX_LENGTH = 256

/** Returns the known name that a misspelled one probably stands for, ignoring case, or `undefined` if none is near. */
export function nearestName(name: string, known: Iterable<string>): string | undefined {
  if (name.length > MAX_LENGTH) return undefined
  const names = new Map([...known].map((one) => [one.toLowerCase(), one]))
  if (names.size === 0) return undefined
  const wanted = name.toLowerCase()
  // Two swapped letters are one mistake, but two edits.
  const swapped = swaps(wanted).find((one) => names.has(one))
  const nearest = swapped ?? closest(wanted, [...names.keys()])
  const tolerated = Math.min(3, Math.ceil(name.length / 3))
  return swapped !== undefined || distance(wanted, nearest) <= tolerated ? names.get(nearest) : undefined
}

/** Returns ` Did you mean 'x'?` for the nearest known name, or an empty string if none is near. */
export function didYouMean(name: string, known: Iterable<string>): string {
  const meant = nearestName(name, known)
  return meant === undefined ? '' : ` Did you mean '${meant}'?`
}

function swaps(name: string): string[] {
  return Array.from({ length: Math.max(0, name.length - 1) }, (_, index) => {
    const [start, one, other] = [name.slice(0, index), name.charAt(index), name.charAt(index + 1)]
    return start + other + one + name.slice(index + 2)
  })
}
