import fc from 'fast-check'

const FIRST_SURROGATE = 0xd800
const SURROGATES = 0x800

/**
 * The characters of Unicode without lone surrogates, as the unit of `fc.string`. They are those of the unit `binary`, for
 * which fast-check builds a table of all of them. That takes a second in each process.
 */
export const anyCharacter = fc.integer({ min: 0, max: 0x10ffff - SURROGATES }).map(
  (index) => String.fromCodePoint(index < FIRST_SURROGATE ? index : index + SURROGATES),
  (character) => {
    const codePoint = typeof character === 'string' ? character.codePointAt(0) : undefined
    if (codePoint === undefined || String.fromCodePoint(codePoint) !== character)
      throw new TypeError('The value is not a character')
    return codePoint < FIRST_SURROGATE ? codePoint : codePoint - SURROGATES
  },
)
