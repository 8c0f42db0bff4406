import { expect } from 'chai'
import { parsedBytes } from '../../../src/mcp/wire/json-cost.ts'

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

  it('parsedBytes() reads a string that does not end', () => {
    expect(parsedBytes(`"${'{'.repeat(5_000)}`)).to.equal(10_002)
  })
})
