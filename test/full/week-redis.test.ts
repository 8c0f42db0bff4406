import { expect } from 'chai'
import fc from 'fast-check'
import { Redis } from 'ioredis'
import { RateLimiterRedis } from 'rate-limiter-flexible'
import { redisTaskStore } from '../../src/redis/task-store.ts'
import { type RedisServer, redisMissing, startRedis } from '../support/redis.ts'
import { skipIf } from '../support/skip.ts'
import { encode, RedisData } from '../week/redis-data.ts'

const HOUR_MS = 3_600_000
const key = fc.constantFrom('one', 'two')
const text = fc.string({ maxLength: 5 })

/** Commands that the product sends. No key expires during the test. */
const command = fc.oneof(
  fc.tuple(fc.constant('GET'), key),
  fc.tuple(fc.constant('GETDEL'), key),
  fc.tuple(fc.constant('DEL'), key),
  fc.tuple(fc.constant('EXISTS'), key),
  fc.tuple(fc.constant('SET'), key, text, fc.constant('PX'), fc.constant(String(HOUR_MS))),
  fc.tuple(fc.constant('SET'), key, text, fc.constant('PX'), fc.constant(String(HOUR_MS)), fc.constant('NX')),
  fc.tuple(fc.constant('SET'), key, text, fc.constant('PX'), fc.constant('0')),
  fc.tuple(fc.constant('XADD'), key, fc.constant('*'), text, text),
  fc.tuple(
    fc.constant('XREVRANGE'),
    key,
    fc.constant('+'),
    fc.constant('-'),
    fc.constant('COUNT'),
    fc.constant('3'),
  ),
)

describe('the Redis of the simulation', function () {
  this.timeout(240_000)
  let server: RedisServer
  let redis: Redis

  before(async function () {
    skipIf(this, redisMissing())
    server = await startRedis()
    redis = new Redis(server.port, '127.0.0.1')
  })
  after(async () => {
    redis?.disconnect()
    await server?.stop()
  })

  /** Runs a command in both. Returns both replies, without the ids of entries, which contain the time. */
  async function both(model: RedisData, [name = '', ...args]: readonly string[]) {
    const withoutIds = (reply: unknown) => JSON.stringify(reply)?.replace(/\d{13}-\d+/g, 'id')
    const real = await redis
      .call(name, ...args)
      .catch((error: Error) => `error ${error.message.split(' ')[0]}`)
    const reply = model.run([name, ...args])
    const text = encode(reply)
    const modelled = text.startsWith('-')
      ? `error ${text.slice(1).split(' ')[0]}`
      : text.startsWith('+')
        ? text.slice(1).trim()
        : reply
    return { real: withoutIds(real), modelled: withoutIds(modelled) }
  }

  it('replies to commands as a real one does', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(command, { maxLength: 20 }), async (commands) => {
        await redis.flushall()
        const model = new RedisData(Date.now)
        for (const one of commands) {
          const { real, modelled } = await both(model, one)
          expect(modelled, one.join(' ')).to.equal(real)
        }
      }),
    )
  })

  it('runs the script of RateLimiterRedis as a real one does', async () => {
    await redis.flushall()
    const model = new RedisData(Date.now)
    const storeClient = {
      async eval(script: string, { keys, arguments: args }: { keys: string[]; arguments: string[] }) {
        const command = ['EVAL', script, String(keys.length), ...keys, ...args]
        const [real, modelled] = [await redis.call(...(command as [string])), model.run(command)]
        expect((modelled as number[])[0]).to.equal((real as number[])[0])
        expect((modelled as number[])[1]).to.be.closeTo((real as number[])[1] as number, 5_000)
        return real
      },
    }
    const limiter = new RateLimiterRedis({ storeClient, useRedisPackage: true, points: 2, duration: 60 })
    for (let call = 0; call < 3; call++) await limiter.consume('ada').catch(() => undefined)
    expect((await limiter.consume('ada').catch((rejection) => rejection)).consumedPoints).to.equal(4)
  })

  it('runs the scripts of redisTaskStore as a real one does', async () => {
    const operation = fc.record({
      kind: fc.constantFrom('add', 'get', 'replace'),
      id: fc.constantFrom('a', 'b', 'c'),
      version: fc.integer({ min: 1, max: 3 }),
      value: text,
    })
    await fc.assert(
      fc.asyncProperty(fc.array(operation, { maxLength: 15 }), async (operations) => {
        await redis.flushall()
        const model = new RedisData(Date.now)
        const client = {
          async eval(...args: (string | number)[]) {
            const { real, modelled } = await both(model, ['EVAL', ...args.map(String)])
            expect(modelled).to.equal(real)
            return JSON.parse(String(real))
          },
          set: () => undefined,
          exists: () => undefined,
          publish: () => 0,
          duplicate: () => ({
            subscribe: () => undefined,
            unsubscribe: () => undefined,
            on: () => undefined,
            off: () => undefined,
          }),
        }
        const store = redisTaskStore(client)
        for (const { kind, id, version, value } of operations) {
          const task = { owner: 'ada', id }
          if (kind === 'add')
            await store.add(task, value, { expiresAtMs: Date.now() + HOUR_MS, countedFor: 'ada', max: 2 })
          else if (kind === 'get') await store.get(task)
          else await store.replace(task, version, value)
        }
        await store.close()
      }),
    )
  })
})
