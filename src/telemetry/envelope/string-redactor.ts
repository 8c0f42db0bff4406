import { isOptionsObject } from '../../base/options/option-kit.ts'
import { copyText } from '../../base/runtime.ts'
import { telemetryOptions } from '../options.ts'
import { CUT, type PatternRules, rulesOf } from './pattern-rules.ts'
import type { TelemetryRedactionPattern } from './secret-patterns.ts'

const { checkKnownMembers, checkOneOf, invalidKind, invalidOption, unusableOption } = telemetryOptions

/** Copies and checks patterns. @throws {KitTelemetryError} `TELEMETRY_CONFIGURATION_INVALID` if one is invalid. */
export function checkPatterns(option: string, value: unknown): readonly TelemetryRedactionPattern[] {
  if (!Array.isArray(value))
    throw invalidKind(option, 'must be an array of objects with name and pattern', value)
  return Object.freeze(Array.from(value, (pattern, index) => checkPattern(`${option}[${index}]`, pattern)))
}

function checkPattern(option: string, value: unknown): TelemetryRedactionPattern {
  if (!isOptionsObject(value)) throw invalidKind(option, 'must be an object with name and pattern', value)
  checkKnownMembers(option, value, ['name', 'pattern', 'replace'])
  const { name, pattern, replace } = value as Readonly<Record<string, unknown>>
  if (typeof name !== 'string' || !/^[A-Za-z][\w.-]{0,63}$/.test(name))
    throw invalidOption(
      `${option}.name`,
      'must be a letter and at most 63 further letters, digits, or ._-',
      name,
    )
  if (!(pattern instanceof RegExp)) throw invalidKind(`${option}.pattern`, 'must be a RegExp', pattern)
  if (rulesOf(pattern) === undefined) checkRegExp(`${option}.pattern`, pattern)
  if (replace === undefined) return Object.freeze({ name, pattern })
  return Object.freeze({
    name,
    pattern,
    replace: checkOneOf(`${option}.replace`, replace, ['mask', 'hash', 'remove']),
  })
}

function checkRegExp(option: string, { source, flags }: RegExp): void {
  if (flags.includes('y'))
    throw unusableOption(option, 'must not have the flag y', 'Remove it, because every match is replaced.')
  const found = problemOfPattern(source, flags)
  if (found !== undefined) throw unusableOption(option, found.problem, found.fix)
}

/** A pattern that is ready to search strings. */
interface Search {
  readonly expression: RegExp
  readonly isUnicode: boolean
  readonly rules: PatternRules | undefined
  replacementOf(secret: string): string
}

/** Replaces the secrets inside strings. */
export class StringRedactor {
  readonly #searches: readonly Search[]
  /** The function that all built-in patterns share. */
  readonly #hintsOf: PatternRules['hintsOf'] | undefined
  readonly #hasOnlyRules: boolean
  /** @param digest returns the hash of a string, for patterns with `replace: 'hash'`. */
  constructor(patterns: readonly TelemetryRedactionPattern[], digest: (text: string) => string) {
    this.#searches = patterns.map(({ name, pattern, replace = 'mask' }) => {
      const { source, flags } = pattern
      const mask = replace === 'mask' ? `[${name}]` : ''
      return {
        expression: new RegExp(source, flags.includes('g') ? flags : `${flags}g`),
        isUnicode: /[uv]/.test(flags),
        rules: rulesOf(pattern),
        replacementOf: replace === 'hash' ? digest : () => mask,
      }
    })
    this.#hintsOf = this.#searches.find(({ rules }) => rules !== undefined)?.rules?.hintsOf
    this.#hasOnlyRules = this.#searches.every(({ rules }) => rules !== undefined)
  }

  /** Replaces the secrets in a string. What a pattern has written is not searched by the next ones. */
  redact(text: string): string {
    return this.#search(text, text.length)
  }

  /**
   * Replaces the secrets that begin in the first half of the first `max` characters of a longer string. The other half is only
   * searched for their ends, and is left out, because it may contain the beginning of a secret whose end is not searched.
   */
  redactStart(text: string, max: number): string {
    const half = max >> 1
    const splitsPair = (text.codePointAt(half - 1) ?? 0) > 0xffff
    return this.#search(text.slice(0, max) + CUT, splitsPair ? half - 1 : half)
  }

  #search(text: string, kept: number): string {
    if (text === '') return text
    const hints = this.#hintsOf === undefined ? 0 : this.#hintsOf(text)
    if (hints === 0 && this.#hasOnlyRules) return text.slice(0, kept)
    const redacted = this.#redactFrom(0, text, hints, kept)
    // The parts refer to the original string, which may be long.
    return redacted === text ? text : copyText(redacted)
  }

  /**
   * @param hints those of the whole string, which are also true of its parts.
   * @param kept the number of characters after which the rest is left out.
   */
  #redactFrom(first: number, text: string, hints: number, kept: number): string {
    for (let at = first; at < this.#searches.length; at++) {
      const search = this.#searches[at] as Search
      const { expression, rules } = search
      if (rules !== undefined && (hints & rules.hint) === 0) continue
      expression.lastIndex = 0
      let redacted = ''
      let done = 0
      for (let match = expression.exec(text); match !== null; match = expression.exec(text)) {
        const start = match.index
        if (start >= kept) break
        const matchEnd = start + match[0].length
        const end = rules?.endOf === undefined ? matchEnd : rules.endOf(text, start, matchEnd)
        if (end === undefined || end === start) {
          expression.lastIndex =
            end === undefined && rules?.skipsMatch === true ? matchEnd : nextIndex(search, text, start)
          continue
        }
        redacted +=
          this.#redactFrom(at + 1, text.slice(done, start), hints, start - done) +
          search.replacementOf(text.slice(start, end))
        done = end
        expression.lastIndex = end
      }
      if (done > 0)
        return redacted + this.#redactFrom(at + 1, text.slice(done), hints, Math.max(0, kept - done))
    }
    return text.slice(0, kept)
  }
}

/** Returns the index after a character. With the flag `u`, a search cannot start within a surrogate pair. */
function nextIndex({ isUnicode }: Search, text: string, index: number): number {
  return index + (isUnicode && (text.codePointAt(index) ?? 0) > 0xffff ? 2 : 1)
}

/** The escapes, groups, classes, and unbounded quantifiers of a regular expression. */
const TOKENS = /\\(?:[1-9]\d*|[\s\S])|\(\?<[=!]|\((?:\?<?)?|[)[\]*+]|\{\d+,\}/g

/**
 * Returns the reason why a regular expression is rejected, or `undefined`. The rules find common patterns that take exponential
 * time. They do not prove that a pattern is fast.
 * @param source the source of a `RegExp` object, which is valid for its flags.
 */
export function problemOfPattern(
  source: string,
  flags: string,
): { readonly problem: string; readonly fix: string } | undefined {
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
