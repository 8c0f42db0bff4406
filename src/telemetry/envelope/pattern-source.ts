import { type Characters, NONE } from './pattern-characters.ts'
import { boundOf, type Part, PatternParser, type PatternProblem, RejectedPattern } from './pattern-parser.ts'
import { before, END, type Following, followingsOf, startOf, waysOf } from './pattern-ways.ts'

/** The maximum product of the bounds of nested quantifiers. */
export const MAX_REPETITIONS = 4096

/** The maximum of the ways to match the same characters times the length of the longest match. */
export const MAX_STEPS = 65_536

/** The maximum number of places at which an unbounded quantifier may begin after one beginning of a match. */
const MAX_PLACES = 64

const TOO_MANY_REPETITIONS: PatternProblem = {
  problem: `must have nested quantifiers whose bounds have a product of at most ${MAX_REPETITIONS}`,
  fix: 'Use smaller bounds.',
}
const TOO_MANY_STEPS: PatternProblem = {
  problem: `must match the same characters in few ways: their number times the length of the longest match must be at most ${MAX_STEPS}`,
  fix: 'Use quantifiers that cannot match the same characters as what follows them, or smaller bounds.',
}
const UNBOUNDED: PatternProblem = {
  problem: 'must have bounded quantifiers where *, +, or {n,} could take more than linear time',
  fix: 'Use a bound such as {1,64}. An unbounded quantifier may repeat one character or class at the end, also before optional parts, or one that excludes the first character of a match and what follows.',
}

/**
 * Returns the reason why a regular expression could take more than linear time, or `undefined`. Every string is searched in
 * linear time if few ways to match the same characters exist, and if no character is matched by an unbounded quantifier for
 * many beginnings of a match.
 * @param source the source of a `RegExp` object, which is valid for its flags.
 */
export function problemOfPattern(source: string, flags: string): PatternProblem | undefined {
  try {
    const part = new PatternParser(source, flags).parse()
    if (repetitionsOf(part) > MAX_REPETITIONS) return TOO_MANY_REPETITIONS
    const whole = { first: before(part, END).set, following: END, count: 1, isStart: true, isEnd: true }
    if (!isLinear(part, whole)) return UNBOUNDED
    return waysOf(part, END) * lengthOf(part) <= MAX_STEPS ? undefined : TOO_MANY_STEPS
  } catch (error) {
    if (error instanceof RejectedPattern) return error.reason
    // Patterns may be nested deeper than the stack allows.
    if (error instanceof RangeError)
      return { problem: 'must not be nested that deeply', fix: 'Use fewer groups within groups.' }
    throw error
  }
}

/** Returns the largest product of the bounds of nested quantifiers. */
function repetitionsOf(part: Part): number {
  switch (part.kind) {
    case 'characters':
      return 1
    case 'position':
      return part.body === undefined ? 1 : repetitionsOf(part.body)
    case 'sequence':
      return part.parts.reduce((most, one) => Math.max(most, repetitionsOf(one)), 1)
    case 'choice':
      return part.options.reduce((most, one) => Math.max(most, repetitionsOf(one)), 1)
    case 'repeat':
      return Math.max(1, boundOf(part)) * repetitionsOf(part.body)
  }
}

/** Returns the length of the longest match, without the characters beyond the minimum of an unbounded quantifier. */
function lengthOf(part: Part): number {
  switch (part.kind) {
    case 'characters':
      return 1
    case 'position':
      return part.body === undefined ? 0 : lengthOf(part.body)
    case 'sequence':
      return part.parts.reduce((sum, one) => sum + lengthOf(one), 0)
    case 'choice':
      return part.options.reduce((most, one) => Math.max(most, lengthOf(one)), 0)
    case 'repeat':
      return boundOf(part) * lengthOf(part.body)
  }
}

/** The place of a part in a pattern. */
interface Place {
  /** The characters that a match may begin with. */
  readonly first: Characters
  readonly following: Following
  /** The number of places in a string at which the part may begin, for one beginning of a match. */
  readonly count: number
  /** `true` if nothing is before the part, and if nothing after it can fail. */
  readonly isStart: boolean
  readonly isEnd: boolean
}

/**
 * Returns `true` if the unbounded quantifiers of a part take linear time. At the end of the pattern, they always match. Elsewhere,
 * they end at a character that they exclude, and contain no beginning of a match, so that few matches read the same characters.
 */
function isLinear(part: Part, place: Place): boolean {
  const { first, following, isStart, isEnd } = place
  switch (part.kind) {
    case 'characters':
      return true
    case 'position':
      return part.body === undefined || isLinear(part.body, { ...place, following: END, isEnd: false })
    case 'sequence': {
      const { parts } = part
      const followings = followingsOf(parts, following)
      let { count } = place
      return parts.every((one, index) => {
        const next = followings[index] as Following
        const isFirst = isStart && index === 0
        // What always matches, such as an optional part at the end, ends a match like the end of the pattern.
        const isLast = isEnd && next.isSure
        const isFast = isLinear(one, { first, following: next, count, isStart: isFirst, isEnd: isLast })
        count *= waysOf(one, next)
        return isFast
      })
    }
    case 'choice':
      return part.options.every((option) => isLinear(option, place))
    case 'repeat': {
      const { max, body, isGroup } = part
      if (max === Number.POSITIVE_INFINITY) {
        if (isGroup || body.kind !== 'characters') return false
        if (isEnd && !isStart) return true
        return (body.set & (first | following.set)) === NONE && place.count <= MAX_PLACES
      }
      const next = max > 1 ? { set: startOf(body).set | following.set, isSure: false } : following
      const count = place.count * max * waysOf(body, next) ** max
      return isLinear(body, { ...place, following: next, count, isEnd: isEnd && max === 1 })
    }
  }
}
