import { expect } from 'chai'
import { printableLine, quote, quoteAll, quoteValue } from '../../cli/doctor/quote.ts'

describe('quote()', () => {
  for (const [what, text, quoted] of [
    ['160 characters', 'x'.repeat(160), 'x'.repeat(160)],
    ['161 characters', 'x'.repeat(161), `${'x'.repeat(160)}…`],
    ['160 characters of two code units', '🎉'.repeat(160), '🎉'.repeat(160)],
    ['161 characters of two code units', '🎉'.repeat(161), `${'🎉'.repeat(160)}…`],
    ['control characters and direction marks', 'a\u001b\u202e\r\n\tb\u2028c', 'a b c'],
    ['spaces around it', '  a  b  ', 'a b'],
    ['640 characters, most of them spaces', `a${' '.repeat(638)}b`, 'a b'],
    ['641 characters, most of them spaces', `a${' '.repeat(639)}b`, 'a…'],
    ['no characters', '', ''],
  ] as const)
    it(`a quote of ${what} is "${quoted.slice(0, 5)}" of length ${quoted.length}`, () => {
      expect(quote(text)).to.equal(quoted)
    })

  it('a line has at most 4,000 characters', () => {
    expect(printableLine('x'.repeat(4_000))).to.equal('x'.repeat(4_000))
    expect(printableLine('x'.repeat(4_001))).to.equal(`${'x'.repeat(4_000)}…`)
  })

  for (const [value, quoted] of [
    [undefined, 'nothing'],
    [null, 'null'],
    ['a b', 'a b'],
    [5, '5'],
    [{ a: [1] }, '{"a":[1]}'],
    [JSON.parse(`${'['.repeat(100_000)}${']'.repeat(100_000)}`), 'a deeply nested value'],
  ] as const)
    it(`a quoted value is "${quoted}"`, () => expect(quoteValue(value)).to.equal(quoted))

  it('up to twelve values are quoted, and the others are counted', () => {
    const values = Array.from({ length: 14 }, (_, index) => index)
    const twelve = '0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11'
    expect(quoteAll(values.slice(0, 12))).to.equal(twelve)
    expect(quoteAll(values.slice(0, 13))).to.equal(`${twelve} and 1 more`)
    expect(quoteAll(values)).to.equal(`${twelve} and 2 more`)
    expect(quoteAll([])).to.equal('')
  })
})
