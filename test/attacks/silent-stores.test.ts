import { Redis } from 'ioredis'
import { silentStoreTests } from '../support/attacks/silent-stores.ts'
import { redisMissing } from '../support/redis.ts'
import { REDIS_CLIENTS, type RedisClientKind } from '../support/redis-clients.ts'
import { skipIf } from '../support/skip.ts'

const impatient: RedisClientKind = {
  name: 'ioredis with commandTimeout',
  async connect(port) {
    const client = new Redis(port, '127.0.0.1', { retryStrategy: () => 50, commandTimeout: 300 })
    client.on('error', () => undefined)
    return Object.assign(client, { end: () => client.disconnect() })
  },
}

describe('stores in Redis that does not answer', function () {
  // After ten seconds, the guard asks a store that does not answer less than once per second.
  this.timeout(240_000)
  before(function () {
    skipIf(this, redisMissing())
  })
  silentStoreTests([impatient, ...REDIS_CLIENTS.filter(({ name }) => name === 'node-redis')])
})
