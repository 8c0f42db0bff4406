import { expect } from 'chai'
import { Redis } from 'ioredis'
import { KitTelemetry, StoreStreamTransportAdapter } from '../../src/telemetry/index.ts'
import { redisMissing, startRedis } from '../support/redis.ts'
import { skipIf } from '../support/skip.ts'
import { until } from '../support/until.ts'

describe('a store that is unavailable at shutdown', function () {
  this.timeout(240_000)
  before(function () {
    skipIf(this, redisMissing())
  })

  /** Emits a hundred events while Redis is unavailable, and shuts down until the deadline has passed. */
  async function shutDownWhileAway() {
    const server = await startRedis()
    const redis = new Redis({ port: server.port, retryStrategy: () => 20 })
    redis.on('error', () => {})
    const manager = KitTelemetry.create()
      .withSampling({ infoRate: 1 })
      .withLogger({ warn() {}, error() {} } as never)
      .addTransport(StoreStreamTransportAdapter.create({ store: redis }))
      .build()
    manager.emit('test.before')
    await manager.flush()
    await server.kill()
    for (let count = 0; count < 100; count++) manager.emit('test.away', { attributes: { count } })
    await manager.shutdown({ timeoutMs: 100 })
    expect(manager.stats().transports[0]).to.include({ accepted: 101, delivered: 1, pending: 100 })
    return { server, redis, ledger: () => manager.stats().transports[0] }
  }

  it('all events are delivered if Redis returns within 30 seconds of the shutdown', async () => {
    const { server, redis, ledger } = await shutDownWhileAway()
    await server.start()
    await until(() => ledger()?.pending === 0, 20)
    expect(ledger()).to.include({ delivered: 101, failed: 0, pending: 0 })
    expect(await redis.xlen('telemetry:events')).to.equal(101)
    redis.disconnect()
    await server.stop()
  })
})
