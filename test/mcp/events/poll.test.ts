import { expect } from 'chai'
import { memoryEventStore } from '../../../src/mcp/events/memory-event-store.ts'
import { ERAS, serveEvents } from '../../support/mcp/events.ts'
import { send } from '../../support/mcp/wire.ts'

describe('events/poll', () => {
  for (const [era, request] of Object.entries(ERAS))
    it(`a client of ${era} polls the events since its cursor, each once`, async () => {
      const { adapter, port } = await serveEvents()
      const poll = async (cursor: unknown) => {
        const params = { name: 'incident', arguments: {}, cursor }
        const { result } = (await send(port, request('events/poll', params, { authorization: 'Bearer ada' })))
          .message
        return result
      }
      await adapter.events.emit('incident', { id: 1 })
      const first = await poll(null)
      expect(first).to.deep.include({ events: [], truncated: false, hasMore: false, nextPollMs: 5000 })
      const { eventId } = await adapter.events.emit('incident', { id: 2 })
      const second = await poll(first.cursor)
      expect(second.events).to.have.length(1)
      const [{ timestamp, ...event }] = second.events
      expect(event).to.deep.equal({ eventId, name: 'incident', data: { id: 2 } })
      expect(Date.now() - Date.parse(timestamp)).to.be.within(0, 60_000)
      expect((await poll(second.cursor)).events).to.deep.equal([])
      expect((await poll(first.cursor)).events).to.deep.equal(second.events)
    })

  async function polledAfter(
    emit: (server: Awaited<ReturnType<typeof serveEvents>>) => Promise<unknown>,
    params: object,
    options = {},
  ) {
    const server = await serveEvents(options)
    const poll = (more: object) => server.ask('ada', 'events/poll', { name: 'incident', ...more })
    const { cursor } = await poll({})
    await emit(server)
    return { page: await poll({ cursor, ...params }), poll, cursor }
  }

  it('maxEvents limits a page, whose cursor leads to the rest', async () => {
    const { page, poll } = await polledAfter(
      async ({ adapter }) => {
        for (let id = 0; id < 3; id++) await adapter.events.emit('incident', { id })
      },
      { maxEvents: 2 },
    )
    expect(page.events.map((event: any) => event.data.id)).to.deep.equal([0, 1])
    expect(page.hasMore).to.equal(true)
    const rest = await poll({ cursor: page.cursor })
    expect(rest.events.map((event: any) => event.data.id)).to.deep.equal([2])
    expect(rest.hasMore).to.equal(false)
  })

  it('maxAgeMs leaves out older events, and says truncated', async () => {
    const { page } = await polledAfter(
      async ({ adapter }) => {
        await adapter.events.emit('incident', { id: 1 })
        const startedAt = Date.now()
        while (Date.now() - startedAt < 5) await new Promise(setImmediate)
      },
      { maxAgeMs: 1 },
    )
    expect(page).to.deep.include({ events: [], truncated: true })
  })

  it('a cursor whose events were dropped for the size of the log gets the rest, and truncated', async () => {
    const { page, poll } = await polledAfter(
      async ({ adapter }) => {
        for (let id = 0; id < 20; id++) await adapter.events.emit('incident', { id })
      },
      {},
      { events: { store: memoryEventStore({ maxLogBytes: 4_000 }) } },
    )
    expect(page.truncated).to.equal(true)
    expect(page.events.at(-1).data.id).to.equal(19)
    expect(page.events.length).to.be.within(1, 10)
    expect((await poll({ cursor: page.cursor })).truncated).to.equal(false)
  })

  for (const [title, cursor] of [
    ['of another store', 'aaaaaaaa.1'],
    ['that was never issued', 'x'],
    ['beyond the newest event', undefined],
  ] as const)
    it(`a cursor ${title} gets truncated and a fresh cursor, never an error`, async () => {
      const { poll, cursor: own } = await polledAfter(async () => undefined, {})
      const page = await poll({ cursor: cursor ?? `z${own.slice(1)}` })
      expect(page.truncated).to.equal(true)
      expect((await poll({ cursor: page.cursor })).truncated).to.equal(false)
    })

  for (const [where, positionOf, truncated] of [
    ['at the beginning of the log', () => 0, true],
    ['before the newest position', (newest: number) => newest - 1, true],
    ['at the newest position', (newest: number) => newest, false],
    ['beyond the newest position', (newest: number) => newest + 2, true],
  ] as const)
    it(`a new subscription with a cursor ${where} gets truncated ${truncated}`, async () => {
      const { adapter, ask } = await serveEvents()
      for (const id of [1, 2]) await adapter.events.emit('incident', { id })
      const { cursor } = await ask('bob', 'events/poll', { name: 'incident' })
      const position = positionOf(Number.parseInt(cursor, 36)).toString(36)
      const params = { name: 'incident', arguments: { severity: 'P1' }, cursor: position }
      expect(await ask('ada', 'events/poll', params)).to.deep.include({ truncated })
    })

  for (const [title, params, code, data] of [
    ['an unknown name', { name: 'nope' }, -32011, { kind: 'event' }],
    ['no name', { name: undefined }, -32602, undefined],
    ['arguments that the schema rejects', { arguments: { severity: 1 } }, -32602, undefined],
    ['arguments that are not an object', { arguments: [] }, -32602, undefined],
    ['a cursor that is not a string', { cursor: 1 }, -32602, undefined],
    ['a negative maxAgeMs', { maxAgeMs: -1 }, -32602, undefined],
    ['maxEvents of 0', { maxEvents: 0 }, -32602, undefined],
  ] as const)
    it(`a poll with ${title} gets the error ${code}`, async () => {
      const { ask } = await serveEvents()
      const error = await ask('ada', 'events/poll', { name: 'incident', arguments: {}, ...params })
      expect(error).to.deep.include({ code })
      expect(error.data).to.deep.equal(data)
    })

  it('an event type without a delivery answers its method with -32014, and names the delivery', async () => {
    const { ask } = await serveEvents()
    const error = await ask('ada', 'events/stream', { name: 'polled' })
    expect(error).to.deep.include({ code: -32014, data: { feature: 'deliveryMode', value: 'push' } })
  })

  it('a poll without the scopes of its event type gets the challenge for them', async () => {
    const { send: sendTo } = await serveEvents()
    const { status, headers } = await sendTo('ada', 'events/poll', { name: 'secret' })
    expect(status).to.equal(403)
    expect(headers.get('www-authenticate')).to.include('scope="admin"')
    expect((await sendTo('ada/admin', 'events/poll', { name: 'secret' })).status).to.equal(200)
  })

  it('a user has at most maxPerOwner polled subscriptions, of which the oldest is forgotten', async () => {
    const { ask, adapter } = await serveEvents({ events: { maxPerOwner: 2 } })
    const poll = (severity: string, cursor?: string) =>
      ask('ada', 'events/poll', { name: 'incident', arguments: { severity }, cursor })
    const { cursor } = await poll('P1')
    for (const severity of ['P2', 'P3']) await poll(severity)
    await adapter.events.emit('incident', { id: 1 }, { match: ({ args }) => args.severity === 'P1' })
    // It may have missed events, and says so.
    expect(await poll('P1', cursor)).to.deep.include({ events: [], truncated: true })
  })
})
