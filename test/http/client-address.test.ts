import { expect } from 'chai'
import { clientKey } from '../../src/http/client-address.ts'
import { collectedHeap } from '../support/telemetry/recording.ts'

describe('clientKey()', () => {
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
