import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { expect } from 'chai'
import { Redis } from 'ioredis'
import { redisEventStore } from '../../../src/redis/event-store.ts'
import { type EventServer, serveEvents } from '../../support/mcp/events.ts'
import { LOOPBACK, newSecret, receiveWebhooks, signersOf } from '../../support/mcp/webhook-receiver.ts'
import { modern, send } from '../../support/mcp/wire.ts'
import { type RedisServer, redisMissing, startRedis } from '../../support/redis.ts'
import { skipIf } from '../../support/skip.ts'
import { until } from '../../support/until.ts'

const SECRET = newSecret()

describe('Events on several nodes with one Redis', () => {
  let redis: RedisServer
  const clients: Redis[] = []
  const children: ChildProcess[] = []
  before(async function () {
    skipIf(this, redisMissing())
    redis = await startRedis()
  })
  afterEach(() => {
    for (const client of clients.splice(0)) client.disconnect()
    for (const child of children.splice(0)) child.kill('SIGKILL')
  })
  after(() => redis?.stop())

  /** Serves the nodes of one server. The deliveries of one test do not reach another. */
  async function nodes(count: number, prefix: string): Promise<EventServer[]> {
    return await Promise.all(
      Array.from({ length: count }, () => {
        const client = new Redis(redis.port, '127.0.0.1')
        clients.push(client)
        return serveEvents({ events: { store: redisEventStore(client as never, { prefix }) } })
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
    const receiver = await receiveWebhooks()
    const { cursor } = await first.ask('ada', 'events/poll', { name: 'incident' })
    const open = await first.stream('ada', { name: 'incident' })
    await open.received(1)
    const { id } = await first.ask('ada', 'events/subscribe', subscription(receiver.url))
    const { eventId } = await second.adapter.events.emit('incident', { id: 1 })
    const [message] = await receiver.received(1)
    expect(message?.body.eventId).to.equal(eventId)
    expect(message?.headers['x-mcp-subscription-id']).to.equal(id)
    expect((await open.received(2))[1].params.eventId).to.equal(eventId)
    const page = await second.ask('ada', 'events/poll', { name: 'incident', cursor })
    expect(page.events.map((event: any) => event.eventId)).to.deep.equal([eventId])
    expect(page.truncated).to.equal(false)
    const renewed = await second.ask('ada', 'events/subscribe', subscription(receiver.url))
    expect(renewed).to.deep.include({ id, cursor: message?.body.cursor })
    expect(receiver.challenges).to.have.length(1)
    for (const { adapter } of [first, second]) await adapter.events.close()
    expect(receiver.messages).to.have.length(1)
  })

  it('200 events for a webhook are each delivered once by two nodes together', async () => {
    const both = await nodes(2, 'once')
    const [first] = both as [EventServer]
    const receiver = await receiveWebhooks()
    await first.ask('ada', 'events/subscribe', subscription(receiver.url))
    const emitted = await Promise.all(
      Array.from({ length: 200 }, (_, id) => both[id % 2]?.adapter.events.emit('incident', { id })),
    )
    await receiver.received(200)
    for (const { adapter } of both) await adapter.events.close({ timeoutMs: 1_000 })
    const ids = receiver.messages.map(({ body }) => body.eventId)
    expect(ids).to.have.members(emitted.map((event) => event?.eventId))
    const sent = both.map(({ adapter }) => adapter.events.stats().delivered.webhook)
    expect(sent.reduce((sum, one) => sum + one)).to.equal(200)
  })

  async function startNode(): Promise<{ readonly port: number; readonly child: ChildProcess }> {
    const file = fileURLToPath(new URL('../../support/mcp/event-node.js', import.meta.url))
    const args = [file, String(redis.port), String(LOOPBACK.ca)]
    const child = spawn(process.execPath, args, { stdio: ['ignore', 'pipe', 'inherit'] })
    children.push(child)
    const [line] = await once(createInterface({ input: child.stdout }), 'line')
    return { port: Number(line), child }
  }

  it('a node that is killed after emit has resolved loses nothing, and at most its running attempts are repeated', async function () {
    this.timeout(90_000)
    const [first] = await Promise.all([startNode(), startNode()])
    const receiver = await receiveWebhooks()
    const params = subscription(receiver.url)
    const headers = { authorization: 'Bearer ada' }
    const { message } = await send(first.port, modern('events/subscribe', params, headers))
    expect(message.error).to.equal(undefined)
    const emit = async (id: number): Promise<void> => {
      const { status } = await send(first.port, { path: `/emit/${id}`, headers: { 'content-length': '0' } })
      expect(status).to.equal(200)
    }
    const release = receiver.hold()
    await Promise.all(Array.from({ length: 30 }, (_, id) => emit(id)))
    // Both nodes have attempts that the receiver has not answered.
    await receiver.received(8)
    first.child.kill('SIGKILL')
    release()
    const delivered = () => new Set(receiver.messages.map(({ body }) => body.eventId))
    await until(() => delivered().size === 30, 20)
    expect([...delivered()]).to.have.members(Array.from({ length: 30 }, (_, id) => `incident-${id}`))
    // An attempt whose outcome was lost with the node is made again, with the same id.
    expect(receiver.messages.length - 30).to.be.at.most(16)
    for (const received of receiver.messages) expect(signersOf(received, [SECRET])).to.deep.equal([SECRET])
  })
})
