import { expect } from 'chai'
import { z } from 'zod'
import { KitMcpRouter, memoryEventStore } from '../../../src/index.ts'
import { fakeTime } from '../../support/fake-time.ts'
import { ERAS, NAMED_USERS, serveEvents } from '../../support/mcp/events.ts'
import { legacy, send } from '../../support/mcp/wire.ts'
import { until } from '../../support/until.ts'

const ID = 'io.modelcontextprotocol/subscriptionId'
const payload = z.object({ id: z.number() })

describe('events/stream', () => {
  for (const era of Object.keys(ERAS) as (keyof typeof ERAS)[])
    it(`a client of ${era} gets active, then each event with its cursor and the id of the request`, async () => {
      const { adapter, stream, ask } = await serveEvents()
      const { received, close } = await stream('ada', { name: 'incident', cursor: null }, era)
      const [active] = await received(1)
      expect(active).to.deep.include({ jsonrpc: '2.0', method: 'notifications/events/active' })
      expect(active.params).to.deep.include({ truncated: false, _meta: { [ID]: 1 } })
      const { eventId } = await adapter.events.emit('incident', { id: 7 })
      const [, event] = await received(2)
      expect(event.method).to.equal('notifications/events/event')
      expect(event.params).to.deep.include({ eventId, name: 'incident', data: { id: 7 }, _meta: { [ID]: 1 } })
      const page = await ask('ada', 'events/poll', { name: 'incident', cursor: event.params.cursor })
      expect(page.events).to.deep.equal([])
      const before = await ask('ada', 'events/poll', { name: 'incident', cursor: active.params.cursor })
      expect(before.events).to.have.length(1)
      expect(adapter.events.stats()).to.deep.include({ emitted: 1, streams: 1 })
      close()
      await until(() => adapter.events.stats().streams === 0, 5)
    })

  it('a stream whose id has more than 512 bytes as JSON is refused, so that each event has at most 256 KiB', async () => {
    const { port } = await serveEvents()
    const message = { jsonrpc: '2.0', method: 'events/stream', params: { name: 'incident' } }
    const answer = await send(
      port,
      legacy({ ...message, id: 'é'.repeat(300) }, { authorization: 'Bearer ada' }),
    )
    expect(answer.message.error).to.deep.include({ code: -32602 })
  })

  it('a stream with a cursor begins with the events since then', async () => {
    const { adapter, stream, ask } = await serveEvents()
    const { cursor } = await ask('ada', 'events/poll', { name: 'incident' })
    for (const id of [1, 2]) await adapter.events.emit('incident', { id })
    const { received, close } = await stream('ada', { name: 'incident', cursor })
    const [active, ...events] = await received(3)
    expect(active.params).to.deep.include({ cursor, truncated: false })
    expect(events.map(({ params }) => params.data.id)).to.deep.equal([1, 2])
    close()
  })

  it('a stream whose events were dropped while its client did not read gets active with truncated', async () => {
    const { adapter, stream, ask } = await serveEvents({
      events: { store: memoryEventStore({ maxLogBytes: 4_000 }) },
    })
    const { cursor } = await ask('ada', 'events/poll', { name: 'incident' })
    for (let id = 0; id < 20; id++) await adapter.events.emit('incident', { id })
    const { received, close } = await stream('ada', { name: 'incident', cursor })
    const [active, first] = await received(2)
    expect(active.params.truncated).to.equal(true)
    const page = await ask('ada', 'events/poll', { name: 'incident', cursor: active.params.cursor })
    expect(page.events[0].data).to.deep.equal(first.params.data)
    close()
  })

  it('the user who loses a permission gets terminated and the result, and a poll gets the same error', async () => {
    const permitted = new Set(['ada', 'bob'])
    const router = KitMcpRouter.create().event('incident', {
      description: 'An incident',
      payload,
      authorize: ({ auth }) => permitted.has(auth?.user.id) || { deny: 'You have left the team.' },
    })
    const { adapter, stream, ask } = await serveEvents({ router })
    const { cursor } = await ask('ada', 'events/poll', { name: 'incident' })
    const [ada, bob] = await Promise.all(['ada', 'bob'].map((user) => stream(user, { name: 'incident' })))
    await Promise.all([ada?.received(1), bob?.received(1)])
    permitted.delete('ada')
    await adapter.events.emit('incident', { id: 1 })
    const error = { code: -32012, message: 'Forbidden', data: { reason: 'You have left the team.' } }
    const [, terminated, result] = (await ada?.received(3)) ?? []
    expect(terminated).to.deep.include({ method: 'notifications/events/terminated' })
    expect(terminated.params).to.deep.equal({ error, _meta: { [ID]: 1 } })
    expect(result.result._meta).to.include({ [ID]: result.id })
    await until(() => ada?.ended === true, 5)
    expect((await bob?.received(2))?.[1].params.data).to.deep.equal({ id: 1 })
    expect(await ask('ada', 'events/poll', { name: 'incident', cursor })).to.deep.equal(error)
    expect(adapter.events.stats()).to.deep.include({ terminated: 1, streams: 1 })
    bob?.close()
  })

  it('a policy that fails delays events and does not end the stream', async () => {
    let isDown = false
    const { adapter, stream } = await serveEvents({
      authorize() {
        if (isDown) throw new Error('down')
        return true
      },
    })
    const { received, close } = await stream('ada', { name: 'incident' })
    await received(1)
    isDown = true
    await adapter.events.emit('incident', { id: 1 })
    isDown = false
    await adapter.events.emit('incident', { id: 2 })
    const [, ...events] = await received(3)
    expect(events.map(({ params }) => params.data.id)).to.deep.equal([1, 2])
    close()
  })

  it('an invalid stream gets an error and no stream', async () => {
    const { send: sendTo } = await serveEvents()
    const { headers, message } = await sendTo('ada', 'events/stream', { name: 'nope' })
    expect(headers.get('content-type')).to.include('application/json')
    expect(message.error.code).to.equal(-32011)
  })

  it('streams of events count as event streams of their user, and give their slot back', async () => {
    const { adapter, stream } = await serveEvents({ streams: { maxPerOwner: 2 } })
    const open = await Promise.all([1, 2].map(() => stream('ada', { name: 'incident' })))
    await Promise.all(open.map(({ received }) => received(1)))
    expect((await stream('ada', { name: 'incident' })).status).to.equal(429)
    expect((await stream('bob', { name: 'incident' })).status).to.equal(200)
    for (const { close } of open) close()
    await until(() => adapter.events.stats().streams === 1, 5)
    expect((await stream('ada', { name: 'incident' })).status).to.equal(200)
    await adapter.events.close()
  })

  it('a stream ends when its token expires, and with the adapter', async () => {
    const expiresAt = Math.floor(Date.now() / 1000) + 2
    const { adapter, stream } = await serveEvents({
      oauth: {
        ...NAMED_USERS,
        verifyToken: (input: { bearerToken?: string }) => ({
          ...NAMED_USERS.verifyToken(input),
          ...(input.bearerToken === 'ada' && { expiresAt }),
        }),
      } as never,
    })
    const ada = await stream('ada', { name: 'incident' })
    const bob = await stream('bob', { name: 'incident' })
    await until(() => ada.ended, 5)
    expect(Date.now() / 1000).to.be.at.least(expiresAt)
    expect(bob.ended).to.equal(false)
    await adapter.events.close()
    await until(() => bob.ended, 5)
    expect(bob.messages.at(-1).result).to.be.an('object')
  })

  it('a batch with events/stream is refused', async () => {
    const { port } = await serveEvents()
    const one = { jsonrpc: '2.0', method: 'events/stream', params: { name: 'incident' } }
    const headers = { authorization: 'Bearer ada', 'mcp-protocol-version': '2025-03-26' }
    const { status } = await send(port, {
      headers: {
        ...headers,
        'content-type': 'application/json',
        accept: 'application/json, text/event-stream',
      },
      body: JSON.stringify([
        { ...one, id: 1 },
        { ...one, id: 2 },
      ]),
    })
    expect(status).to.equal(400)
  })

  it('a stream has a heartbeat every 15 s, and its subscription is renewed every 6 minutes and known for an hour', async () => {
    const store = memoryEventStore()
    const subscribe = store.subscribe.bind(store)
    const renewals: number[] = []
    let heartbeats = 0
    store.subscribe = (...given) => {
      renewals.push(heartbeats)
      expect(given[1].ttlMs).to.equal(3_600_000)
      return subscribe(...given)
    }
    const time = fakeTime()
    try {
      const { adapter, stream } = await serveEvents({ events: { store } })
      const open = await stream('ada', { name: 'incident', arguments: { severity: 'P1' } })
      await until(() => open.messages.length === 1)
      while (heartbeats < 4 * 61) {
        time.advance(15_000)
        heartbeats++
        await until(() => open.messages.length === 1 + heartbeats)
        await new Promise(setImmediate)
      }
      expect(open.messages.at(-1).method).to.equal('notifications/events/heartbeat')
      expect(renewals).to.deep.equal([0, ...Array.from({ length: 10 }, (_, index) => 24 * (index + 1))])
      await adapter.events.emit('incident', { id: 1 }, { match: ({ args }) => args.severity === 'P1' })
      await until(() => open.messages.length === 2 + heartbeats)
      expect(open.messages.at(-1).params.data).to.deep.equal({ id: 1 })
      open.close()
    } finally {
      time.restore()
    }
  })
})
