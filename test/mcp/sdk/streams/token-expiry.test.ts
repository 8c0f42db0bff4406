import { expect } from 'chai'
import { endAtExpiry } from '../../../../src/mcp/sdk/streams/token-expiry.ts'

describe('endAtExpiry()', () => {
  for (const [when, seconds] of [
    ['when the token expires', 0.05],
    ['at once if the token has expired', -5],
  ] as const) {
    it(`endAtExpiry() ends a stream ${when}`, async () => {
      const expiresAt = Date.now() / 1000 + seconds
      await new Promise<void>((resolve) => endAtExpiry(expiresAt, resolve))
      // Timers of Node.js may fire up to a millisecond early.
      expect(Date.now()).to.be.at.least(expiresAt * 1000 - 2)
    })
  }

  for (const [title, expiresAt, stops] of [
    ['does not end a stream whose token does not expire', undefined, false],
    ['does not end a stream after its timer was stopped', Date.now() / 1000 - 5, true],
  ] as const) {
    it(`endAtExpiry() ${title}`, async () => {
      let ended = false
      const stop = endAtExpiry(expiresAt, () => {
        ended = true
      })
      if (stops) stop()
      await new Promise((resolve) => setTimeout(resolve, 5))
      expect(ended).to.equal(false)
      stop()
    })
  }
})
