import { expect } from 'chai'
import { Redis } from 'ioredis'
import { KitMcpRouter, KitTelemetry, mcpHandler } from '../../../src/index.ts'
import { createMcpAdapter, type McpAdapter } from '../../../src/mcp/adapter.ts'
import { type RedisEventBus, redisEventBus } from '../../../src/redis/event-bus.ts'
import { createTelemetryRecorder } from '../../../src/testing/index.ts'
import { CLIENT_KINDS, type Connected } from '../../support/mcp/clients.ts'
import { onNode, type Served } from '../../support/mcp/entry-points.ts'
import { MODERN } from '../../support/mcp/wire.ts'
import { type RedisServer, redisMissing, startRedis } from '../../support/redis.ts'
import { REDIS_CLIENTS, type RedisClientKind } from '../../support/redis-clients.ts'
import { skipIf } from '../../support/skip.ts'

const ONE = 'notes://one'
const LISTS = ['tools/list_changed', 'prompts/list_changed', 'resources/list_changed']
const ALL = [...LISTS, `resources/updated ${ONE}`]

const router = KitMcpRouter.create()
  .tool('a', { description: 'x' }, () => 'served')
  .prompt('b', {}, () => 'x')
  .resource('one', { uri: ONE }, () => 'x')

/** Resolves when `condition` holds, which is checked after every notification and every event. */
class Watch {
  #wake: (() => void)[] = []

