import { expect } from 'chai'
import { clientKey, firstIpAddress } from '../../../src/base/http/client-address.ts'
import { collectedHeap } from '../../support/telemetry/recording.ts'

describe('clientKey()', () => {
  for (const [address, key] of [
    ['203.0.113.7', '203.0.113.7'],
    [' 203.0.113.7 ', '203.0.113.7'],
    ['203.0.113.7:8080', '203.0.113.7'],
    ['2001:db8:1:2:3:4:5:6', '2001:db8:1:2::/64'],
    ['2001:DB8::1', '2001:db8:0:0::/64'],
    ['2001:db8:1:2:3:4:5::', '2001:db8:1:2::/64'],
    ['::1', '0:0:0:0::/64'],
    ['::', '0:0:0:0::/64'],
    ['1::', '1:0:0:0::/64'],
    ['1::2:3:4:5:6:7', '1:0:2:3::/64'],
    ['[2001:db8::1]', '2001:db8:0:0::/64'],
    ['[2001:db8::1]:443', '2001:db8:0:0::/64'],
    ['fe80::1%eth0', 'fe80:0:0:0::/64'],
    ['::ffff:203.0.113.7', '203.0.113.7'],
    ['::ffff:cb00:7107', '203.0.113.7'],
    ['::1:ffff:cb00:7107', '0:0:0:0::/64'],
    ['::fffe:cb00:7107', '0:0:0:0::/64'],
    ['203.0.113.7'.padEnd(128), '203.0.113.7'],
    ['203.0.113.7'.padEnd(129), undefined],
    ['::FFFF:C000:0201', '192.0.2.1'],
    ['[fe80::1%eth0]:443', 'fe80:0:0:0::/64'],
    ['::ffff:192.0.2.1%1', '192.0.2.1'],
    ['2001:db8::192.0.2.1', '2001:db8:0:0::/64'],
    ['192.0.2.1, 192.0.2.2', undefined],
    ['192.0.2.1:x', undefined],
    ['1'.repeat(100_000), undefined],
    ['1.2.3', undefined],
    ['[203.0.113.7', undefined],
    ['unknown', undefined],
    ['', undefined],
    [undefined, undefined],
  ] as const)
    it(`the key of ${JSON.stringify(address?.slice(0, 30))} of length ${address?.length ?? 0} is ${key}`, () => {
      expect(clientKey(address)).to.equal(key)
    })

  it('firstIpAddress() returns the first value that is an address, as it is', () => {
    expect(firstIpAddress(5, 'unknown', '[::1]:80', '203.0.113.7')).to.equal('[::1]:80')
    expect(firstIpAddress(undefined, '')).to.equal(undefined)
  })

  it('clientKey() does not keep the header in memory that contains the address', async function () {
    this.timeout(60_000)
    const before = await collectedHeap()
    const keys = Array.from({ length: 2_000 }, (_, index) => {
      const header = Buffer.from(`203.0.113.${100 + (index % 100)}, ${'x'.repeat(10_000)}`).toString()
      return clientKey(header.slice(0, '203.0.113.100'.length))
    })
    expect((await collectedHeap()) - before).to.be.below(5_000_000)
    expect(keys).to.have.lengthOf(2_000)
  })
})
