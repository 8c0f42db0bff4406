import { expect } from 'chai'
import { z } from 'zod'
import { InMemoryTransportAdapter, KitMcpRouter, KitTelemetry } from '../../../src/index.ts'
import { listen } from '../../support/listen.ts'
import { type EventServer, NAMED_USERS, serveEvents } from '../../support/mcp/events.ts'
import { accept, isSignedWith, OTHER_SECRET, SECRET, startReceiver } from '../../support/mcp/webhooks.ts'
import { until } from '../../support/until.ts'

const payload = z.object({ id: z.number() })

/** Returns a function that subscribes a user to incidents at a URL. */
function subscriber({ ask }: EventServer, url: string) {
  return (user: string, changes: Record<string, unknown> = {}, delivery: Record<string, unknown> = {}) =>
    ask(user, 'events/subscribe', {
      name: 'incident',
      arguments: {},
      delivery: { mode: 'webhook', url, secret: SECRET, ...delivery },
      cursor: null,
      ...changes,
    })
}

describe('events/subscribe', () => {
  it('a webhook is challenged once with a signed message, and then gets each event with its cursor, signed', async () => {
    const server = await serveEvents()
    const receiver = await startReceiver()
    const subscribe = subscriber(server, receiver.url)
    const { id, refreshBefore, cursor, truncated, deliveryStatus } = await subscribe('ada')
    expect(id).to.match(/^sub_[0-9a-f]{32}$/)
    expect(Date.parse(refreshBefore) - Date.now()).to.be.within(3_590_000, 3_600_000)
    expect([typeof cursor, truncated, deliveryStatus]).to.deep.equal(['string', false, undefined])
    const [challenge, ...others] = receiver.challenges
    expect(others).to.deep.equal([])
    expect(challenge?.json).to.have.all.keys('type', 'challenge')
    expect(challenge?.method).to.equal('POST')
    expect(challenge?.headers).to.include({ 'content-type': 'application/json', 'x-mcp-subscription-id': id })
    expect(challenge?.headers['webhook-id']).to.match(/^msg_verification_[\w-]{22}$/)
    expect(isSignedWith(challenge as never, SECRET)).to.equal(true)

    const { eventId } = await server.adapter.events.emit('incident', { id: 7 })
    const [message] = await receiver.received(1)
    expect(message?.json).to.deep.include({ eventId, name: 'incident', data: { id: 7 } })
    expect(message?.headers).to.deep.include({
      'content-type': 'application/json',
      'webhook-id': eventId,
      'x-mcp-subscription-id': id,
    })
    expect(isSignedWith(message as never, SECRET)).to.equal(true)

    const renewed = await subscribe('ada', { cursor: message?.json.cursor })
    expect(renewed).to.deep.include({ id, truncated: false, cursor: message?.json.cursor })
    expect(renewed.deliveryStatus).to.deep.include({ active: true, lastError: null })
    expect(Date.parse(renewed.deliveryStatus.lastDeliveryAt)).to.be.closeTo(Date.now(), 60_000)
    expect(receiver.challenges).to.have.length(1)
    expect(server.adapter.events.stats()).to.deep.include({
      subscribed: 1,
      renewed: 1,
      delivered: { webhook: 1, poll: 0, stream: 0 },
    })
    await server.adapter.events.close()
  })

  it('allowLoopback sends to an http URL of this machine, and is refused outside of development', async () => {
    const before = process.env.NODE_ENV
    const events = { webhooks: { allowLoopback: true } }
    const bodies: any[] = []
    const { port } = await listen(async (req, res) => {
      let text = ''
      for await (const chunk of req.setEncoding('utf8')) text += chunk
      bodies.push(JSON.parse(text))
      res.end(JSON.stringify({ challenge: bodies[0].challenge }))
    })
    try {
      process.env.NODE_ENV = 'development'
      const server = await serveEvents({ events })
      expect((await subscriber(server, `http://127.0.0.1:${port}/`)('ada')).id).to.match(/^sub_/)
      await server.adapter.events.emit('incident', { id: 7 })
      await until(() => bodies.length === 2, 5)
      expect(bodies[1].data).to.deep.equal({ id: 7 })
      await server.adapter.events.close()
      process.env.NODE_ENV = 'production'
      const error = await serveEvents({ events }).catch((thrown) => thrown)
      expect(error).to.include({ code: 'MCP_CONFIG_INVALID_OPTION', option: 'events.webhooks.allowLoopback' })
    } finally {
      if (before === undefined) delete process.env.NODE_ENV
      else process.env.NODE_ENV = before
    }
  })

  it('events/unsubscribe ends a subscription of the same user, and no other', async () => {
    const server = await serveEvents()
    const receiver = await startReceiver()
    const subscribe = subscriber(server, receiver.url)
    const [ada, bob] = [await subscribe('ada'), await subscribe('bob')]
    expect(ada.id).to.not.equal(bob.id)
    const params = { name: 'incident', arguments: {}, delivery: { url: receiver.url } }
    const missing = { code: -32011, message: 'No such subscription', data: { kind: 'subscription' } }
    expect(await server.ask('eve', 'events/unsubscribe', params)).to.deep.equal(missing)
    expect((await server.ask('ada', 'events/unsubscribe', params)).resultType).to.equal('complete')
    expect(await server.ask('ada', 'events/unsubscribe', params)).to.deep.equal(missing)
    await server.adapter.events.emit('incident', { id: 1 })
    const [message] = await receiver.received(1)
    expect(message?.headers['x-mcp-subscription-id']).to.equal(bob.id)
    await server.adapter.events.close()
  })

  it('after a renewal with another secret, both secrets sign for a while', async () => {
    const server = await serveEvents()
    const receiver = await startReceiver()
    const subscribe = subscriber(server, receiver.url)
    const next = OTHER_SECRET
    const { id } = await subscribe('ada')
    expect((await subscribe('ada', {}, { secret: next })).id).to.equal(id)
    await server.adapter.events.emit('incident', { id: 1 })
    const [message] = await receiver.received(1)
    for (const secret of [SECRET, next]) expect(isSignedWith(message as never, secret)).to.equal(true)
    await server.adapter.events.close()
  })

  it('a subscription that has ended and is made again with its cursor gets the events since then', async () => {
    const server = await serveEvents()
    const receiver = await startReceiver()
    const subscribe = subscriber(server, receiver.url)
    const { cursor } = await subscribe('ada')
    await server.ask('ada', 'events/unsubscribe', { name: 'incident', delivery: { url: receiver.url } })
    for (const id of [1, 2]) await server.adapter.events.emit('incident', { id })
    const again = await subscribe('ada', { cursor })
    expect(again).to.deep.include({ truncated: false, cursor })
    const messages = await receiver.received(2)
    expect(messages.map(({ json }) => json.data.id)).to.have.members([1, 2])
    await server.adapter.events.close()
  })

  it('the user who loses a permission gets terminated, and the subscription is gone', async () => {
    const permitted = new Set(['ada', 'bob'])
    const asked: unknown[] = []
    const router = KitMcpRouter.create().event('incident', {
      description: 'An incident',
      payload,
      input: z.object({ severity: z.string().default('P1') }),
      authorize({ purpose, args, auth, data }) {
        asked.push([purpose, args.severity, auth?.user.id, data?.id])
        return permitted.has(auth?.user.id)
      },
    })
    const server = await serveEvents({ router })
    const receiver = await startReceiver()
    const subscribe = subscriber(server, receiver.url)
    const { id } = await subscribe('ada')
    permitted.delete('ada')
    await server.adapter.events.emit('incident', { id: 1 })
    const [message] = await receiver.received(1)
    expect(message?.json).to.deep.equal({
      type: 'terminated',
      error: { code: -32012, message: 'Forbidden', data: { reason: 'Access revoked' } },
    })
    expect(message?.headers['x-mcp-subscription-id']).to.equal(id)
    expect(message?.headers['webhook-id']).to.match(/^msg_terminated_/)
    expect(await subscribe('ada')).to.deep.include({ code: -32012 })
    expect(asked).to.deep.equal([
      ['subscribe', 'P1', 'ada', undefined],
      ['deliver', 'P1', 'ada', 1],
      ['subscribe', 'P1', 'ada', undefined],
    ])
    await until(() => server.adapter.events.stats().terminated === 1, 5)
    await server.adapter.events.close()
  })

  it('the policy sees the same claims of the token at a delivery as at the subscription, its actor included', async () => {
    const seen: unknown[] = []
    const server = await serveEvents({
      oauth: {
        ...NAMED_USERS,
        verifyToken: () => ({
          valid: true,
          user: { id: 'ada' },
          clientId: 'planner',
          scopes: ['read'],
          extra: { tenant: 7 },
          act: { sub: 'agent', act: { sub: 'chat' } },
        }),
      },
      authorize: (query) => {
        const { user, clientId, scopes, extra, act } = query.auth ?? {}
        // Only the policy of the event type gets the data of an event.
        const data = Reflect.get(query, 'data')
        if (query.kind === 'event') seen.push({ user, clientId, scopes, extra, act, data })
        return true
      },
    })
    const receiver = await startReceiver()
    await subscriber(server, receiver.url)('ada')
    await server.adapter.events.emit('incident', { id: 1 })
    await receiver.received(1)
    expect(seen).to.have.length(2)
    expect(seen[0]).to.deep.include({ act: { sub: 'agent', act: { sub: 'chat' } } })
    expect(seen[1]).to.deep.equal(seen[0])
    await server.adapter.events.close()
  })

  it('controlMessages: false ends a subscription in silence, for clients without terminated', async () => {
    let isPermitted = true
    const server = await serveEvents({
      events: { webhooks: { controlMessages: false } },
      authorize: () => isPermitted,
    })
    const receiver = await startReceiver()
    await subscriber(server, receiver.url)('ada')
    isPermitted = false
    await server.adapter.events.emit('incident', { id: 1 })
    await until(() => server.adapter.events.stats().terminated === 1, 5)
    await server.adapter.events.close({ timeoutMs: 100 })
    expect(receiver.deliveries).to.deep.equal([])
  })

  it(`errorCodes: 'proposed' sends the codes of the proposed text, in responses and in messages`, async () => {
    let isPermitted = true
    const server = await serveEvents({
      events: { errorCodes: 'proposed', maxPerOwner: 1 },
      authorize: () => isPermitted,
    })
    const receiver = await startReceiver()
    const subscribe = subscriber(server, receiver.url)
    await subscribe('ada')
    expect(await subscribe('ada', { name: 'nope' })).to.deep.include({ code: -32023 })
    expect(await subscribe('ada', { arguments: { severity: 'P2' } })).to.deep.include({ code: -32025 })
    expect(await subscribe('ada', {}, { mode: 'push' })).to.deep.include({ code: -32026 })
    expect(await subscribe('ada', { cursor: 1 })).to.deep.include({ code: -32602 })
    receiver.respond = () => ({ status: 404 })
    expect(await subscribe('bob')).to.deep.include({ code: -32027 })
    receiver.respond = accept
    isPermitted = false
    await server.adapter.events.emit('incident', { id: 1 })
    expect((await receiver.received(1))[0]?.json.error.code).to.equal(-32024)
    expect(await server.ask('ada', 'events/poll', { name: 'incident' })).to.deep.include({ code: -32024 })
    await server.adapter.events.close()
  })

  for (const [title, ttlMs, least, most, options] of [
    ['of one second', 1_000, 59_000, 60_000, {}],
    ['of two minutes', 120_000, 119_000, 120_000, {}],
    ['of a year', 31_536_000_000, 3_590_000, 3_600_000, {}],
    ['without an end', null, 3_590_000, 3_600_000, {}],
    ['of two minutes, with events.ttlMs of 30 seconds,', 120_000, 29_000, 30_000, { ttlMs: 30_000 }],
  ] as const)
    it(`a client that asks for a lifetime ${title} is granted what the server allows`, async () => {
      const server = await serveEvents({ events: options })
      const receiver = await startReceiver()
      const { refreshBefore } = await subscriber(server, receiver.url)('ada', { ttlMs })
      expect(Date.parse(refreshBefore) - Date.now()).to.be.within(least, most)
      await server.adapter.events.close()
    })

  for (const [title, params, delivery, code, data] of [
    ['an http URL', {}, { url: 'http://example.com/' }, -32602, undefined],
    ['a URL with credentials', {}, { url: 'https://a:b@example.com/' }, -32602, undefined],
    ['another mode', {}, { mode: 'push' }, -32014, { feature: 'deliveryMode', value: 'push' }],
    ['a mode that is an object', {}, { mode: { toString: 1, valueOf: 1 } }, -32602, undefined],
    ['an unknown event', { name: 'nope' }, {}, -32011, { kind: 'event' }],
    [
      'an event without webhooks',
      { name: 'polled' },
      {},
      -32014,
      { feature: 'deliveryMode', value: 'webhook' },
    ],
    ['invalid arguments', { arguments: { severity: 1 } }, {}, -32602, undefined],
  ] as const)
    it(`a subscription with ${title} gets the error ${code} and no request`, async () => {
      const server = await serveEvents()
      const receiver = await startReceiver()
      const error = await subscriber(server, receiver.url)('ada', params, delivery)
      expect([error.code, error.data]).to.deep.equal([code, data])
      expect(JSON.stringify(error)).to.not.include(SECRET)
      expect(receiver.challenges).to.deep.equal([])
      await server.adapter.events.close()
    })

  it('telemetry has the subscription and each delivery, without the secret, the URL, and the token', async () => {
    const transport = InMemoryTransportAdapter.create()
    const telemetry = KitTelemetry.create()
      .addTransport(transport)
      .withSampling({ infoRate: 1, debugRate: 1 })
      .build()
    const server = await serveEvents({ telemetry: telemetry as never })
    const receiver = await startReceiver()
    const { id } = await subscriber(server, `${receiver.url}?key=hidden`)('ada')
    const { eventId } = await server.adapter.events.emit('incident', { id: 1 })
    await receiver.received(1)
    await until(() => server.adapter.events.stats().delivered.webhook === 1, 5)
    await server.adapter.events.close()
    await telemetry.shutdown()
    const events = transport.getEvents()
    const own = events.filter(({ name }) => name.startsWith('kit.mcp.event.'))
    expect(own.map(({ name }) => name)).to.deep.equal([
      'kit.mcp.event.subscribed',
      'kit.mcp.event.emitted',
      'kit.mcp.event.delivered',
    ])
    expect(own.at(-1)?.attributes).to.deep.include({
      'kit.mcp.event.name': 'incident',
      'kit.mcp.event.subscription': id,
      'kit.mcp.event.id': eventId,
      'kit.mcp.event.attempts': 1,
      'http.response.status_code': 204,
    })
    const text = JSON.stringify(events)
    for (const hidden of [SECRET, 'hidden', 'Bearer']) expect(text).to.not.include(hidden)
  })
})
