import { expect } from 'chai'
import { backOffMs } from '../../../../src/telemetry/transports/queue/batch-queue-options.ts'

describe('backOffMs()', () => {
  for (const [minShare, failures, random, expected] of [
    [undefined, 1, 0, 0],
    [undefined, 1, 0.5, 250],
    [undefined, 1, 1, 500],
    [undefined, 2, 1, 1_000],
    [undefined, 6, 1, 16_000],
    [undefined, 7, 1, 30_000],
    [undefined, 2_000, 0.5, 15_000],
    [0.5, 1, 0, 250],
    [0.5, 1, 0.5, 375],
    [0.5, 1, 1, 500],
    [0.25, 3, 0.5, 1_250],
    [1, 2, 0.5, 1_000],
  ] as const) {
    it(`the back-off after ${failures} failures is ${expected} ms with minShare ${minShare} and the random number ${random}`, () => {
      expect(backOffMs({ firstMs: 500, maxMs: 30_000, minShare }, failures, random)).to.equal(expected)
    })
  }
})
