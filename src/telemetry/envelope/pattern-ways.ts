import { ALL, type Characters, NONE } from './pattern-characters.ts'
import { boundOf, type Part } from './pattern-parser.ts'

/** The characters that the rest of a pattern may start with, and `isSure` if the rest always matches. */
export interface Following {
  readonly set: Characters
  readonly isSure: boolean
}

/** The end of a pattern or of a group that looks ahead. */
export const END: Following = { set: ALL, isSure: true }

/**
 * Returns the characters that a part may start with, and whether it may match no characters. A look-ahead with an unbounded
 * quantifier counts with the characters that it reads first, whatever the part matches after it, because it is tried there.
 */
export function startOf(part: Part): { readonly set: Characters; readonly isEmpty: boolean } {
  switch (part.kind) {
    case 'characters':
      return { set: part.set, isEmpty: false }
    case 'position': {
      const { body } = part
      return { set: body !== undefined && isUnbounded(body) ? startOf(body).set : NONE, isEmpty: true }
    }
    case 'sequence': {
      let set = NONE
      for (const one of part.parts) {
        const start = startOf(one)
        set |= start.set
        if (!start.isEmpty) return { set, isEmpty: false }
      }
      return { set, isEmpty: true }
    }
    case 'choice': {
      const starts = part.options.map(startOf)
      return {
        set: starts.reduce((set, start) => set | start.set, NONE),
        isEmpty: starts.some(({ isEmpty }) => isEmpty),
      }
    }
    case 'repeat': {
      const { set, isEmpty } = startOf(part.body)
      return { set, isEmpty: isEmpty || part.min === 0 }
    }
  }
}

function isUnbounded(part: Part): boolean {
  switch (part.kind) {
    case 'characters':
      return false
    case 'position':
      return part.body !== undefined && isUnbounded(part.body)
    case 'sequence':
      return part.parts.some(isUnbounded)
    case 'choice':
      return part.options.some(isUnbounded)
    case 'repeat':
      return part.max === Number.POSITIVE_INFINITY || isUnbounded(part.body)
  }
}

/** Returns `true` if a part always matches, at least no characters. */
function alwaysMatches(part: Part): boolean {
  switch (part.kind) {
    case 'characters':
    case 'position':
      return false
    case 'sequence':
      return part.parts.every(alwaysMatches)
    case 'choice':
      return part.options.some(alwaysMatches)
    case 'repeat':
      return part.min === 0 || alwaysMatches(part.body)
  }
}

/** Returns what follows the part before a part. */
export function before(part: Part, following: Following): Following {
  const isAhead = part.kind === 'position' && part.mustFollow === true
  const { set, isEmpty } = startOf(isAhead ? (part.body as Part) : part)
  return {
    set: isEmpty ? set | following.set : set,
    isSure: following.isSure && alwaysMatches(part),
  }
}

/** Returns what follows each part of a sequence. */
export function followingsOf(parts: readonly Part[], following: Following): readonly Following[] {
  const followings = [following]
  for (const part of parts.slice(1).reverse()) followings.unshift(before(part, followings[0] as Following))
  return followings
}

/**
 * Returns an upper bound of the ways to match a part that a search tries from one position. A choice adds no ways if the
 * next character decides, or if everything after it always matches, because then no other way is tried.
 */
export function waysOf(part: Part, following: Following): number {
  switch (part.kind) {
    case 'characters':
      return 1
    case 'position':
      return part.body === undefined ? 1 : waysOf(part.body, END)
    case 'sequence': {
      const followings = followingsOf(part.parts, following)
      return part.parts.reduce((ways, one, index) => ways * waysOf(one, followings[index] as Following), 1)
    }
    case 'choice': {
      const ways = part.options.map((option) => waysOf(option, following))
      return areApart(part.options.map((option) => before(option, following).set))
        ? Math.max(...ways)
        : ways.reduce((sum, each) => sum + each, 0)
    }
    case 'repeat':
      return waysOfRepeat(part, following)
  }
}

function waysOfRepeat(part: Part & { kind: 'repeat' }, following: Following): number {
  const { min, body } = part
  const max = boundOf(part)
  const { set, isEmpty } = startOf(body)
  const again: Following = { set: set | following.set, isSure: false }
  if (following.isSure) {
    // Iterations after the minimum are final, because everything after them matches.
    const last = Math.max(1, waysOf(body, following))
    return min < 2 ? last : last * waysOf(body, again) ** (min - 1)
  }
  const ways = waysOf(body, again)
  if (min === max || (!isEmpty && (set & following.set) === NONE)) return ways ** max
  let sum = 0
  for (let count = min; count <= max && Number.isFinite(sum); count++) sum += ways ** count
  return sum
}

function areApart(sets: readonly Characters[]): boolean {
  let seen = NONE
  for (const set of sets) {
    if ((seen & set) !== NONE) return false
    seen |= set
  }
  return true
}
