import { expect } from 'chai'
import { Redis } from 'ioredis'
import { RateLimiterMemory, RateLimiterRedis, RateLimiterUnion } from 'rate-limiter-flexible'
import { createClient } from 'redis'
import { createMcpAdapter, KitMcpRouter, mcpHandler } from '../../../../src/index.ts'
import { LimitStoreState } from '../../../../src/mcp/operations/limits/call-counters.ts'
import type { CallLimit, LimitStore } from '../../../../src/mcp/router/limits.ts'
import { onNode, type Served } from '../../../support/mcp/entry-points.ts'
import { oauth } from '../../../support/mcp/notes.ts'
import { bearer, call, legacy } from '../../../support/mcp/wire.ts'
import { type RedisServer, redisMissing, startRedis } from '../../../support/redis.ts'
import { skipIf } from '../../../support/skip.ts'
import { keepingEvents } from '../../../support/telemetry/recording.ts'

const RETRY = 'mcp-gatekit/retry_after_seconds'
const SECRET = 'a-password-of-redis-0123456789'

const router = KitMcpRouter.create()
  .tool('ping', { description: 'x' }, () => 'pong')
  .tool('rare', { description: 'x', limits: { calls: { max: 1, perSeconds: 60, by: 'user' } } }, () => 'x')

const { telemetry, transport } = keepingEvents()
const events = (name: string) =>
  transport.getEvents().filter((event) => event.name === `kit.mcp.limit.${name}`)

const TWO: CallLimit = { max: 2, perSeconds: 60, by: 'user' }

