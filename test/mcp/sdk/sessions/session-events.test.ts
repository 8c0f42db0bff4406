import { expect } from 'chai'
import { SessionEvents } from '../../../../src/mcp/sdk/sessions/session-events.ts'

describe('SessionEvents', () => {
  for (const [maxBytes, max] of [
    [1_000, 5],
    [1_000_000, 1_000],
  ] as const)
    it(`with ${maxBytes} bytes, the latest ${max} positions are kept`, () => {
      const events = new SessionEvents(maxBytes)
      const ids = Array.from({ length: max + 1 }, () => String(/^id: (\S+)/.exec(events.store(1, []))?.[1]))
      expect(ids.filter((id) => events.find(id) !== undefined)).to.deep.equal(ids.slice(1))
    })
})
