import { disconnectAtRandom } from '../support/disconnects.ts'

describe('ten thousand clients that hang up', function () {
  this.timeout(600_000)

  it('at every moment of a request cost nothing, and the server goes on', async () => {
    await disconnectAtRandom(10_000, Date.now())
  })
})
