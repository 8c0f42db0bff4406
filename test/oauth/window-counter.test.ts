import { expect } from 'chai'
import { WindowCounter } from '../../src/oauth/window-counter.ts'

describe('WindowCounter', () => {
  it('WindowCounter counts each key by itself, and reports the rest of its period', () => {
    const counter = new WindowCounter(10)
    const first = counter.add('a', 60_000)
    expect(first.points).to.equal(1)
    expect(first.leftMs).to.be.within(55_000, 60_000)
    const second = counter.add('a', 60_000)
    expect(second.points).to.equal(2)
    expect(second.leftMs).to.be.within(50_000, 60_000)
    expect(counter.add('b', 60_000).points).to.equal(1)
  })

  it('WindowCounter starts again when the period of a key is over', () => {
    const counter = new WindowCounter(10)
    counter.add('a', 0)
    expect(counter.add('a', 60_000).points).to.equal(1)
  })

  it('WindowCounter drops the key that was not counted for the longest time beyond its maximum', () => {
    const counter = new WindowCounter(2)
    for (const key of ['a', 'b', 'a', 'c']) counter.add(key, 60_000)
    expect(counter.size).to.equal(2)
    expect(counter.add('a', 60_000).points).to.equal(3)
    expect(counter.add('b', 60_000).points).to.equal(1)
  })
})
