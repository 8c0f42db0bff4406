import { expect } from 'chai'
import { endOfString, parsedBytes } from '../../../src/mcp/wire/json-cost.ts'

describe('parsedBytes()', () => {
  const COUNT = 10_000
  const listOf = (item: string): string => `[${Array.from({ length: COUNT }, () => item).join(',')}]`

  for (const [what, item, least] of [
    ['empty objects', '{}', 64],
    ['empty arrays', '[]', 40],
    ['objects with a member', '{"a":1}', 64],
    ['numbers', '0', 8],
  ] as const) {
    it(`parsedBytes() counts at least the memory of ${what}`, () => {
      expect(parsedBytes(listOf(item)) / COUNT).to.be.at.least(least)
    })
  }

  for (const [what, content] of [
    ['brackets', '{[,:]}'.repeat(1_000)],
    ['escaped quotation marks', '"'.repeat(5_000)],
    ['backslashes before its end', '\\'.repeat(5_001)],
  ] as const) {
    it(`parsedBytes() does not count ${what} within a string`, () => {
      const text = JSON.stringify([content, 0])
      expect(parsedBytes(text) - 2 * text.length).to.equal(64)
    })
  }

  for (const [what, text, bytes] of [
    ['a text of 2,047 characters', `[${' '.repeat(2_045)}]`, 4_094],
    ['a text of 2,048 characters', `[${' '.repeat(2_046)}]`, 4_096 + 48],
    ['an object with two members', `{"a":1,"b":[]${' '.repeat(2_034)}}`, 4_096 + 64 + 24 + 16 + 24 + 48],
  ] as const)
    it(`parsedBytes() counts ${bytes} bytes for ${what}`, () => {
      expect(parsedBytes(text)).to.equal(bytes)
    })

  for (const [text, start, end] of [
    ['"ab"', 0, 3],
    ['x"a"b"', 1, 3],
    ['"a\\"b"', 0, 5],
    ['"a\\\\"b"', 0, 4],
    ['"a\\\\\\"b"', 0, 7],
    ['""', 0, 1],
    ['"abc', 0, 4],
  ] as const)
    it(`endOfString() returns ${end} for ${text} from ${start}`, () => {
      expect(endOfString(text, start)).to.equal(end)
    })

  it('parsedBytes() reads a string that does not end', () => {
    expect(parsedBytes(`"${'{'.repeat(5_000)}`)).to.equal(10_002)
  })
})
