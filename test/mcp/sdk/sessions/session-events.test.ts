import type { JSONRPCMessage } from '@modelcontextprotocol/server'
import { expect } from 'chai'
import fc from 'fast-check'
import { SessionEvents } from '../../../../src/mcp/sdk/sessions/session-events.ts'

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

async function replayed(events: SessionEvents, after: string): Promise<JSONRPCMessage[]> {
  const messages: JSONRPCMessage[] = []
  await events.replayEventsAfter(after, { send: async (_id, message) => void messages.push(message) })
  return messages
}

describe('mcp: SessionEvents', () => {
  it('SessionEvents keeps at most maxBytes, and returns the latest events in order', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.string({ unit: 'grapheme', maxLength: 80 })),
        fc.integer({ min: 1, max: 5000 }),
        async (texts, maxBytes) => {
          const events = new SessionEvents(maxBytes)
          const ids: string[] = []
          for (const text of texts) {
            ids.push(await events.storeEvent('one', notification(text)))
            expect(events.bytes).to.be.at.most(maxBytes)
          }
          const sizes = texts
            .map((text) => bytesOf(notification(text)))
            .map((size) => (size <= maxBytes ? size : POSITION))
          const keptBytes = sizes.filter((_, index) => events.streamOf(ids[index] as string) !== undefined)
          expect(events.bytes).to.equal(keptBytes.reduce((sum, size) => sum + size, 0))
          const first = ids.findIndex((id) => events.streamOf(id) !== undefined)
          if (first < 0) return
          const kept = texts
            .slice(first + 1)
            .map(notification)
            .filter((message) => bytesOf(message) <= maxBytes)
          expect(await replayed(events, ids[first] as string)).to.deep.equal(kept)
        },
      ),
    )
  })

  it('SessionEvents keeps the position of an event that is too large, and an error instead of a response', async () => {
    const events = new SessionEvents(4 * OVERHEAD)
    const begin = await events.storeEvent('one', {} as JSONRPCMessage)
    const large = await events.storeEvent('one', notification('x'.repeat(3 * OVERHEAD)))
    await events.storeEvent('one', { jsonrpc: '2.0', id: 7, result: { text: 'x'.repeat(3 * OVERHEAD) } })
    const [answer, ...others] = await replayed(events, large)
    expect(answer).to.have.property('id', 7)
    expect(answer).to.have.nested.property('error.code', -32_603)
    expect(others).to.deep.equal([])
    expect(await replayed(events, begin)).to.have.length(1)
  })

  it('SessionEvents reports each change of its size, and drops the oldest event on request', async () => {
    let bytes = 0
    const events = new SessionEvents(3 * OVERHEAD, (change) => {
      bytes += change
    })
    expect(events.dropOldest()).to.equal(false)
    for (const text of ['one', 'two', 'é', 'x'.repeat(3 * OVERHEAD), 'four']) {
      await events.storeEvent('one', notification(text))
      expect(bytes).to.equal(events.bytes)
    }
    while (events.dropOldest()) expect(bytes).to.equal(events.bytes)
    expect(bytes).to.equal(0)
  })

  it('SessionEvents keeps at most 1,000 events', async () => {
    const events = new SessionEvents(1_000_000)
    const first = await events.storeEvent('one', {} as JSONRPCMessage)
    for (let time = 0; time < 1_000; time++) await events.storeEvent('one', notification(''))
    expect(events.streamOf(first)).to.equal(undefined)
    expect(await replayed(events, first)).to.deep.equal([])
  })

  it('SessionEvents replays nothing after an unknown event, and returns the stream of a known one', async () => {
    const events = new SessionEvents(10_000)
    const id = await events.storeEvent('one', notification('x'))
    await events.storeEvent('one', notification('y'))
    const send = async () => {}
    expect(await events.replayEventsAfter('unknown', { send: () => expect.fail('was sent') })).to.equal('')
    expect(await events.replayEventsAfter(id, { send })).to.equal('one')
    expect(await events.getStreamIdForEventId(id)).to.equal('one')
    expect(await events.getStreamIdForEventId('unknown')).to.equal(undefined)
  })

  it('SessionEvents returns the scopes that its streams need', async () => {
    const secret = notification('secret')
    const events = new SessionEvents(10_000)
    events.needScopes(secret, ['mcp:write'])
    const begin = await events.storeEvent('one', {} as JSONRPCMessage)
    expect(events.scopesAfter(await events.storeEvent('one', secret))).to.deep.equal(['mcp:write'])
    expect(events.scopesAfter(begin)).to.deep.equal([])
    events.restrict(begin, ['mcp:write'])
    expect(events.scopesAfter(begin)).to.deep.equal(['mcp:write'])
    events.restrict('unknown', ['mcp:write'])
    expect(events.scopesAfter('unknown')).to.deep.equal([])
  })
})
