import { expect } from 'chai'
import { HostLimits } from '../../../../src/mcp/events/webhooks/host-limits.ts'
import { MAX_ATTEMPTS, retryDelayMs } from '../../../../src/mcp/events/webhooks/retry-delay.ts'

describe('mcp/events/webhooks: limits', () => {
  it('the wait after a failed attempt triples up to an hour, with jitter downward, and ends after the last attempt', () => {
    const longest = Array.from({ length: MAX_ATTEMPTS - 1 }, (_, index) =>
      retryDelayMs(index + 1, undefined, () => 1),
    )
    expect(longest).to.deep.equal([5e3, 15e3, 45e3, 135e3, 405e3, 1_215e3, 3_600e3, 3_600e3, 3_600e3])
    expect(retryDelayMs(1, undefined, () => 0)).to.equal(2_500)
    expect(retryDelayMs(MAX_ATTEMPTS, undefined)).to.equal(undefined)
  })

  it('an endpoint can ask for a longer wait, of at most an hour, and not for a shorter one', () => {
    expect(retryDelayMs(1, 60_000)).to.equal(60_000)
    expect(retryDelayMs(1, 0, () => 1)).to.equal(5_000)
    expect(retryDelayMs(1, Number.MAX_SAFE_INTEGER)).to.equal(3_600_000)
  })

  it('one owner and all together have a maximum of messages, and those beyond it come back', () => {
    const limits = new HostLimits(() => 0)
    const places = (count: number, of: (index: number) => [string, string]) =>
      Array.from({ length: count }, (_, index) => limits.enter(...of(index))).filter((wait) => wait === 0)
        .length
    expect(places(30, (index) => [`host ${index}`, 'one'])).to.equal(16)
    expect(limits.busy).to.deep.equal({ hosts: [], owners: ['one'] })
    expect(places(100, (index) => [`h ${index}`, `o ${index}`])).to.equal(48)
    expect(limits.free).to.equal(0)
    expect(limits.enter('another', 'another')).to.equal(250)
    limits.leave('host 0', 'one', true)
    expect(limits.enter('host 0', 'one')).to.equal(0)
  })

  it('a ninth message to one host waits until another one has ended', async () => {
    const limits = new HostLimits(() => 0)
    for (let index = 0; index < 8; index++) expect(limits.enter('one', `o${index}`)).to.equal(0)
    expect(limits.busy.hosts).to.deep.equal(['one'])
    const ninth = limits.enter('one', 'late')
    expect(ninth).to.be.instanceOf(Promise)
    limits.leave('one', 'o0', true)
    expect(await ninth).to.equal(0)
    for (const owner of ['late', ...Array.from({ length: 7 }, (_, index) => `o${index + 1}`)])
      limits.leave('one', owner, true)
    expect([limits.free, limits.busy]).to.deep.equal([64, { hosts: [], owners: [] }])
  })

  it('a host that does not respond five times gets a pause, then one message at a time, until it responds', async () => {
    let now = 0
    const limits = new HostLimits(() => now)
    const fail = () => {
      expect(limits.enter('down', 'o')).to.equal(0)
      limits.leave('down', 'o', false)
    }
    for (let index = 0; index < 5; index++) fail()
    expect(limits.enter('down', 'o')).to.equal(5_000)
    expect(limits.busy.hosts).to.deep.equal(['down'])
    expect(limits.enter('up', 'o')).to.equal(0)
    now = 5_000
    expect(limits.enter('down', 'o')).to.equal(0)
    const second = limits.enter('down', 'o')
    limits.leave('down', 'o', false)
    expect(await second).to.equal(10_000)
    expect(limits.enter('down', 'o')).to.equal(10_000)
    for (let index = 0; index < 10; index++) {
      now += 60_000
      fail()
    }
    expect(limits.enter('down', 'o')).to.equal(60_000)
    now += 60_000
    expect(limits.enter('down', 'o')).to.equal(0)
    const next = [limits.enter('down', 'o'), limits.enter('down', 'o')]
    limits.leave('down', 'o', true)
    expect(await Promise.all(next)).to.deep.equal([0, 0])
    for (let index = 0; index < 2; index++) limits.leave('down', 'o', true)
    for (let index = 0; index < 4; index++) fail()
    expect(limits.enter('down', 'o')).to.equal(0)
  })

  it('the state of hosts that fail is bounded', () => {
    const limits = new HostLimits(() => 0)
    for (let index = 0; index < 20_000; index++) {
      expect(limits.enter(`h${index}`, 'o')).to.equal(0)
      limits.leave(`h${index}`, 'o', false)
    }
    expect(limits.free).to.equal(64)
    expect(limits.enter('h0', 'o')).to.equal(0)
  })
})