describe('mcp: counts of calls in a store', () => {
  const open: Served[] = []
  beforeEach(() => transport.clear())
  afterEach(() => Promise.all(open.splice(0).map((served) => served.close())))

  async function node(store: LimitStore, calls = TWO): Promise<Served> {
    const adapter = createMcpAdapter({ router, oauth: oauth(), telemetry, limits: { calls, store } })
    const served = await onNode(mcpHandler(adapter))
    open.push(served)
    return served
  }
  const ask = async (served: Served, token = 'reader', tool = 'ping') =>
    (await served.send(legacy(call(tool), bearer(token)))).message.result
  /** The calls that were refused, in order. */
  const refusals = async (served: Served, times: number, tool = 'ping') => {
    const refused: boolean[] = []
    for (let time = 0; time < times; time++)
      refused.push((await ask(served, 'reader', tool)).isError === true)
    return refused
  }

  it('calls beyond the points of a limiter in memory are refused, with its waiting time', async () => {
    const served = await node((options) => new RateLimiterMemory({ ...options, duration: 30 }))
    expect(await refusals(served, 3)).to.deep.equal([false, false, true])
    const refused = await ask(served)
    expect(refused._meta[RETRY]).to.be.oneOf([29, 30])
    expect(events('reached').map(({ attributes }) => attributes?.['limit.actual'])).to.deep.equal([3, 4])
    expect(events('unavailable')).to.deep.equal([])
  })

  it('a tool without a store of its own uses that of the adapter, with another prefix', async () => {
    const keys: string[] = []
    const served = await node(({ keyPrefix, ...options }) => {
      const limiter = new RateLimiterMemory(options)
      return {
        consume: (key, points) => {
          keys.push(`${keyPrefix}:${key}`)
          return limiter.consume(key, points)
        },
      }
    })
    expect(await refusals(served, 2, 'rare')).to.deep.equal([false, true])
    expect(keys).to.have.length(4)
    expect(keys.map((key) => key.replace(/[\w-]{43}$/, '<hash>'))).to.have.members([
      'mcp-gatekit:calls:user:<hash>',
      'mcp-gatekit:calls:rare:user:<hash>',
      'mcp-gatekit:calls:user:<hash>',
      'mcp-gatekit:calls:rare:user:<hash>',
    ])
    expect(new Set(keys).size).to.equal(2)
  })

  it('a rejection of a union of limiters refuses a call', async () => {
    const served = await node(
      ({ duration }) =>
        new RateLimiterUnion(
          new RateLimiterMemory({ keyPrefix: 'a', points: 5, duration: 1 }),
          new RateLimiterMemory({ keyPrefix: 'b', points: 1, duration }),
        ) as never,
    )
    expect(await refusals(served, 2)).to.deep.equal([false, true])
    expect(events('reached')[0]?.attributes).to.include({ 'limit.max': 2, 'limit.actual': 3 })
  })

  for (const [title, consume] of [
    ['rejects with an error', () => Promise.reject(new Error('ECONNREFUSED'))],
    ['rejects with undefined', () => Promise.reject(undefined)],
    ['rejects with a string', () => Promise.reject('READONLY')],
    [
      'throws',
      () => {
        throw new TypeError('closed')
      },
    ],
  ] as const) {
    it(`calls pass if the limiter ${title}, and one event says so`, async () => {
      const served = await node(() => ({ consume: consume as () => Promise<never> }))
      expect(await refusals(served, 5)).to.deep.equal([false, false, false, false, false])
      expect(await refusals(served, 2, 'rare')).to.deep.equal([false, false])
      const [event, ...others] = events('unavailable')
      expect(others).to.deep.equal([])
      expect(event?.level).to.equal('warn')
      expect(event?.attributes).to.include({ 'gen_ai.tool.name': 'ping' })
      expect(event?.attributes?.['error.type']).to.be.a('string')
    })
  }

  it('calls pass after 500 ms if the limiter hangs, and the following ones pass without asking it', async () => {
    let asked = 0
    const served = await node(() => ({
      consume: () => {
        asked++
        return new Promise(() => undefined)
      },
    }))
    const startedAt = performance.now()
    expect(await refusals(served, 1)).to.deep.equal([false])
    expect(performance.now() - startedAt).to.be.within(450, 2_000)
    expect(await refusals(served, 20)).to.deep.equal(new Array(20).fill(false))
    expect(await refusals(served, 3, 'rare')).to.deep.equal([false, false, false])
    expect(asked).to.equal(1)
    expect(events('unavailable')).to.have.length(1)
    expect(events('unavailable')[0]?.attributes).to.include({ 'error.type': 'TimeoutError' })
  })

  it('calls beyond the points of an insurance limiter are refused while the limiter hangs', async () => {
    const served = await node((options) =>
      Object.assign(
        { consume: () => new Promise<never>(() => undefined) },
        { insuranceLimiter: new RateLimiterMemory(options) },
      ),
    )
    // The first call waits for the limiter, and passes.
    expect(await refusals(served, 4)).to.deep.equal([false, false, false, true])
  })

  it('calls pass while a limiter and its insurance limiter hang, and neither gets a command for each call', async () => {
    let commands = 0
    const hanging = {
      consume() {
        commands++
        return new Promise<never>(() => undefined)
      },
    }
    const served = await node(() => ({ ...hanging, insuranceLimiter: hanging }))
    expect(await refusals(served, 8)).to.deep.equal(Array(8).fill(false))
    expect(commands).to.be.at.most(4)
  })

  it('failures of a store are reported again after 10 s', () => {
    const { now } = performance
    let nowMs = 0
    performance.now = () => nowMs
    try {
      const store = new LimitStoreState()
      let reports = 0
      const exchange = { telemetry: { record: () => reports++ } }
      const reportsAt = (ms: number) => {
        nowMs = ms
        store.report({ exchange } as never, new Error('x'))
        return reports
      }
      expect([0, 1, 9_999, 10_000, 19_999, 20_000].map(reportsAt)).to.deep.equal([1, 1, 1, 2, 2, 3])
    } finally {
      performance.now = now
    }
  })

  describe('in Redis', () => {
    let redis: RedisServer
    const clients: { disconnect(): void }[] = []
    before(async function () {
      skipIf(this, redisMissing())
      redis = await startRedis()
    })
    afterEach(() => {
      for (const client of clients.splice(0)) client.disconnect()
    })
    after(() => redis?.stop())

    const ioredis =
      (prefix: string, options: object = {}): LimitStore =>
      ({ keyPrefix, ...given }) => {
        const storeClient = new Redis(redis.port, '127.0.0.1', { retryStrategy: () => 50, ...options })
        storeClient.on('error', () => undefined)
        clients.push(storeClient)
        return new RateLimiterRedis({ storeClient, ...given, keyPrefix: `${prefix}:${keyPrefix}` })
      }

    it('two servers share the counts of calls, by user and by tool', async () => {
      const [one, two] = [await node(ioredis('shared')), await node(ioredis('shared'))]
      expect((await ask(one)).isError).to.equal(undefined)
      expect((await ask(two)).isError).to.equal(undefined)
      for (const served of [one, two]) {
        const refused = await ask(served)
        expect(refused.isError).to.equal(true)
        expect(refused._meta[RETRY]).to.be.within(55, 60)
      }
      expect((await ask(one, 'writer', 'rare')).isError).to.equal(undefined)
      expect((await ask(two, 'writer', 'rare')).content[0].text).to.include('at most 1 call of tool rare')
    })

    it('two servers share the counts of calls through node-redis', async () => {
      const store: LimitStore = (options) => {
        const storeClient = createClient({ url: `redis://127.0.0.1:${redis.port}` })
        storeClient.on('error', () => undefined)
        void storeClient.connect()
        clients.push({ disconnect: () => storeClient.destroy() })
        return new RateLimiterRedis({ storeClient, useRedisPackage: true, ...options })
      }
      const [one, two] = [await node(store), await node(store)]
      expect([...(await refusals(one, 1)), ...(await refusals(two, 2))]).to.deep.equal([false, false, true])
    })

    for (const [title, options] of [
      ['that queues commands', {}],
      ['that rejects commands', { enableOfflineQueue: false, maxRetriesPerRequest: 0 }],
    ] as const) {
      it(`a killed Redis lets calls pass, and counts again when it is back, with a client ${title}`, async () => {
        const served = await node(ioredis(title, { ...options, password: SECRET }))
        // A server without a password rejects the one of the client, and serves it all the same.
        while ((await refusals(served, 1))[0] === false && events('reached').length === 0) {
          /* The first calls may pass before the client has connected. */
        }
        await redis.kill()
        expect(await refusals(served, 4)).to.deep.equal([false, false, false, false])
        expect(events('unavailable')).to.have.length(1)
        expect(JSON.stringify(transport.getEvents())).not.to.include(SECRET)
        await redis.start()
        while ((await refusals(served, 1))[0] === false) {
          /* The client connects again. */
        }
      })
    }
  })
})
