/** The maximum product of the bounds of nested quantifiers. */
export const MAX_REPETITIONS = 4096

/** The maximum number of ways in which a pattern may match the same characters before it fails. */
const MAX_WAYS = 4096

/** A set of characters: one bit for each ASCII character, and the bit 128 for all others. */
type Characters = bigint

const NONE: Characters = 0n
const OTHER: Characters = 1n << 128n
const ALL: Characters = (1n << 129n) - 1n
const DIGITS: Characters = range(0x30, 0x39)
const UPPER: Characters = range(0x41, 0x5a)
const LOWER: Characters = range(0x61, 0x7a)
const WORD: Characters = DIGITS | UPPER | LOWER | (1n << 0x5fn)
const SPACE: Characters = range(9, 13) | (1n << 32n) | OTHER

/** A part of a pattern. `characters` matches one of them. `position` matches no characters, and may fail. */
type Part =
  | { readonly kind: 'characters'; readonly set: Characters }
  | { readonly kind: 'position'; readonly body?: Part }
  | { readonly kind: 'sequence'; readonly parts: readonly Part[] }
  | { readonly kind: 'choice'; readonly options: readonly Part[] }
  | { readonly kind: 'repeat'; readonly min: number; readonly max: number; readonly body: Part }

/** The reason why a pattern is rejected, and the fix. */
export interface PatternProblem {
  readonly problem: string
  readonly fix: string
}

class Rejected extends Error {
  readonly reason: PatternProblem

  constructor(problem: string, fix: string) {
    super(problem)
    this.reason = { problem, fix }
  }
}

/**
 * Returns the reason why a regular expression could take more than linear time, or `undefined`. Every string is searched in
 * linear time if each quantifier is bounded, and if few ways to match the same characters exist.
 * @param source the source of a `RegExp` object, which is valid for its flags.
 */
export function problemOfPattern(source: string, flags: string): PatternProblem | undefined {
  try {
    const part = new PatternParser(source, flags).parse()
    if (waysOf(part, END) <= MAX_WAYS) return undefined
    return {
      problem: `must match the same characters in at most ${MAX_WAYS} ways`,
      fix: 'Use quantifiers that cannot match the same characters as what follows them, or smaller bounds.',
    }
  } catch (error) {
    if (error instanceof Rejected) return error.reason
    // Patterns may be nested deeper than the stack allows.
    if (error instanceof RangeError)
      return { problem: 'must not be nested that deeply', fix: 'Use fewer groups within groups.' }
    throw error
  }
}

function range(first: number, last: number): Characters {
  let set = NONE
  for (let code = first; code <= Math.min(last, 127); code++) set |= 1n << BigInt(code)
  return last > 127 ? set | OTHER : set
}

/** Reads the source of a regular expression that is known to be valid. */
class PatternParser {
  readonly #source: string
  readonly #unicode: boolean
  readonly #sets: boolean
  readonly #groups: number
  readonly #hasNames: boolean
  #ignoresCase: boolean
  #at = 0

  constructor(source: string, flags: string) {
    this.#source = source
    this.#sets = flags.includes('v')
    this.#unicode = this.#sets || flags.includes('u')
    // Modifiers such as (?i:…) are read as if they applied to the whole pattern.
    this.#ignoresCase = flags.includes('i') || /\(\?[ms]*i/.test(source)
    const { groups, hasNames } = this.#countGroups()
    this.#groups = groups
    this.#hasNames = hasNames
  }

  parse(): Part {
    return this.#choice()
  }

