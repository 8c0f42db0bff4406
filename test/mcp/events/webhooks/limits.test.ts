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

  it('one host, one owner, and all together have a maximum of running messages', () => {
    const limits = new HostLimits(() => 0)
    const enterAll = (count: number, of: (index: number) => [string, string]) =>
      Array.from({ length: count }, (_, index) => limits.enter(...of(index))).filter((wait) => wait === 0)
        .length
    expect(enterAll(20, (index) => ['one', `owner ${index}`])).to.equal(8)
    expect(enterAll(30, (index) => [`host ${index}`, 'one'])).to.equal(16)
    expect(enterAll(100, (index) => [`h ${index}`, `o ${index}`])).to.equal(40)
    expect(limits.free).to.equal(0)
    limits.leave('one', 'owner 0', true)
    expect(limits.enter('one', 'owner 0')).to.equal(0)
    expect(limits.enter('one', 'owner 0')).to.be.greaterThan(0)
  })

  it('a host that does not respond five times gets a pause, then one message at a time, until it responds', () => {
    let now = 0
    const limits = new HostLimits(() => now)
    const fail = () => {
      expect(limits.enter('down', 'o')).to.equal(0)
      limits.leave('down', 'o', false)
    }
    for (let index = 0; index < 5; index++) fail()
    expect(limits.enter('down', 'o')).to.equal(5_000)
    expect(limits.enter('up', 'o')).to.equal(0)
    now = 5_000
    expect(limits.enter('down', 'o')).to.equal(0)
    expect(limits.enter('down', 'o')).to.equal(250)
    limits.leave('down', 'o', false)
    expect(limits.enter('down', 'o')).to.equal(10_000)
    for (let index = 0; index < 10; index++) {
      now += 60_000
      fail()
    }
    expect(limits.enter('down', 'o')).to.equal(60_000)
    now += 60_000
    expect(limits.enter('down', 'o')).to.equal(0)
    limits.leave('down', 'o', true)
    for (let index = 0; index < 4; index++) fail()
    expect(limits.enter('down', 'o')).to.equal(0)
  })

  it('the state of hosts that fail is bounded', () => {
    const limits = new HostLimits(() => 0)
    for (let index = 0; index < 20_000; index++) {
      limits.enter(`h${index}`, 'o')
      limits.leave(`h${index}`, 'o', false)
    }
    expect(limits.free).to.equal(64)
    expect(limits.enter('h0', 'o')).to.equal(0)
  })
})
