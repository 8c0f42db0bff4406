import type { JSONRPCMessage } from '@modelcontextprotocol/server'
import { expect } from 'chai'
import fc from 'fast-check'
import { SessionEvents } from '../../../../src/mcp/sdk/sessions/session-events.ts'
import { eventsOf } from '../../../support/mcp/wire.ts'

const notification = (text: string): JSONRPCMessage => ({
  jsonrpc: '2.0',
  method: 'notifications/message',
  params: { text },
})

/** The bytes of an event besides its JSON. */
const OVERHEAD = 600

/** The bytes of an event without JSON. */
const POSITION = 200

const bytesOf = (message: JSONRPCMessage): number => OVERHEAD + Buffer.byteLength(JSON.stringify(message))

const STREAM = 1

/** Keeps a message. @returns its id */
function kept(events: SessionEvents, message?: JSONRPCMessage, scopes: readonly string[] = []): string {
  return /^id: (\S+)$/m.exec(events.store(STREAM, scopes, message))?.[1] as string
}

function replayed(events: SessionEvents, after: string): JSONRPCMessage[] {
  return events.after(after).flatMap(eventsOf)
}

describe('mcp: SessionEvents', () => {
  it('SessionEvents keeps at most maxBytes, and returns the latest events in order', () => {
    fc.assert(
      fc.property(
        fc.array(fc.string({ unit: 'grapheme', maxLength: 80 })),
        fc.integer({ min: 1, max: 5000 }),
        (texts, maxBytes) => {
          const events = new SessionEvents(maxBytes)
          const ids: string[] = []
          for (const text of texts) {
            ids.push(kept(events, notification(text)))
            expect(events.bytes).to.be.at.most(maxBytes)
          }
          const sizes = texts
            .map((text) => bytesOf(notification(text)))
            .map((size) => (size <= maxBytes ? size : POSITION))
          const keptBytes = sizes.filter((_, index) => events.streamOf(ids[index] as string) !== undefined)
          expect(events.bytes).to.equal(keptBytes.reduce((sum, size) => sum + size, 0))
          const first = ids.findIndex((id) => events.streamOf(id) !== undefined)
          if (first < 0) return
          const expected = texts
            .slice(first + 1)
            .map(notification)
            .filter((message) => bytesOf(message) <= maxBytes)
          expect(replayed(events, ids[first] as string)).to.deep.equal(expected)
        },
      ),
    )
  })

  it('SessionEvents keeps the position of an event that is too large, and an error instead of a response', () => {
    const events = new SessionEvents(4 * OVERHEAD)
    const begin = kept(events)
    const large = kept(events, notification('x'.repeat(3 * OVERHEAD)))
    kept(events, { jsonrpc: '2.0', id: 7, result: { text: 'x'.repeat(3 * OVERHEAD) } })
    const [answer, ...others] = replayed(events, large)
    expect(answer).to.have.property('id', 7)
    expect(answer).to.have.nested.property('error.code', -32_603)
    expect(others).to.deep.equal([])
    expect(replayed(events, begin)).to.have.length(1)
  })

  it('SessionEvents reports each event that it keeps, and drops the oldest event on request', () => {
    let reports = 0
    const events = new SessionEvents(3 * OVERHEAD, () => reports++)
    expect(events.dropOldest()).to.equal(0)
    for (const text of ['one', 'two', 'é', 'x'.repeat(3 * OVERHEAD), 'four']) kept(events, notification(text))
    expect(reports).to.equal(5)
    let left = events.bytes
    for (let dropped = events.dropOldest(); dropped > 0; dropped = events.dropOldest()) {
      left -= dropped
      expect(events.bytes).to.equal(left)
    }
    expect(left).to.equal(0)
  })

  it('SessionEvents keeps at most 1,000 events', () => {
    const events = new SessionEvents(1_000_000)
    const first = kept(events)
    for (let time = 0; time < 1_000; time++) kept(events, notification(''))
    expect(events.streamOf(first)).to.equal(undefined)
    expect(replayed(events, first)).to.deep.equal([])
  })

  it('SessionEvents replays nothing after an unknown event, and no messages of other streams', () => {
    const events = new SessionEvents(10_000)
    const id = kept(events, notification('x'))
    events.store(STREAM + 1, [], notification('of another stream'))
    kept(events, notification('y'))
    expect(replayed(events, 'unknown')).to.deep.equal([])
    expect(replayed(events, id)).to.deep.equal([notification('y')])
    expect(events.after(id, () => false)).to.deep.equal([])
    expect([events.streamOf(id), events.streamOf('unknown')]).to.deep.equal([STREAM, undefined])
  })

  it('SessionEvents returns the scopes that its streams need', () => {
    const events = new SessionEvents(10_000)
    const [begin, secret] = [kept(events), kept(events, notification('secret'), ['mcp:write'])]
    expect(events.scopesAfter(secret)).to.deep.equal(['mcp:write'])
    expect(events.scopesAfter(begin)).to.deep.equal([])
    expect(events.scopesAfter('unknown')).to.deep.equal([])
  })
})
