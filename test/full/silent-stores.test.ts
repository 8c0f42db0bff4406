import { silentStoreTests } from '../support/attacks/silent-stores.ts'
import { redisMissing } from '../support/redis.ts'
import { REDIS_CLIENTS } from '../support/redis-clients.ts'
import { skipIf } from '../support/skip.ts'

describe('stores in Redis that does not answer', function () {
  // The stores of tasks and of the facade have a timeout of 5 s.
  this.timeout(240_000)
  before(function () {
    skipIf(this, redisMissing())
  })
  silentStoreTests(REDIS_CLIENTS)
})
