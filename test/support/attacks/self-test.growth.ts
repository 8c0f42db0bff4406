import { expect } from 'chai'
import { FreshItems } from '../../../src/telemetry/transports/queue/batch.ts'
import { expectLinearGrowth } from './growth.ts'

/** Keeps `size` objects. The garbage collector copies them. */
const keep = (size: number): unknown => Array.from({ length: size }, (_, index) => ({ index, list: [index] }))

/** Counts steps in the compiled sources: `FreshItems` makes a batch of all items for each one. */
function quadraticSteps(size: number): void {
  const fresh = new FreshItems<number>()
  const outcome = { delivered() {}, failed() {} }
  for (let item = 0; item < size; item++) {
    fresh.add({ item, weight: 1, addedMs: 0, generation: { number: 0, count: 1 }, outcome })
    for (const one of fresh.take(size, size)) fresh.add(one)
  }
}

describe('expectLinearGrowth()', () => {
  it('quadratic steps do not pass', () => {
    // V8 does not count in a function that it compiled before. Its time shows the growth then.
    expect(() => expectLinearGrowth(quadraticSteps, 250)).to.throw(/steps|more than linear growth/)
  })

  it('a regular expression that takes quadratic time does not pass if larger inputs are rejected', () => {
    const search = (size: number) => size > 16_000 || /a+b/.test('a'.repeat(size))
    expect(() => expectLinearGrowth(search, 4_000)).to.throw('more than linear')
  })

  it('linear work that keeps many objects passes', () => {
    expectLinearGrowth(keep, 50_000)
  })
})
