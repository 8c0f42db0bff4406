import { once } from 'node:events'
import { inputRequired } from '@modelcontextprotocol/server'
import { expect } from 'chai'
import { Redis } from 'ioredis'
import { KitMcpRouter, mcpHandler, memoryTaskStore, type TaskStore } from '../../src/index.ts'
import { createMcpAdapter, type McpAdapter } from '../../src/mcp/adapter.ts'
import { TaskRunner } from '../../src/mcp/tasks/task-runner.ts'
import type { RedisScriptClient } from '../../src/redis/run-script.ts'
import { type RedisTaskStore, redisTaskStore } from '../../src/redis/task-store.ts'
import { expectConfigError } from '../support/config-error.ts'
import { TaskClient } from '../support/mcp/tasks.ts'
import { type Listening, listen } from '../support/mcp/wire.ts'
import { type RedisServer, redisMissing, startCuttingProxy, startRedis } from '../support/redis.ts'
import { REDIS_CLIENTS } from '../support/redis-clients.ts'
import { skipIf } from '../support/skip.ts'
import { until } from '../support/until.ts'

const ASK = { type: 'object' as const, properties: { ok: { type: 'boolean' as const } } }
const KEY = { owner: 'owner', id: 'id' }

/** Waits for `ms`, for an expiry that the store measures itself. */
const later = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms))

/** Tests the behavior that all stores share. */
function behavesAsStore(name: string, make: () => Promise<TaskStore>): void {
  const limits = (ttlMs = 60_000, max = 10, countedFor = 'owner') => ({
    expiresAtMs: Date.now() + ttlMs,
    countedFor,
    max,
  })
  let store: TaskStore
  beforeEach(async () => {
    store = await make()
  })

  it(`${name} returns a task that was added, by its owner and its id`, async () => {
    expect(await store.add(KEY, '{"é":1}', limits())).to.equal('added')
    expect(await store.get(KEY)).to.deep.include({ value: '{"é":1}', version: 1 })
    expect(await store.get({ ...KEY, owner: 'other' })).to.equal(undefined)
    expect(await store.get({ ...KEY, id: 'other' })).to.equal(undefined)
  })

  it(`${name} replaces a task only if it has the given version`, async () => {
    await store.add(KEY, 'a', limits())
    expect(await store.replace(KEY, 1, 'b')).to.equal('replaced')
    expect(await store.replace(KEY, 1, 'c')).to.equal('changed')
    expect(await store.get(KEY)).to.deep.include({ value: 'b', version: 2 })
    expect(await store.replace({ ...KEY, id: 'other' }, 1, 'c')).to.equal('changed')
  })

  it(`${name} accepts one of many changes at the same time`, async () => {
    await store.add(KEY, 'a', limits())
    const all = await Promise.all(Array.from({ length: 20 }, (_, index) => store.replace(KEY, 1, `${index}`)))
    expect(all.filter((one) => one === 'replaced')).to.have.length(1)
  })

  it(`${name} rejects a task beyond the limit, and accepts one for another counter`, async () => {
    for (const id of ['1', '2', '3']) await store.add({ ...KEY, id }, 'x', limits(60_000, 3))
    expect(await store.add({ ...KEY, id: '4' }, 'x', limits(60_000, 3))).to.equal('owner-full')
    expect(await store.add({ ...KEY, id: '5' }, 'x', limits(60_000, 3, 'another'))).to.equal('added')
    expect(await store.get({ ...KEY, id: '4' })).to.equal(undefined)
  })

  it(`${name} removes a task that has expired, and no longer counts it`, async () => {
    await store.add(KEY, 'x', limits(30, 1))
    await later(60)
    expect(await store.get(KEY)).to.equal(undefined)
    expect(await store.add({ ...KEY, id: 'next' }, 'x', limits(60_000, 1))).to.equal('added')
  })

  it(`${name} keeps the time of expiry when a task is replaced`, async () => {
    await store.add(KEY, 'x', limits(50))
    await store.replace(KEY, 1, 'y')
    await later(80)
    expect(await store.get(KEY)).to.equal(undefined)
  })
}

