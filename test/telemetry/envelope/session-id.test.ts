import { mock } from 'node:test'
import { expect } from 'chai'
import { createSessionId } from '../../../src/telemetry/envelope/session-id.ts'

describe('createSessionId()', () => {
  const ids = Array.from({ length: 3_000 }, createSessionId)

  it('createSessionId() makes ids that sort in the order in which they were made, also more than fit into a millisecond', () => {
    const now = Date.now() + 1_000
    mock.timers.enable({ apis: ['Date'], now })
    try {
      // Without the random part, the counter distinguishes the ids of one millisecond.
      const many = Array.from({ length: 2 * 32_768 + 10 }, () => createSessionId().slice(4, 17))
      expect(many.toSorted()).to.deep.equal(many)
      expect(new Set(many).size).to.equal(many.length)
    } finally {
      mock.timers.reset()
    }
  })

  it('createSessionId() returns ids whose last 13 characters are random', () => {
    const tails = ids.map((id) => id.slice(-13))
    expect(new Set(tails).size).to.equal(ids.length)
    // Of 3 000 ids, about 94 have a certain character in a certain place.
    for (let at = 0; at < 13; at++) {
      const counts = new Map<string, number>()
      for (const tail of tails) counts.set(tail[at] as string, (counts.get(tail[at] as string) ?? 0) + 1)
      expect(counts.size).to.equal(32)
      expect(Math.max(...counts.values())).to.be.below(250)
    }
  })
})
