import { expect } from 'chai'
import { token } from '../support/attacks/spoken-tokens.ts'
import { type EventNode, EventNodes } from '../support/mcp/event-nodes.ts'
import { accept, isSignedWith, SECRET, startReceiver, type WebhookReceiver } from '../support/mcp/webhooks.ts'
import { bearer, modern, send, signalled } from '../support/mcp/wire.ts'
import { type RedisServer, redisMissing, startRedis } from '../support/redis.ts'
import { REDIS_CLIENTS } from '../support/redis-clients.ts'
import { skipIf } from '../support/skip.ts'
import { until } from '../support/until.ts'

const EVENTS = 400
const USERS = ['ada', 'bob']
/** The maximum number of messages that one node sends to one host at the same time. */
const AT_ONCE = 8

for (const { name } of REDIS_CLIENTS)
  describe(`events on two nodes with Redis and ${name}`, function () {
    this.timeout(180_000)

    let redis: RedisServer
    let receiver: WebhookReceiver
    const nodes = new EventNodes()

    before(async function () {
      skipIf(this, redisMissing())
      process.env.REDIS_CLIENT = name
      redis = await startRedis()
    })
    beforeEach(async () => {
      receiver = await startReceiver()
    })
    afterEach(() => nodes.close())
    after(() => redis?.stop())

    async function subscribe(node: EventNode, user: string): Promise<any> {
      const delivery = { mode: 'webhook', url: `${receiver.url}/${user}`, secret: SECRET }
      const params = { name: 'incident', arguments: {}, delivery, cursor: null }
      return (await send(node.port, modern('events/subscribe', params, bearer(token(user))))).message
    }

    it('no event whose emit has resolved is lost when a node is killed, and only what it was sending arrives twice', async () => {
      const [one, two] = (await nodes.start(2, redis, receiver)) as [EventNode, EventNode]
      for (const user of USERS) expect((await subscribe(one, user)).result.id).to.match(/^sub_/)
      const running = new Map<string, number>()
      let mostAtOnce = 0
      let released = signalled()
      const atOnce = (): number => [...running.values()].reduce((sum, count) => sum + count, 0)
      receiver.respond = async (message) => {
        if (message.json.type !== undefined) return accept(message)
        const key = `${message.path} ${message.headers['webhook-id']}`
        running.set(key, (running.get(key) ?? 0) + 1)
        mostAtOnce = Math.max(mostAtOnce, ...running.values())
        await released.promise
        running.set(key, (running.get(key) ?? 1) - 1)
        return { status: 204 }
      }
      released.resolve()
      for (let id = 0; id < EVENTS / 2; id++) (id % 2 === 0 ? one : two).emit(id)
      await until(() => receiver.deliveries.length >= EVENTS / 2, 1)
      // Both nodes send as much as they can, and one of them is killed while it waits for the responses and emits.
      released = signalled()
      for (let id = EVENTS / 2; id < EVENTS; id++) (id % 2 === 0 ? one : two).emit(id)
      await until(() => atOnce() === 2 * AT_ONCE, 1)
      await nodes.kill(one)
      released.resolve()
      await until(() => two.emitted.size === EVENTS / 2, 5)
      const wanted = USERS.flatMap((user) =>
        [...one.emitted, ...two.emitted].map((id) => `/hook/${user} event-${id}`),
      )
      const counts = (): Map<string, number> => {
        const found = new Map<string, number>()
        for (const { path, headers } of receiver.deliveries) {
          const key = `${path} ${headers['webhook-id']}`
          found.set(key, (found.get(key) ?? 0) + 1)
        }
        return found
      }
      // What the killed node had taken is sent again when its lease has ended.
      await until(() => {
        const found = counts()
        return wanted.every((key) => found.has(key))
      }, 50)
      const found = counts()
      const repeated = [...found.values()].filter((count) => count > 1)
      expect(Math.max(...found.values())).to.be.at.most(2)
      expect(repeated.length).to.be.within(1, AT_ONCE)
      expect(mostAtOnce).to.equal(1)
      expect(receiver.deliveries.every((message) => isSignedWith(message, SECRET))).to.equal(true)
      expect(
        receiver.deliveries.every(({ json, headers }) => json.eventId === headers['webhook-id']),
      ).to.equal(true)
    })

    it('a node that starts sends what was left when all nodes were killed', async () => {
      const [one] = (await nodes.start(1, redis, receiver)) as [EventNode]
      await subscribe(one, 'ada')
      receiver.respond = () => undefined
      for (let id = 0; id < 20; id++) one.emit(id)
      await until(() => one.emitted.size === 20 && receiver.deliveries.length === AT_ONCE, 5)
      await nodes.kill(one)
      receiver.respond = accept
      const [two] = (await nodes.start(1, redis, receiver)) as [EventNode]
      await until(() => new Set(receiver.deliveries.map(({ json }) => json.eventId)).size === 20, 20)
      expect((await subscribe(two, 'ada')).result.deliveryStatus).to.include({
        active: true,
        lastError: null,
      })
    })

    it('events that were emitted while Redis was killed are either rejected or delivered', async () => {
      const [one, two] = (await nodes.start(2, redis, receiver)) as [EventNode, EventNode]
      await subscribe(two, 'ada')
      for (let id = 0; id < 200; id++) (id % 2 === 0 ? one : two).emit(id)
      await until(() => one.emitted.size + two.emitted.size >= 20, 1)
      await redis.kill()
      await redis.start()
      await until(() => {
        const found = new Set(receiver.deliveries.map(({ json }) => json.data?.id))
        return [...one.emitted, ...two.emitted].every((id) => found.has(id))
      }, 20)
    })
  })