const router = KitMcpRouter.create()
  .tool('quick', { description: 'x', task: 'required' }, () => 'done')
  .tool('wait', { description: 'x', task: 'required' }, (_args, { signal }) => {
    running.push(signal)
    return once(signal, 'abort')
  })
  .tool('asks', { description: 'x', task: 'required' }, (_args, context) =>
    context.inputResponses.name === undefined
      ? context.inputRequired({ name: inputRequired.elicit({ message: '?', requestedSchema: ASK }) }, 'state')
      : JSON.stringify([context.inputResponses, context.state]),
  )

/** The signals of the calls of `wait`. */
let running: AbortSignal[] = []

describe('mcp/tasks: memoryTaskStore', () => {
  behavesAsStore('memoryTaskStore', async () => memoryTaskStore())

  it('memoryTaskStore gives one owner a quarter of its memory, and others the rest', async () => {
    const store = memoryTaskStore({ maxBytes: 20_000 })
    const limits = (countedFor: string) => ({ expiresAtMs: Date.now() + 60_000, countedFor, max: 100 })
    const value = 'x'.repeat(500)
    const outcomes: Record<string, string[]> = { eve: [], ada: [] }
    for (const [owner, list] of Object.entries(outcomes))
      for (let id = 0; id < 5; id++) list.push(await store.add({ owner, id: `${id}` }, value, limits(owner)))
    for (const list of Object.values(outcomes))
      expect(list).to.deep.equal(['added', 'added', 'added', 'store-full', 'store-full'])
    expect(await store.replace({ owner: 'eve', id: '0' }, 1, 'x'.repeat(2_000))).to.equal('store-full')
    expect(await store.replace({ owner: 'eve', id: '0' }, 1, '')).to.equal('replaced')
    expect(await store.add({ owner: 'eve', id: '5' }, value.slice(100), limits('eve'))).to.equal('added')
  })
})

