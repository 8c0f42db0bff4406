import { expect } from 'chai'
import { Redis } from 'ioredis'
import { redisEventStore } from '../../../src/redis/event-store.ts'
import { type EventServer, serveEvents } from '../../support/mcp/events.ts'
import { SECRET, startReceiver } from '../../support/mcp/webhooks.ts'
import { type RedisServer, redisMissing, startCuttingProxy, startRedis } from '../../support/redis.ts'
import { skipIf } from '../../support/skip.ts'
import { until } from '../../support/until.ts'

describe('Events on several nodes with one Redis', () => {
  let redis: RedisServer
  const clients: Redis[] = []
  before(async function () {
    skipIf(this, redisMissing())
    redis = await startRedis()
  })
  afterEach(() => {
    for (const client of clients.splice(0)) client.disconnect()
  })
  after(() => redis?.stop())

  /** Serves the nodes of one server. The deliveries of one test do not reach another. */
  async function nodes(
    count: number,
    prefix: string,
    port = redis.port,
    options = {},
  ): Promise<EventServer[]> {
    return await Promise.all(
      Array.from({ length: count }, () => {
        const client = new Redis(port, '127.0.0.1')
        clients.push(client)
        return serveEvents({ events: { store: redisEventStore(client as never, { prefix }) }, ...options })
      }),
    )
  }

  function subscription(url: string) {
    return {
      name: 'incident',
      arguments: {},
      delivery: { mode: 'webhook', url, secret: SECRET },
      cursor: null,
    }
  }

  it('an event that one node emits reaches the poll, the stream, and the webhook that another node serves', async () => {
    const [first, second] = (await nodes(2, 'all')) as [EventServer, EventServer]
    const receiver = await startReceiver()
    const { cursor } = await first.ask('ada', 'events/poll', { name: 'incident' })
    const open = await first.stream('ada', { name: 'incident' })
    await open.received(1)
    const { id } = await first.ask('ada', 'events/subscribe', subscription(receiver.url))
    const { eventId } = await second.adapter.events.emit('incident', { id: 1 })
    const [message] = await receiver.received(1)
    expect(message?.json.eventId).to.equal(eventId)
    expect(message?.headers['x-mcp-subscription-id']).to.equal(id)
    expect((await open.received(2))[1].params.eventId).to.equal(eventId)
    const page = await second.ask('ada', 'events/poll', { name: 'incident', cursor })
    expect(page.events.map((event: any) => event.eventId)).to.deep.equal([eventId])
    expect(page.truncated).to.equal(false)
    const renewed = await second.ask('ada', 'events/subscribe', subscription(receiver.url))
    expect(renewed).to.deep.include({ id, cursor: message?.json.cursor })
    expect(receiver.challenges).to.have.length(1)
    for (const { adapter } of [first, second]) await adapter.events.close()
    expect(receiver.deliveries).to.have.length(1)
  })

  it('200 events for a webhook are each delivered once by two nodes together', async () => {
    const both = await nodes(2, 'once')
    const [first] = both as [EventServer]
    const receiver = await startReceiver()
    await first.ask('ada', 'events/subscribe', subscription(receiver.url))
    const emitted = await Promise.all(
      Array.from({ length: 200 }, (_, id) => both[id % 2]?.adapter.events.emit('incident', { id })),
    )
    await receiver.received(200)
    for (const { adapter } of both) await adapter.events.close({ timeoutMs: 1_000 })
    const ids = receiver.deliveries.map(({ json }) => json.eventId)
    expect(ids).to.have.members(emitted.map((event) => event?.eventId))
    const sent = both.map(({ adapter }) => adapter.events.stats().delivered.webhook)
    expect(sent.reduce((sum, one) => sum + one)).to.equal(200)
  })

  it('what ioredis sends again, because its reply was lost, is neither lost nor taken for another request', async () => {
    let isPermitted = true
    const proxy = await startCuttingProxy(redis.port)
    const receiver = await startReceiver()
    const options = { authorize: () => isPermitted }
    const [node] = (await nodes(1, 'resent', proxy.port, options)) as [EventServer]
    const emit = (id: number) => node.adapter.events.emit('incident', { id })
    const subscribe = (cursor: unknown = null) =>
      node.ask('ada', 'events/subscribe', { ...subscription(receiver.url), cursor })
    async function resent(text: string, request: () => Promise<any>) {
      const [answer] = await Promise.all([request(), proxy.cutAnswerTo(text)])
      return answer
    }
    const { cursor } = await node.ask('ada', 'events/poll', { name: 'incident' })
    const first = await emit(1)
    const made = await resent('ZREMRANGEBYRANK', () => subscribe(cursor))
    expect(made).to.deep.include({ truncated: false, cursor })
    expect((await receiver.received(1))[0]?.json.eventId).to.equal(first.eventId)
    const second = await resent('OWN = PEND ..', () => emit(2))
    expect((await receiver.received(2))[1]?.json.eventId).to.equal(second.eventId)
    isPermitted = false
    await resent(`"DEL","SUB:${made.id.toUpperCase()}`, () => emit(3))
    expect((await receiver.received(3))[2]?.json.type).to.equal('terminated')
    isPermitted = true
    await until(async () => (await subscribe()).deliveryStatus === undefined, 10)
    expect(node.adapter.events.stats().subscribed).to.equal(2)
    await node.adapter.events.close()
    for (const client of clients.splice(0)) client.disconnect()
    await proxy.close()
  })
})
