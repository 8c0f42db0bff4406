import { expect } from 'chai'
import { didYouMean, nearestName } from '../../../src/base/options/nearest-name.ts'

const long = 'a'.repeat(255)

describe('nearestName()', () => {
  for (const [what, name, known, nearest] of [
    ['a letter too few', 'isuer', ['issuer', 'resource'], 'issuer'],
    ['another case', 'ISSUER', ['issuer'], 'issuer'],
    ['a known name in another case', 'issuer', ['ISSUER'], 'ISSUER'],
    ['its first two of three letters swapped', 'bac', ['abc'], 'abc'],
    ['its last two of three letters swapped', 'acb', ['abc'], 'abc'],
    ['both of its letters swapped', 'ba', ['ab'], 'ab'],
    ['two letters swapped rather than one replaced', 'abc', ['abd', 'acb'], 'acb'],
    ['one of three letters replaced', 'abx', ['abc'], 'abc'],
    ['two of three letters replaced', 'axx', ['abc'], undefined],
    ['two of six letters replaced', 'abcdxx', ['abcdef'], 'abcdef'],
    ['three of six letters replaced', 'abcxxx', ['abcdef'], undefined],
    ['three of seven letters replaced', 'abcdxxx', ['abcdefg'], 'abcdefg'],
    ['three of twelve letters replaced', 'abcdefghixxx', ['abcdefghijkl'], 'abcdefghijkl'],
    ['four of twelve letters replaced', 'abcdefghxxxx', ['abcdefghijkl'], undefined],
    ['a length of 256', `${long}a`, [`${long}b`], `${long}b`],
    ['a length of 257', `${long}aa`, [`${long}ab`], undefined],
    ['no letters', '', ['a'], undefined],
    ['no known names', 'a', [], undefined],
  ] as const)
    it(`a name with ${what} stands for ${nearest?.slice(0, 20) ?? 'no known one'}`, () => {
      expect(nearestName(name, known)).to.equal(nearest)
      expect(didYouMean(name, known)).to.equal(nearest === undefined ? '' : ` Did you mean '${nearest}'?`)
    })
})