describe('redis: redisTaskStore', () => {
  let redis: RedisServer
  before(async function () {
    skipIf(this, redisMissing())
    redis = await startRedis()
  })
  after(() => redis?.stop())

  for (const { name, connect } of REDIS_CLIENTS) {
    describe(`on ${name}`, () => {
      const undo: (() => unknown)[] = []
      let prefixes = 0
      let stores = 0
      let prefix = ''
      beforeEach(() => {
        running = []
        stores = 0
        prefix = `test:${name}:${prefixes++}`
      })
      afterEach(async () => {
        for (const one of undo.splice(0).reverse()) await one()
      })

      async function subscribers(channel: string): Promise<unknown> {
        const admin = new Redis(redis.port, '127.0.0.1')
        const [, count] = (await admin.pubsub('NUMSUB', channel)) as unknown[]
        admin.disconnect()
        return count
      }

      async function makeStore(): Promise<RedisTaskStore> {
        const client = await connect(redis.port)
        const store = redisTaskStore(client as unknown as RedisScriptClient, { prefix })
        stores++
        undo.push(async () => {
          await store.close()
          client.end()
        })
        return store
      }

      behavesAsStore(`redisTaskStore on ${name}`, makeStore)

      it(`redisTaskStore on ${name} reports a node as alive until its record expires`, async () => {
        const store = await makeStore()
        expect(await store.isAlive('node')).to.equal(false)
        await store.beat('node', 1_000)
        expect(await store.isAlive('node')).to.equal(true)
        await until(async () => !(await store.isAlive('node')), 10)
      })

      /** Starts a node of one server, connected to the others. */
      async function startNode(): Promise<Listening & { readonly adapter: McpAdapter; client: TaskClient }> {
        const store = await makeStore()
        await until(async () => (await subscribers(`${prefix}:changes`)) === stores, 5)
        const adapter = createMcpAdapter({ router, tasks: { store } })
        const server = await listen(mcpHandler(adapter))
        undo.push(async () => {
          await adapter.tasks.close()
          await server.close()
        })
        return { ...server, adapter, client: new TaskClient(server) }
      }

      it(`a task on ${name} is served by another node`, async () => {
        const [one, two] = [await startNode(), await startNode()]
        const id = await one.client.start('quick')
        expect((await two.client.settled(id)).result.content[0].text).to.equal('done')
      })

      it(`a task on ${name} that is cancelled on another node is aborted on its own`, async () => {
        const [one, two] = [await startNode(), await startNode()]
        const id = await one.client.start('wait')
        const aborted = once(running[0] as AbortSignal, 'abort')
        await two.client.cancel(id)
        await aborted
        expect((await one.client.get(id)).status).to.equal('cancelled')
      })

      it(`a task on ${name} goes on at the node that receives the answer`, async () => {
        const [one, two] = [await startNode(), await startNode()]
        const id = await one.client.start('asks')
        await two.client.settled(id, 'input_required')
        await two.client.update(id, { 'name#1': { action: 'accept', content: { ok: true } } })
        const { result } = await one.client.settled(id)
        expect(JSON.parse(result.content[0].text)).to.deep.equal([
          { name: { action: 'accept', content: { ok: true } } },
          'state',
        ])
      })

      it(`a task on ${name} is answered once if two nodes receive the answer at the same time`, async () => {
        const [one, two] = [await startNode(), await startNode()]
        const id = await one.client.start('asks')
        await one.client.settled(id, 'input_required')
        const answer = { 'name#1': { action: 'accept', content: { ok: true } } }
        await Promise.all([one.client.update(id, answer), two.client.update(id, answer)])
        expect((await one.client.settled(id)).status).to.equal('completed')
      })

      it(`a task on ${name} whose node does not report any more is failed on every node`, async () => {
        const [one, two] = [await startNode(), await startNode()]
        const store = await makeStore()
        const runner = new TaskRunner({ store, maxResultBytes: 1_000 }, 1)
        undo.push(() => runner.close())
        const id = await one.client.start('wait')
        const client = await connect(redis.port)
        undo.push(() => client.end())
        expect((await two.client.get(id)).status).to.equal('working')
        // The record of the node expires as if the node had stopped.
        const remove = 'for _, key in ipairs(redis.call("KEYS", ARGV[1])) do redis.call("DEL", key) end'
        const find = 'return redis.call("KEYS", ARGV[1])'
        const evaluate = async (script: string, pattern: string): Promise<unknown> => {
          const { eval: run } = client as unknown as { eval: (...args: unknown[]) => Promise<unknown> }
          return await (name === 'ioredis'
            ? run.call(client, script, 0, pattern)
            : run.call(client, script, { keys: [], arguments: [pattern] }))
        }
        await evaluate(remove, `${prefix}:node:*`)
        const [found] = (await evaluate(find, `${prefix}:*:task:${id}`)) as string[]
        const owner = /\{(.+)\}/.exec(found as string)?.[1] as string
        const failed = new Promise<void>((resolve) => {
          undo.push(runner.watch([{ owner, id }], (_id, record) => record?.status === 'failed' && resolve()))
        })
        await failed
        const task = await two.client.get(id)
        expect((await one.client.get(id)).status).to.equal('failed')
        expect(task.status).to.equal('failed')
        expect(task.error).to.deep.equal({
          code: -32_603,
          message: 'The server that ran the task has stopped.',
        })
      })
    })
  }

  it('a task whose commands ioredis sends again, because their replies were lost, is added and replaced once', async () => {
    const proxy = await startCuttingProxy(redis.port)
    const client = new Redis(proxy.port, '127.0.0.1')
    const store = redisTaskStore(client, { prefix: 'resent' })
    try {
      let cut = proxy.cutAnswerTo('ZREMRANGEBYSCORE')
      const limits = { expiresAtMs: Date.now() + 60_000, countedFor: 'owner', max: 1 }
      const adding = store.add(KEY, 'a', limits)
      await cut
      expect(await adding).to.equal('added')
      cut = proxy.cutAnswerTo("'CHANGE'")
      const replacing = store.replace(KEY, 1, 'b')
      await cut
      expect(await replacing).to.equal('replaced')
      expect(await store.get(KEY)).to.deep.equal({ value: 'b', version: 2 })
      expect(await store.replace(KEY, 1, 'b')).to.equal('changed')
    } finally {
      await store.close()
      client.disconnect()
      await proxy.close()
    }
  })

  it('tools and tasks/get respond with an error while Redis is down, and work again afterwards', async () => {
    const own = await startRedis()
    const kind = REDIS_CLIENTS[0] as (typeof REDIS_CLIENTS)[number]
    const client = await kind.connect(own.port)
    const store = redisTaskStore(client as unknown as RedisScriptClient)
    const adapter = createMcpAdapter({ router, tasks: { store } })
    const server = await listen(mcpHandler(adapter))
    const user = new TaskClient(server)
    try {
      const id = await user.start('quick')
      expect((await user.settled(id)).status).to.equal('completed')
      await own.kill()
      const [called, error] = await Promise.all([user.call('quick'), user.error('tasks/get', { taskId: id })])
      expect(called.isError).to.equal(true)
      expect(called.content[0].text).to.contain('The tool failed. Reference: ')
      expect(error).to.include({ code: -32_603, message: 'Tasks are not available. Try again later.' })
      await own.start()
      await until(async () => (await user.send('tasks/get', { taskId: id })).message.error === undefined, 50)
      expect((await user.run('quick')).status).to.equal('completed')
    } finally {
      await adapter.tasks.close()
      await store.close()
      client.end()
      await server.close()
      await own.stop()
    }
  })

  const client = {
    eval() {},
    publish() {},
    duplicate: () => ({ on() {}, subscribe() {} }),
  }
  it('redisTaskStore rejects for a reply that Redis does not give, and reads numbers and texts in both forms', async () => {
    const storeWith = (reply: unknown) => redisTaskStore({ ...client, eval: async () => reply })
    const limits = { expiresAtMs: Date.now() + 60_000, countedFor: 'owner', max: 1 }
    for (const reply of [undefined, null, 'OK', 2, -1, '', true, {}, ['1']]) {
      const store = storeWith(reply)
      const outcomes = await Promise.allSettled([
        ...[store.add(KEY, '{}', limits), store.replace(KEY, 1, '{}')],
        ...[store.get(KEY), store.isAlive('node')],
      ])
      const statuses = outcomes.map(({ status }) => status)
      // An array is the reply to the script that reads a task.
      if (Array.isArray(reply)) statuses[2] = 'rejected'
      expect(statuses, JSON.stringify(reply)).to.deep.equal(Array(4).fill('rejected'))
    }
    for (const reply of [1, '1', Buffer.from('1')]) {
      const store = storeWith(reply)
      expect(await store.add(KEY, '{}', limits)).to.equal('added')
      expect(await store.replace(KEY, 1, '{}')).to.equal('replaced')
      expect(await store.isAlive('node')).to.equal(true)
    }
    for (const reply of [
      ['{}', '3'],
      [Buffer.from('{}'), Buffer.from('3')],
    ])
      expect(await storeWith(reply).get(KEY)).to.deep.equal({ value: '{}', version: 3 })
    expect(await storeWith([null, null]).get(KEY)).to.equal(undefined)
    expect(
      await storeWith([1, '3'])
        .get(KEY)
        .catch(() => 'rejected'),
    ).to.equal('rejected')
  })

  const INVALID = 'MCP_CONFIG_INVALID_OPTION' as const
  const WRONG: readonly (readonly [string, () => unknown, Parameters<typeof expectConfigError>[1]])[] = [
    [
      'a URL instead of a client',
      () => redisTaskStore('redis://localhost' as never),
      { code: INVALID, option: 'client', message: /^client must be an ioredis or node-redis client/ },
    ],
    [
      'options that are not an object',
      () => redisTaskStore(client as never, 5 as never),
      { code: INVALID, option: 'options', message: /^options must be an object such as/ },
    ],
    [
      'an empty prefix',
      () => redisTaskStore(client as never, { prefix: '' }),
      { code: INVALID, option: 'prefix', message: /^prefix must be a non-empty string/ },
    ],
    [
      'an unknown option',
      () => redisTaskStore(client as never, { ttl: 5 } as never),
      { code: 'MCP_CONFIG_UNKNOWN_OPTION', option: 'ttl', message: /ttl/ },
    ],
  ]
  for (const [what, make, expected] of WRONG)
    it(`redisTaskStore rejects ${what}`, () => {
      expectConfigError(make, expected)
    })
})
