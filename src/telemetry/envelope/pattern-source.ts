/** The reason why a pattern is rejected, and the fix. */
export interface PatternProblem {
  readonly problem: string
  readonly fix: string
}

/** The escapes, groups, classes, and unbounded quantifiers of a regular expression. */
const TOKENS = /\\(?:[1-9]\d*|[\s\S])|\(\?<[=!]|\((?:\?<?)?|[)[\]*+]|\{\d+,\}/g

/**
 * Returns the reason why a regular expression is rejected, or `undefined`. The rules find common patterns that take exponential
 * time. They do not prove that a pattern is fast.
 * @param source the source of a `RegExp` object, which is valid for its flags.
 */
export function problemOfPattern(source: string, flags: string): PatternProblem | undefined {
  /** For the pattern and each open group: `true` if it contains an unbounded quantifier. */
  const isUnbounded = [false]
  let ended: { readonly at: number; readonly isUnbounded: boolean } | undefined
  let classes = 0
  let groups = 0
  let hasNames = false
  let hasNameReference = false
  let reference = Number.POSITIVE_INFINITY
  for (const { 0: token, index } of source.matchAll(TOKENS)) {
    if (token === '[') classes = flags.includes('v') ? classes + 1 : 1
    else if (token === ']') classes = Math.max(0, classes - 1)
    else if (classes > 0) continue
    else if (token.startsWith('\\')) {
      if (token === '\\k') hasNameReference = true
      else if (/[1-9]/.test(token)) reference = Math.min(reference, Number(token.slice(1)))
    } else if (token === '(?<=' || token === '(?<!')
      return {
        problem: 'must not have a lookbehind',
        fix: 'Match the characters before the secret as well.',
      }
    else if (token.startsWith('(')) {
      isUnbounded.push(false)
      if (token !== '(?') groups++
      if (token === '(?<') hasNames = true
    } else if (token === ')') {
      ended = { at: index + 1, isUnbounded: isUnbounded.pop() as boolean }
      isUnbounded[isUnbounded.length - 1] ||= ended.isUnbounded
    } else if (ended?.at === index && ended.isUnbounded)
      return {
        problem: 'must not repeat a group without a bound that itself has an unbounded quantifier',
        fix: 'Use a bound such as {1,64} for one of them.',
      }
    else isUnbounded[isUnbounded.length - 1] = true
  }
  // Other numbers are characters, and without named groups, so is \k.
  if (reference <= groups || (hasNameReference && hasNames))
    return { problem: 'must not have a back-reference', fix: 'Repeat the group instead.' }
  return undefined
}
