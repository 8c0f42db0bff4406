import { expect } from 'chai'
import { RefusalCounter } from '../../src/oauth/refusal-counter.ts'

describe('RefusalCounter', () => {
  const outcome = async (counter: RefusalCounter, key: string): Promise<unknown> =>
    await counter.consume(key).then(
      () => 'counted',
      (reason: unknown) => reason,
    )

  it('rejects with the time left once the points of a client are used up', async () => {
    const counter = new RefusalCounter(2, 60)
    expect([await outcome(counter, 'a'), await outcome(counter, 'a')]).to.deep.equal(['counted', 'counted'])
    const { msBeforeNext } = (await outcome(counter, 'a')) as { msBeforeNext: number }
    expect(msBeforeNext).to.be.within(59_000, 60_000)
    expect(await outcome(counter, 'b')).to.equal('counted')
  })

  it('starts anew when the time is over', async () => {
    const counter = new RefusalCounter(1, 0.001)
    expect(await outcome(counter, 'a')).to.equal('counted')
    const until = performance.now() + 2
    while (performance.now() < until);
    expect(await outcome(counter, 'a')).to.equal('counted')
  })

  it('holds for the longest time that can be configured, which no timer takes', async () => {
    const counter = new RefusalCounter(1, 2_147_483_647)
    expect(await outcome(counter, 'a')).to.equal('counted')
    await new Promise((resolve) => setImmediate(resolve))
    expect(await outcome(counter, 'a')).to.have.property('msBeforeNext')
  })

  it('forgets the client that was not refused for the longest, beyond 100,000 clients', async () => {
    const counter = new RefusalCounter(1, 60)
    for (let client = 0; client < 100_000; client++) await counter.consume(`client ${client}`)
    expect(await outcome(counter, 'client 0')).to.have.property('msBeforeNext')
    await counter.consume('one more')
    expect(await outcome(counter, 'client 0')).to.have.property('msBeforeNext')
    expect(await outcome(counter, 'client 1')).to.equal('counted')
  })
})
