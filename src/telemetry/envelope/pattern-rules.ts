/** The character that ends a string that was cut. */
export const CUT = '…'

/** The part of a built-in pattern that a regular expression cannot express. */
export interface PatternRules {
  /** Returns one bit for each kind of secret that a string may contain. All built-in patterns share this function. */
  hintsOf(text: string): number
  /** The bit of `hintsOf` without which a string does not contain the secret. */
  readonly hint: number
  /**
   * Returns the end of the secret that starts at `start`, at most at `end`, the end of the match. Returns `undefined` if it
   * is not a secret.
   */
  endOf?(text: string, start: number, end: number): number | undefined
  /** Continues after a match that is not a secret. Defaults to continuing at the second character of the match. */
  readonly skipsMatch?: boolean
}

/** The rules by the identity of the `RegExp` object, so that copies of a pattern keep them. */
const RULES = new WeakMap<RegExp, PatternRules>()

/** Sets the rules of a built-in pattern. The list of patterns does this, so that the rules are bundled only with the list. */
export function setRules(pattern: RegExp, rules: PatternRules): void {
  RULES.set(pattern, rules)
}

/** Returns the rules of a built-in pattern. */
export function rulesOf(pattern: RegExp): PatternRules | undefined {
  return RULES.get(pattern)
}
