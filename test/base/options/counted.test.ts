import { expect } from 'chai'
import { counted } from '../../../src/base/options/counted.ts'

describe('counted', () => {
  for (const [count, noun, text] of [
    [0, 'event', '0 events'],
    [1, 'event', '1 event'],
    [2, 'event', '2 events'],
    [1, 'more place', '1 more place'],
  ] as const) {
    it(`${count} with the noun ${noun} is "${text}"`, () => {
      expect(counted(count, noun)).to.equal(text)
    })
  }
})
