import { fuzzGate } from '../support/authorization-fuzz.ts'

describe('a million random Authorization headers', () => {
  it('are all rejected without a valid token', async function () {
    this.timeout(600_000)
    for (let part = 0; part < 100; part++) await fuzzGate(10_000, 1_000 + part)
  })
})