  #countGroups(): { groups: number; hasNames: boolean } {
    let groups = 0
    let hasNames = false
    const source = this.#source
    for (let at = 0, depth = 0; at < source.length; at++) {
      const character = source[at]
      if (character === '\\') at++
      else if (character === '[') depth = this.#sets ? depth + 1 : 1
      else if (character === ']') depth = Math.max(0, depth - 1)
      else if (character === '(' && depth === 0) {
        const isName = source.startsWith('(?<', at) && source[at + 3] !== '=' && source[at + 3] !== '!'
        if (isName) hasNames = true
        if (isName || source[at + 1] !== '?') groups++
      }
    }
    return { groups, hasNames }
  }

  #choice(): Part {
    const options: Part[] = [this.#sequence()]
    while (this.#take('|')) options.push(this.#sequence())
    return options.length === 1 ? (options[0] as Part) : { kind: 'choice', options }
  }

  #sequence(): Part {
    const parts: Part[] = []
    while (this.#at < this.#source.length && !this.#sees('|') && !this.#sees(')'))
      parts.push(this.#repeated(this.#atom()))
    return parts.length === 1 ? (parts[0] as Part) : { kind: 'sequence', parts }
  }

  #repeated(body: Part): Part {
    const bounds = this.#quantifier()
    if (bounds === undefined) return body
    this.#take('?')
    const [min, max] = bounds
    if (max === Number.POSITIVE_INFINITY)
      throw new Rejected(
        'must have bounded quantifiers only, so not *, +, or {n,}',
        'Use a bound such as {1,64}.',
      )
    const part: Part = { kind: 'repeat', min, max, body }
    if (repetitionsOf(part) > MAX_REPETITIONS)
      throw new Rejected(
        `must have nested quantifiers whose bounds have a product of at most ${MAX_REPETITIONS}`,
        'Use smaller bounds.',
      )
    return part
  }

  #quantifier(): readonly [min: number, max: number] | undefined {
    if (this.#take('*')) return [0, Number.POSITIVE_INFINITY]
    if (this.#take('+')) return [1, Number.POSITIVE_INFINITY]
    if (this.#take('?')) return [0, 1]
    const found = /^\{(\d+)(?:(,)(\d*))?\}/.exec(this.#source.slice(this.#at))
    if (found === null) return undefined
    const [all, min, comma, max] = found
    this.#at += all.length
    const last = comma === undefined ? min : max === '' ? Number.POSITIVE_INFINITY : max
    return [Number(min), Number(last)]
  }

  #atom(): Part {
    const character = this.#source[this.#at++] as string
    switch (character) {
      case '^':
      case '$':
        return { kind: 'position' }
      case '.':
        return { kind: 'characters', set: ALL }
      case '(':
        return this.#group()
      case '[':
        return { kind: 'characters', set: this.#sets ? this.#nestedClass() : this.#class() }
      case '\\':
        return this.#escape()
      default:
        return this.#literal(character.charCodeAt(0))
    }
  }

  #group(): Part {
    let kind = 'group'
    if (this.#take('?')) {
      if (this.#sees('<=') || this.#sees('<!'))
        throw new Rejected('must not have a lookbehind', 'Match the characters before the secret as well.')
      if (this.#take('=') || this.#take('!')) kind = 'look'
      else if (this.#take('<')) this.#at = this.#source.indexOf('>', this.#at) + 1
      else this.#at = this.#source.indexOf(':', this.#at) + 1
    }
    const body = this.#choice()
    this.#take(')')
    return kind === 'look' ? { kind: 'position', body } : body
  }

  #escape(): Part {
    const character = this.#source[this.#at] as string
    if (character === 'b' || character === 'B') {
      this.#at++
      return { kind: 'position' }
    }
    if (character === 'k' && (this.#unicode || this.#hasNames)) throw backReference()
    if (character >= '1' && character <= '9') {
      const digits = (/^\d+/.exec(this.#source.slice(this.#at)) as RegExpExecArray)[0]
      if (this.#unicode || Number(digits) <= this.#groups) throw backReference()
    }
    return { kind: 'characters', set: this.#folded(this.#escaped()) }
  }

  /** Reads what follows a backslash, in a class or outside of one. */
  #escaped(): Characters {
    const character = this.#source[this.#at++] as string
    switch (character) {
      case 'd':
        return DIGITS
      case 'D':
        return ALL & ~DIGITS
      case 'w':
        return WORD | (this.#ignoresCase ? OTHER : NONE)
      case 'W':
        return this.#ignoresCase ? ALL : ALL & ~WORD
      case 's':
        return SPACE
      case 'S':
        return ALL & ~(SPACE & ~OTHER)
      case 'p':
      case 'P':
        // Without the flag u, this is the letter, and the rest is read as it is.
        if (!this.#unicode) return range(character.charCodeAt(0), character.charCodeAt(0))
        this.#at = this.#source.indexOf('}', this.#at) + 1
        return ALL
      case 'c':
        return this.#control()
      case 'x':
        return this.#code(/^[0-9a-fA-F]{2}/, 16, character)
      case 'u':
        return this.#unicodeEscape()
      default:
        return this.#simpleEscape(character)
    }
  }

  #control(): Characters {
    const found = /^[A-Za-z]/.exec(this.#source.slice(this.#at, this.#at + 1))
    if (found === null) return ALL
    this.#at++
    return 1n << BigInt(found[0].charCodeAt(0) % 32)
  }

  #unicodeEscape(): Characters {
    const braces = this.#unicode ? /^\{([0-9a-fA-F]+)\}/.exec(this.#source.slice(this.#at)) : null
    if (braces === null) return this.#code(/^[0-9a-fA-F]{4}/, 16, 'u')
    this.#at += braces[0].length
    return characterOf(Number.parseInt(braces[1] as string, 16))
  }

  /** Reads the digits of a character code. Without them, the escape stands for its letter. */
  #code(digits: RegExp, radix: number, letter: string): Characters {
    const found = digits.exec(this.#source.slice(this.#at, this.#at + 4))
    if (found === null) return characterOf(letter.charCodeAt(0))
    this.#at += found[0].length
    return characterOf(Number.parseInt(found[0], radix))
  }

  #simpleEscape(character: string): Characters {
    const control = 'tnvfr'.indexOf(character)
    if (control >= 0) return characterOf(9 + control)
    if (character >= '0' && character <= '7') {
      this.#at--
      return this.#code(/^(?:[0-3][0-7]{0,2}|[4-7][0-7]?)/, 8, character)
    }
    return characterOf(character.charCodeAt(0))
  }

  #literal(code: number): Part {
    return { kind: 'characters', set: this.#folded(characterOf(code)) }
  }

  /** Reads a class after its `[`. */
  #class(): Characters {
    const negated = this.#take('^')
    let set = NONE
    while (!this.#take(']')) {
      const first = this.#classCharacter()
      if (first.code !== undefined && this.#sees('-') && this.#source[this.#at + 1] !== ']') {
        this.#at++
        const last = this.#classCharacter()
        set |=
          last.code === undefined ? first.set | last.set | characterOf(0x2d) : range(first.code, last.code)
      } else {
        set |= first.set
      }
    }
    // The complement contains characters beyond ASCII, because a class seldom lists all of them.
    return this.#folded(negated ? ALL & ~(set & ~OTHER) : set)
  }

  /** Reads one character or escape of a class. `code` is missing for an escape of many characters. */
  #classCharacter(): { readonly set: Characters; readonly code?: number } {
    const character = this.#source[this.#at++] as string
    if (character !== '\\') {
      const code = character.charCodeAt(0)
      return { set: characterOf(code), code }
    }
    const letter = this.#source[this.#at] as string
    if (letter === 'b') {
      this.#at++
      return { set: characterOf(8), code: 8 }
    }
    const set = this.#escaped()
    if (/[dDwWsSpPc]/.test(letter)) return { set }
    return { set, code: firstOf(set) }
  }

  /** Skips a class of the flag `v`, which may contain other classes, and strings. */
  #nestedClass(): Characters {
    for (let depth = 1; depth > 0; this.#at++) {
      const character = this.#source[this.#at]
      if (character === '\\') this.#at++
      else if (character === '[') depth++
      else if (character === ']') depth--
    }
    return ALL
  }

  /** Adds both cases of letters. Some characters beyond ASCII have an ASCII letter as their other case. */
  #folded(set: Characters): Characters {
    if (!this.#ignoresCase) return set
    const letters = set & (UPPER | LOWER)
    return letters === NONE ? set : set | ((letters & UPPER) << 32n) | ((letters & LOWER) >> 32n) | OTHER
  }

  #sees(text: string): boolean {
    return this.#source.startsWith(text, this.#at)
  }

  #take(text: string): boolean {
    if (!this.#sees(text)) return false
    this.#at += text.length
    return true
  }
}

function backReference(): Rejected {
  return new Rejected('must not have a back-reference', 'Repeat the group instead.')
}

function characterOf(code: number): Characters {
  return code > 127 ? OTHER : 1n << BigInt(code)
}

/** Returns the code of the only character of a set. All characters beyond ASCII have one code. */
function firstOf(set: Characters): number {
  return set.toString(2).length - 1
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
      return Math.max(1, part.max) * repetitionsOf(part.body)
  }
}

/** The characters that the rest of a pattern may start with, and `isSure` if the rest always matches. */
interface Following {
  readonly set: Characters
  readonly isSure: boolean
}

const END: Following = { set: ALL, isSure: true }

/** Returns the characters that a part may start with, and whether it may match no characters. */
function startOf(part: Part): { readonly set: Characters; readonly isEmpty: boolean } {
  switch (part.kind) {
    case 'characters':
      return { set: part.set, isEmpty: false }
    case 'position':
      return { set: NONE, isEmpty: true }
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

function before(part: Part, following: Following): Following {
  const { set, isEmpty } = startOf(part)
  return {
    set: isEmpty ? set | following.set : set,
    isSure: following.isSure && alwaysMatches(part),
  }
}

/**
 * Returns an upper bound of the ways to match a part that a search tries from one position. A choice adds no ways if the
 * next character decides, or if everything after it always matches, because then no other way is tried.
 */
function waysOf(part: Part, following: Following): number {
  switch (part.kind) {
    case 'characters':
      return 1
    case 'position':
      return part.body === undefined ? 1 : waysOf(part.body, END)
    case 'sequence': {
      let ways = 1
      let next = following
      for (let index = part.parts.length - 1; index >= 0; index--) {
        const one = part.parts[index] as Part
        ways *= waysOf(one, next)
        next = before(one, next)
      }
      return ways
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

function waysOfRepeat({ min, max, body }: Part & { kind: 'repeat' }, following: Following): number {
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
  for (let count = min; count <= max && sum <= MAX_WAYS; count++) sum += ways ** count
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
