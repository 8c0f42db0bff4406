import { fuzzServingPaths, fuzzSockets } from '../support/every-message.ts'

describe('ten thousand random messages', function () {
  this.timeout(600_000)

  it('random messages get exactly one response each, identical on the fast path and the SDK path', async () => {
    await fuzzServingPaths(8_000)
  })

  it('random messages over sockets get exactly one response each', async () => {
    await fuzzSockets(2_000)
  })
})
