import { expect } from 'chai'
import type { DeliveryOutcome } from '../../../../src/mcp/events/store.ts'
import {
  accept,
  isSignedWith,
  quickStore,
  type ReceivedMessage,
  SECRET,
  serveWebhooks,
  startReceiver,
  type WebhookReceiver,
  type WebhookServer,
} from '../../../support/mcp/webhooks.ts'
import { until } from '../../../support/until.ts'

describe('mcp/events/webhooks: messages', () => {
  let receiver: WebhookReceiver
  let server: WebhookServer
  let outcomes: DeliveryOutcome[]
  const rejectedBy = (status: number) => (message: ReceivedMessage) =>
    message.json.type === 'verification' ? accept(message) : { status }

  beforeEach(async () => {
    receiver = await startReceiver()
    outcomes = []
    server = await serveWebhooks(receiver.network, { events: { store: quickStore(outcomes) } })
  })

  it('with webhookId: message, the id of a message is another one for each subscription, and stays the same in all attempts', async () => {
    server = await serveWebhooks(receiver.network, {
      events: { store: quickStore(), webhooks: { webhookId: 'message' } },
    })
    receiver.respond = rejectedBy(500)
    await server.subscribe('ada', receiver.url)
    await server.subscribe('bob', receiver.url)
    await server.adapter.events.emit('incident', { id: 7 }, { eventId: 'own-id' })
    await until(() => server.adapter.events.stats().failed === 2, 2)
    receiver.respond = accept
    await until(() => server.adapter.events.stats().delivered.webhook === 2, 2)
    const all = receiver.deliveries
    const ids = all.map(({ headers }) => headers['webhook-id'])
    expect(new Set(ids).size).to.equal(2)
    expect(ids.every((id) => /^msg_event_[\w-]{22}$/.test(String(id)))).to.equal(true)
    expect(all.every((message) => isSignedWith(message, SECRET))).to.equal(true)
    expect(all.every(({ json }) => json.eventId === 'own-id')).to.equal(true)
  })

  it('the cursor of an event does not pass an earlier event that is not delivered', async () => {
    await server.subscribe('ada', receiver.url)
    let release = (): void => undefined
    const held = new Promise<void>((resolve) => {
      release = resolve
    })
    receiver.respond = async (message) => {
      if (message.json.data?.id === 1) await held
      return accept(message)
    }
    for (const id of [1, 2]) await server.adapter.events.emit('incident', { id })
    await until(() => server.adapter.events.stats().delivered.webhook === 1, 2)
    const cursor = receiver.deliveries.find(({ json }) => json.data?.id === 2)?.json.cursor
    expect((await server.subscribe('ada', receiver.url, { cursor })).cursor).to.equal(cursor)
    release()
    await until(() => server.adapter.events.stats().delivered.webhook === 2, 2)
    const renewed = await server.subscribe('ada', receiver.url, { cursor })
    expect(renewed.cursor).to.not.equal(cursor)
  })

  for (const status of [500, 503, 429, 408, 425, 400, 401, 404, 302])
    it(`an event that is answered with ${status} is sent again with the same id`, async () => {
      await server.subscribe('ada', receiver.url)
      receiver.respond = rejectedBy(status)
      const { eventId } = await server.adapter.events.emit('incident', { id: 1 })
      await until(() => server.adapter.events.stats().failed === 1, 2)
      const { deliveryStatus } = await server.subscribe('ada', receiver.url)
      expect(deliveryStatus).to.include({ lastError: status >= 500 ? 'http_5xx' : 'http_4xx' })
      receiver.respond = accept
      const all = await receiver.received(2)
      expect([...new Set(all.map(({ headers }) => headers['webhook-id']))]).to.deep.equal([eventId])
      await until(() => server.adapter.events.stats().delivered.webhook === 1, 2)
    })

  for (const [title, headers, least] of [
    ['an endpoint that asks for nothing', {}, 100_000],
    ['an endpoint that asks for a year', { 'retry-after': '31536000' }, 600_000],
  ] as const)
    it(`${title} gets five attempts in at most 15 minutes, and then a gap`, async () => {
      await server.subscribe('ada', receiver.url)
      receiver.respond = (message) =>
        message.json.eventId === undefined ? accept(message) : { status: 503, headers }
      await server.adapter.events.emit('incident', { id: 1 })
      await until(() => receiver.deliveries.some(({ json }) => json.type === 'gap'), 2)
      expect(receiver.deliveries.filter(({ json }) => json.eventId !== undefined)).to.have.length(5)
      const waits = outcomes.map((outcome) => ('delayMs' in outcome ? outcome.delayMs : 0))
      // Each attempt takes at most ten seconds.
      expect(waits.reduce((sum, ms) => sum + ms)).to.be.within(least, 900_000 - 50_000)
      expect(server.adapter.events.stats()).to.include({ failed: 4, abandoned: 1 })
    })

  it('an event that is refused becomes terminated, which is sent until the endpoint accepts it, and the event is not', async () => {
    let isPermitted = true
    const events = { store: quickStore(outcomes) }
    server = await serveWebhooks(receiver.network, { events, authorize: () => isPermitted })
    const { id } = await server.subscribe('ada', receiver.url)
    isPermitted = false
    receiver.respond = rejectedBy(503)
    await server.adapter.events.emit('incident', { id: 1 })
    await until(() => server.adapter.events.stats().failed === 1, 2)
    expect(server.adapter.events.stats().terminated).to.equal(0)
    receiver.respond = accept
    await until(() => server.adapter.events.stats().terminated === 1, 2)
    const all = await receiver.received(2)
    expect(all.map(({ json }) => json.type)).to.deep.equal(['terminated', 'terminated'])
    expect(new Set(all.map(({ headers }) => headers['webhook-id'])).size).to.equal(1)
    isPermitted = true
    expect((await server.subscribe('ada', receiver.url)).id).to.equal(id)
    expect(server.adapter.events.stats()).to.include({ subscribed: 2, renewed: 0 })
  })

  it('with controlMessages: false, a gap is given up without a message, and counted', async () => {
    server = await serveWebhooks(receiver.network, { events: { webhooks: { controlMessages: false } } })
    await server.subscribe('ada', receiver.url)
    receiver.respond = rejectedBy(413)
    await server.adapter.events.emit('incident', { id: 1 })
    await until(() => server.adapter.events.stats().abandoned === 2, 2)
    expect(receiver.deliveries.map(({ json }) => json.data?.id)).to.deep.equal([1])
  })

  for (const status of [410, 413])
    it(`an endpoint that answers ${status} gets a signed gap instead of each such event, and then the next one`, async () => {
      const { id } = await server.subscribe('ada', receiver.url)
      receiver.respond = (message) => (message.json.data?.id < 3 ? { status } : accept(message))
      await server.adapter.events.emit('incident', { id: 1 })
      const [, gap] = (await receiver.received(2)) as [ReceivedMessage, ReceivedMessage]
      expect(gap.json).to.deep.equal({ type: 'gap', cursor: gap.json.cursor })
      expect(gap.json.cursor).to.match(/^\w{10}$/)
      expect(gap.headers['webhook-id']).to.match(/^msg_gap_[\w-]{22}$/)
      expect(gap.headers['x-mcp-subscription-id']).to.equal(id)
      expect(isSignedWith(gap, SECRET)).to.equal(true)
      await server.adapter.events.emit('incident', { id: 2 })
      await receiver.received(4)
      await server.adapter.events.emit('incident', { id: 3 })
      const all = (await receiver.received(5)).map(({ json }) => json.data?.id ?? json.type)
      expect(all).to.deep.equal([1, 'gap', 2, 'gap', 3])
      expect(server.adapter.events.stats()).to.include({ abandoned: 2, failed: 0 })
    })

  it('after close, no delivery is taken, and those that run have ended', async () => {
    await server.subscribe('ada', receiver.url)
    receiver.respond = () => undefined
    await server.adapter.events.emit('incident', { id: 1 })
    await receiver.received(1)
    const startedMs = performance.now()
    await server.adapter.events.close({ timeoutMs: 100 })
    expect(performance.now() - startedMs).to.be.within(90, 2_000)
    receiver.respond = accept
    await server.adapter.events.emit('incident', { id: 2 })
    await new Promise((resolve) => setTimeout(resolve, 100))
    expect(receiver.deliveries).to.have.length(1)
  })

  it('close ends the messages that have no place, without sending them', async () => {
    for (let index = 0; index < 20; index++) await server.subscribe(`user${index}`, receiver.url)
    receiver.respond = () => undefined
    await server.adapter.events.emit('incident', { id: 1 })
    await receiver.received(8)
    await server.adapter.events.close({ timeoutMs: 50 })
    await new Promise((resolve) => setTimeout(resolve, 100))
    expect(receiver.deliveries).to.have.length(8)
    expect(server.adapter.events.stats()).to.include({ failed: 0, abandoned: 0 })
  })

  it('a fast endpoint gets 300 events in a row without pauses between them', async () => {
    await server.subscribe('ada', receiver.url)
    const startedMs = performance.now()
    for (let id = 0; id < 300; id++) await server.adapter.events.emit('incident', { id })
    await receiver.received(300)
    const perSecond = Math.round(300_000 / (performance.now() - startedMs))
    console.log(`      ${perSecond} messages per second over TLS, each on its own connection`)
    expect(new Set(receiver.deliveries.map(({ json }) => json.eventId)).size).to.equal(300)
    await until(() => server.adapter.events.stats().delivered.webhook === 300, 2)
  })

  it('close waits for a message that is being accepted', async () => {
    await server.subscribe('ada', receiver.url)
    receiver.respond = () => new Promise((resolve) => setTimeout(() => resolve({ status: 204 }), 150))
    await server.adapter.events.emit('incident', { id: 1 })
    await receiver.received(1)
    await server.adapter.events.close({ timeoutMs: 5_000 })
    expect(server.adapter.events.stats().delivered.webhook).to.equal(1)
  })
})
