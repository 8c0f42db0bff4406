import { fuzzGate } from '../support/authorization-fuzz.ts'

describe('a million random Authorization headers', () => {
  it('a million random Authorization headers are rejected if they have no valid token', async function () {
    this.timeout(600_000)
    for (let part = 0; part < 100; part++) await fuzzGate(10_000, 1_000 + part)
  })
})
