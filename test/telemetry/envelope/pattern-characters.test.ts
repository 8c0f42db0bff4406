import { expect } from 'chai'
import {
  ALL,
  type Characters,
  characterOf,
  DIGITS,
  firstOf,
  LINE_ENDS,
  LOWER,
  range,
  SPACE,
  UPPER,
  WORD,
} from '../../../src/telemetry/envelope/pattern-characters.ts'

/** The code of all characters beyond ASCII. */
const BEYOND = 128
const CODES = Array.from({ length: BEYOND + 1 }, (_, code) => code)

/** Returns the codes of a set. */
const codesOf = (set: Characters): number[] => CODES.filter((code) => (set >> BigInt(code)) & 1n)

/** Returns the codes of the characters that a pattern matches. */
const matchedBy = (pattern: RegExp): number[] =>
  CODES.filter((code) => pattern.test(code === BEYOND ? '\u2028' : String.fromCharCode(code)))

describe('pattern characters', () => {
  for (const [name, set, pattern] of [
    ['ALL', ALL, /[\s\S]/],
    ['DIGITS', DIGITS, /\d/],
    ['UPPER', UPPER, /[A-Z]/],
    ['LOWER', LOWER, /[a-z]/],
    ['WORD', WORD, /\w/],
    ['SPACE', SPACE, /\s/],
    ['LINE_ENDS', LINE_ENDS, /[\n\r\u2028]/],
  ] as const) {
    it(`${name} contains the same characters as ${pattern}`, () => {
      expect(codesOf(set)).to.deep.equal(matchedBy(pattern))
    })
  }

  for (const [first, last, expected] of [
    [0, 0, [0]],
    [97, 97, [97]],
    [97, 99, [97, 98, 99]],
    [126, 127, [126, 127]],
    [127, 128, [127, BEYOND]],
    [127, 0x10_ff_ff, [127, BEYOND]],
    [128, 128, [BEYOND]],
    [200, 300, [BEYOND]],
  ] as const) {
    it(`range(${first}, ${last}) contains its first and its last character`, () => {
      expect(codesOf(range(first, last))).to.deep.equal(expected)
    })
  }

  for (const [code, expected] of [
    [0, 0],
    [97, 97],
    [126, 126],
    [127, 127],
    [128, BEYOND],
    [0x1f_600, BEYOND],
  ] as const) {
    it(`the character ${code} has the code ${expected} in a set`, () => {
      expect(codesOf(characterOf(code))).to.deep.equal([expected])
      expect(firstOf(characterOf(code))).to.equal(expected)
    })
  }
})
