import { expect } from 'chai'
import { RefusalCounter } from '../../src/oauth/refusal-counter.ts'

describe('RefusalCounter', () => {
  const outcome = async (counter: RefusalCounter, key: string): Promise<unknown> =>
    await counter.consume(key).then(
      () => 'counted',
      (reason: unknown) => reason,
    )

  it('RefusalCounter rejects with the remaining time once the points of a client are used up', async () => {
    const counter = new RefusalCounter(2, 60)
    expect([await outcome(counter, 'a'), await outcome(counter, 'a')]).to.deep.equal(['counted', 'counted'])
    const { msBeforeNext } = (await outcome(counter, 'a')) as { msBeforeNext: number }
    expect(msBeforeNext).to.be.within(55_000, 60_000)
    expect(await outcome(counter, 'b')).to.equal('counted')
  })

  it('RefusalCounter starts again when the period is over', async () => {
    const counter = new RefusalCounter(1, 0.001)
    expect(await outcome(counter, 'a')).to.equal('counted')
    const until = performance.now() + 2
    while (performance.now() < until);
    expect(await outcome(counter, 'a')).to.equal('counted')
  })

  it('RefusalCounter supports the longest period that can be configured, which exceeds timers', async () => {
    const counter = new RefusalCounter(1, 2_147_483_647)
    expect(await outcome(counter, 'a')).to.equal('counted')
    await new Promise((resolve) => setImmediate(resolve))
    expect(await outcome(counter, 'a')).to.have.property('msBeforeNext')
  })

  it('RefusalCounter drops the least recently refused client beyond 100,000 clients', async () => {
    const counter = new RefusalCounter(1, 60)
    for (let client = 0; client < 100_000; client++) await counter.consume(`client ${client}`)
    expect(await outcome(counter, 'client 0')).to.have.property('msBeforeNext')
    await counter.consume('one more')
    expect(await outcome(counter, 'client 0')).to.have.property('msBeforeNext')
    expect(await outcome(counter, 'client 1')).to.equal('counted')
  })

  it('RefusalCounter starts a new period at the very end of the previous one', async () => {
    const { now } = performance
    try {
      const counter = new RefusalCounter(1, 60)
      performance.now = () => 1_000
      expect(await outcome(counter, 'a')).to.equal('counted')
      performance.now = () => 60_999
      expect(await outcome(counter, 'a')).to.deep.equal({ msBeforeNext: 1 })
      performance.now = () => 61_000
      expect(await outcome(counter, 'a')).to.equal('counted')
    } finally {
      performance.now = now
    }
  })
})
