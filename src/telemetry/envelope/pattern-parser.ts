import {
  ALL,
  type Characters,
  characterOf,
  DIGITS,
  firstOf,
  LINE_ENDS,
  LOWER,
  NONE,
  OTHER,
  range,
  SPACE,
  UPPER,
  WORD,
} from './pattern-characters.ts'

/**
 * A part of a pattern. `characters` matches one of them. `position` matches no characters, and may fail: without a body, and with
 * one that must follow or must not follow. The maximum of an unbounded quantifier is infinite.
 */
export type Part =
  | { readonly kind: 'characters'; readonly set: Characters }
  | { readonly kind: 'position'; readonly body?: Part; readonly mustFollow?: boolean }
  | { readonly kind: 'sequence'; readonly parts: readonly Part[] }
  | { readonly kind: 'choice'; readonly options: readonly Part[] }
  | {
      readonly kind: 'repeat'
      readonly min: number
      readonly max: number
      readonly body: Part
      readonly isGroup: boolean
    }

/** Returns the maximum of a quantifier, or the minimum of an unbounded one, which ends where its characters end. */
export function boundOf({ min, max }: Part & { kind: 'repeat' }): number {
  return max === Number.POSITIVE_INFINITY ? min : max
}

/** The reason why a pattern is rejected, and the fix. */
export interface PatternProblem {
  readonly problem: string
  readonly fix: string
}

/** The error of a pattern that is rejected. */
export class RejectedPattern extends Error {
  readonly reason: PatternProblem

  constructor(problem: string, fix: string) {
    super(problem)
    this.reason = { problem, fix }
  }
}

/** Reads the source of a regular expression that is known to be valid. */
export class PatternParser {
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
      parts.push(this.#repeated())
    return parts.length === 1 ? (parts[0] as Part) : { kind: 'sequence', parts }
  }

  #repeated(): Part {
    const isGroup = this.#sees('(')
    const body = this.#atom()
    const bounds = this.#quantifier()
    if (bounds === undefined) return body
    this.#take('?')
    const [min, max] = bounds
    return { kind: 'repeat', min, max, body, isGroup }
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
        return { kind: 'position' }
      case '$':
        return { kind: 'position', body: { kind: 'characters', set: LINE_ENDS }, mustFollow: true }
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
    let mustFollow: boolean | undefined
    if (this.#take('?')) {
      if (this.#sees('<=') || this.#sees('<!'))
        throw new RejectedPattern(
          'must not have a lookbehind',
          'Match the characters before the secret as well.',
        )
      if (this.#take('=')) mustFollow = true
      else if (this.#take('!')) mustFollow = false
      else if (this.#take('<')) this.#at = this.#source.indexOf('>', this.#at) + 1
      else this.#at = this.#source.indexOf(':', this.#at) + 1
    }
    const body = this.#choice()
    this.#take(')')
    return mustFollow === undefined ? body : { kind: 'position', body, mustFollow }
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

  /** Adds both cases of letters. With the flag `u`, some characters beyond ASCII have an ASCII letter as their other case. */
  #folded(set: Characters): Characters {
    if (!this.#ignoresCase) return set
    const letters = set & (UPPER | LOWER)
    if (letters === NONE) return set
    return set | ((letters & UPPER) << 32n) | ((letters & LOWER) >> 32n) | (this.#unicode ? OTHER : NONE)
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

function backReference(): RejectedPattern {
  return new RejectedPattern('must not have a back-reference', 'Repeat the group instead.')
}
