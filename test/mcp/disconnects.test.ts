import { disconnectAtRandom } from '../support/disconnects.ts'

describe('mcp: clients that hang up', function () {
  this.timeout(60_000)

  it('at every moment of a request cost nothing, and the server goes on', async () => {
    await disconnectAtRandom(300, 1)
  })
})
