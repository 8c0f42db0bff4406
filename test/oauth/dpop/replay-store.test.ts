import { expect } from 'chai'
import fc from 'fast-check'
import { Redis } from 'ioredis'
import { createClient } from 'redis'
import { type DpopReplayStore, MemoryReplayStore } from '../../../src/oauth/dpop/replay-store.ts'
import { redisReplayStore } from '../../../src/redis/replay-store.ts'
import { type RedisServer, redisMissing, startRedis } from '../../support/redis.ts'
import { skipIf } from '../../support/skip.ts'
import { nowSeconds } from '../../support/tokens.ts'

describe('replay stores', () => {
  const later = () => nowSeconds() + 60

  async function takesOnce(store: DpopReplayStore): Promise<void> {
    expect(await store.use('a', later())).to.equal(true)
    expect(await store.use('b', later())).to.equal(true)
    expect(await store.use('a', later())).to.equal(false)
    expect(await store.use('b', later())).to.equal(false)
    const raced = await Promise.all(Array.from({ length: 20 }, () => store.use('c', later())))
    expect(raced.filter((one) => one)).to.have.length(1)
  }

  describe('in memory', () => {
    it('a memory store accepts a key once', () => takesOnce(new MemoryReplayStore()))

    it('a memory store accepts each of many keys once, in any order', () => {
      fc.assert(
        fc.property(fc.array(fc.string({ maxLength: 2 })), (keys) => {
          const store = new MemoryReplayStore(1_000)
          const fresh = keys.filter((key) => store.use(key, later()))
          expect(fresh).to.deep.equal([...new Set(keys)])
        }),
      )
    })

    it('a memory store drops a key when it expires', async () => {
      const store = new MemoryReplayStore()
      const soon = Date.now() / 1000 + 0.1
      expect(store.use('a', soon)).to.equal(true)
      expect(store.use('a', soon)).to.equal(false)
      await new Promise((resolve) => setTimeout(resolve, 120))
      expect(store.use('a', later())).to.equal(true)
    })

    it('a memory store that a user floods rejects dropped proofs of that user and accepts proofs of others', () => {
      const store = new MemoryReplayStore(100)
      const [early, late] = [later(), later() + 1]
      expect(store.use('of the victim', early, 'victim')).to.equal(true)
      for (let flood = 0; flood < 1_000; flood++) {
        expect(store.use(`of the attacker ${flood}`, late + flood, 'attacker')).to.equal(true)
      }
      expect(store.use('of the victim', early, 'victim')).to.equal(false)
      expect(store.use('of the victim, as old', early, 'victim')).to.equal(false)
      expect(store.use('of the victim, newer', late, 'victim')).to.equal(true)
      expect(store.use('of the attacker 0', late, 'attacker')).to.equal(false)
      expect(store.use('of another user', early, 'another user')).to.equal(true)
    })

    it('a memory store never accepts a proof twice, for any number of proofs of at most as many keys as it stores', () => {
      const uses = fc.array(fc.record({ key: fc.nat(5), jti: fc.nat(20), age: fc.nat(3) }), {
        maxLength: 200,
      })
      fc.assert(
        fc.property(uses, fc.integer({ min: 6, max: 20 }), (given, maxEntries) => {
          const store = new MemoryReplayStore(maxEntries)
          const end = later()
          const taken = new Set<string>()
          for (const { key, jti, age } of given) {
            const proof = `${key} ${jti} ${age}`
            if (!store.use(proof, end - age, String(key))) continue
            expect(taken.has(proof)).to.equal(false)
            taken.add(proof)
          }
        }),
      )
    })

    it('a memory store has a bounded size', () => {
      const store = new MemoryReplayStore(2)
      for (const key of ['a', 'b', 'c']) store.use(key, later())
      expect(store.use('c', later())).to.equal(false)
      expect(store.use('a', later())).to.equal(true)
    })
  })

  describe('in Redis', () => {
    let redis: RedisServer
    before(async function () {
      skipIf(this, redisMissing())
      redis = await startRedis()
    })
    after(() => redis?.stop())

    it('a Redis store accepts a key once, with ioredis, node-redis, and both together', async () => {
      const ioredis = new Redis(redis.port, '127.0.0.1')
      const nodeRedis = createClient({ url: `redis://127.0.0.1:${redis.port}` })
      await nodeRedis.connect()
      try {
        await takesOnce(redisReplayStore(ioredis, 'one:'))
        await takesOnce(redisReplayStore(nodeRedis, 'two:'))
        const shared = [redisReplayStore(ioredis), redisReplayStore(nodeRedis)] as const
        expect(await shared[0].use('x', later())).to.equal(true)
        expect(await shared[1].use('x', later())).to.equal(false)
        expect(await ioredis.ttl('mcp-gatekit:dpop:x')).to.be.within(118, 121)
        // An expired key is still stored, for a node whose clock is slow.
        expect(await shared[1].use('past', nowSeconds() - 5)).to.equal(true)
        expect(await ioredis.ttl('mcp-gatekit:dpop:past')).to.be.within(59, 61)
      } finally {
        ioredis.disconnect()
        nodeRedis.destroy()
      }
    })
  })

  it('a Redis store accepts a key only if Redis replies with OK, and rejects for a reply other than OK and null', async () => {
    const replyTo = (reply: unknown) =>
      Promise.resolve(redisReplayStore({ set: async () => reply }).use('a', later())).catch(() => 'rejected')
    for (const [reply, outcome] of [
      ['OK', true],
      [Buffer.from('OK'), true],
      [null, false],
      ...[undefined, 0, 1, '', 'ok', 'QUEUED', true, false, [], ['OK'], {}, Buffer.from('QUEUED')].map(
        (odd) => [odd, 'rejected'] as const,
      ),
    ] as const)
      expect(await replyTo(reply), JSON.stringify(reply)).to.equal(outcome)
  })
})