  changed = (): void => {
    for (const wake of this.#wake.splice(0)) wake()
  }

  async until(condition: () => boolean): Promise<void> {
    while (!condition()) await new Promise<void>((resolve) => this.#wake.push(resolve))
  }
}

/** A node with a listening client of each era. What happens to its Redis goes to telemetry, as applications wire it. */
class ListeningNode {
  readonly adapter: McpAdapter
  /** The notifications that each client has received. */
  readonly received: string[][] = []
  readonly #watch = new Watch()
  readonly #recorder = createTelemetryRecorder()
  readonly #bus: RedisEventBus
  readonly #clients: Connected[] = []
  #server: Served | undefined

  constructor(redis: Parameters<typeof redisEventBus>[0]) {
    const telemetry = KitTelemetry.create()
      .withService('board')
      .withSampling({ infoRate: 1 })
      .addTransport(this.#recorder)
      .build()
    const emit = (name: string, error?: Error) => {
      telemetry.emit(name, error === undefined ? {} : { level: 'warn', error })
      this.#watch.changed()
    }
    this.#bus = redisEventBus(redis, {
      onError: (error) => emit('redis.away', error),
      onCaughtUp: () => emit('redis.caught_up'),
    })
    this.adapter = createMcpAdapter({ router, eventBus: this.#bus })
  }

  async open(): Promise<this> {
    await this.caughtUp(1)
    this.#server = await onNode(mcpHandler(this.adapter))
    for (const { revision, connect } of CLIENT_KINDS) {
      const received: string[] = []
      this.received.push(received)
      const client = await connect(this.#server.origin, {
        onNotification: ({ method, params }) => {
          received.push([method.slice('notifications/'.length), params?.uri].join(' ').trim())
          this.#watch.changed()
        },
      })
      this.#clients.push(client)
      if (revision === MODERN) {
        const listChanges = { toolsListChanged: true, promptsListChanged: true, resourcesListChanged: true }
        await client.client.listen({ ...listChanges, resourceSubscriptions: [ONE] })
      } else {
        await client.streaming
        await client.client.subscribeResource({ uri: ONE })
      }
    }
    return this
  }

  notifyAll(): void {
    const { notify } = this.adapter
    notify.toolsChanged()
    notify.promptsChanged()
    notify.resourcesChanged()
    notify.resourceUpdated(ONE)
  }

  /** Resolves when every client has received each of these, and forgets what they have received. */
  async hears(expected: readonly string[]): Promise<void> {
    await this.#watch.until(() =>
      this.received.every((received) => expected.every((one) => received.includes(one))),
    )
    for (const received of this.received) received.length = 0
  }

  async isServing(): Promise<void> {
    for (const { client } of this.#clients) {
      const { content } = await client.callTool({ name: 'a', arguments: {} })
      expect(content).to.deep.equal([{ type: 'text', text: 'served' }])
    }
  }

  async caughtUp(times: number): Promise<void> {
    await this.#watch.until(() => this.#recorder.events('redis.caught_up').length === times)
  }

  async isAway(): Promise<void> {
    await this.#watch.until(() => this.complaints.length > 0)
  }

  get complaints() {
    return this.#recorder.events('redis.away')
  }

  async close(): Promise<void> {
    for (const client of this.#clients) await client.close()
    await this.#server?.close()
    await this.#bus.close()
  }
}

describe('mcp: notify, where Redis is in trouble', () => {
  let redis: RedisServer
  let admin: Redis
  const undo: (() => unknown)[] = []

  beforeEach(async function () {
    skipIf(this, redisMissing())
    redis = await startRedis()
    admin = adminOf(redis)
  })
  afterEach(async () => {
    for (const one of undo.splice(0).reverse()) await one()
    await redis?.stop()
  })

  function adminOf({ port }: RedisServer): Redis {
    const made = new Redis(port, '127.0.0.1')
    made.on('error', () => undefined)
    undo.push(() => made.disconnect())
    return made
  }

  async function node({ connect }: RedisClientKind, { port }: RedisServer = redis): Promise<ListeningNode> {
    const client = await connect(port)
    undo.push(() => client.end())
    const made = new ListeningNode(client)
    undo.push(() => made.close())
    return await made.open()
  }

  /** Checks that notifications of each node reach the clients of both. */
  async function pass(one: ListeningNode, other: ListeningNode): Promise<void> {
    for (const speaker of [one, other]) {
      speaker.notifyAll()
      await Promise.all([one.hears(ALL), other.hears(ALL)])
    }
  }

  for (const kind of REDIS_CLIENTS) {
    describe(`with ${kind.name}`, () => {
      it('a notification reaches clients of its node while Redis is away, and the others when it is back, and telemetry reports both', async () => {
        const [one, other] = [await node(kind), await node(kind)]
        await pass(one, other)
        await redis.kill()
        await Promise.all([one.isAway(), other.isAway()])
        one.notifyAll()
        await one.hears(ALL)
        await Promise.all([one.isServing(), other.isServing()])
        expect(other.received).to.deep.equal(other.received.map(() => []))

        await redis.start()
        await Promise.all([one.caughtUp(2), other.caughtUp(2), one.hears(LISTS), other.hears(LISTS)])
        await pass(one, other)
        for (const { complaints } of [one, other]) {
          expect(complaints).to.have.length(1)
          expect(complaints[0]).to.have.property('level', 'warn')
          expect(complaints[0]?.error?.message).to.match(/^Redis channel mcp-gatekit:events: /)
        }
      })

      it('notifications pass between nodes while Redis is full', async () => {
        const [one, other] = [await node(kind), await node(kind)]
        await admin.config('SET', 'maxmemory', '1')
        const refusal = await admin.set('a', 'b').catch((error: Error) => error.message)
        expect(refusal).to.match(/^OOM/)
        await pass(one, other)
        await Promise.all([one.isServing(), other.isServing()])
        await admin.config('SET', 'maxmemory', '0')
        expect(await admin.set('a', 'b')).to.equal('OK')
        await pass(one, other)
        expect([...one.complaints, ...other.complaints]).to.deep.equal([])
      })

      it('nodes at a read-only replica receive notifications of each other and of the master, but the master does not receive theirs', async () => {
        const replica = await startRedis()
        undo.push(() => replica.stop())
        const replicaAdmin = adminOf(replica)
        await admin.config('SET', 'repl-diskless-sync-delay', '0')
        await replicaAdmin.replicaof('127.0.0.1', redis.port)
        while (!(await replicaAdmin.info('replication')).includes('master_link_status:up'))
          await new Promise((resolve) => setTimeout(resolve, 50))
        const refusal = await replicaAdmin.set('a', 'b').catch((error: Error) => error.message)
        expect(refusal).to.match(/^READONLY/)
        const [one, other, atMaster] = [
          await node(kind, replica),
          await node(kind, replica),
          await node(kind),
        ]
        await pass(one, other)
        expect(atMaster.received).to.deep.equal(atMaster.received.map(() => []))
        atMaster.notifyAll()
        await Promise.all([one, other, atMaster].map((node) => node.hears(ALL)))
        await Promise.all([one.isServing(), other.isServing()])

        await replicaAdmin.replicaof('NO', 'ONE')
        expect(await replicaAdmin.set('a', 'b')).to.equal('OK')
        await pass(one, other)
        expect([...one.complaints, ...other.complaints]).to.deep.equal([])
      })
    })
  }
})
