import { disconnectAtRandom } from '../support/disconnects.ts'

describe('ten thousand clients that disconnect', function () {
  this.timeout(600_000)

  it('ten thousand clients that disconnect at random moments leave nothing behind, and the server still responds', async () => {
    await disconnectAtRandom(10_000, Date.now())
  })
})
