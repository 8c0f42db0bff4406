import { fuzzServingPaths, fuzzSockets } from '../support/every-message.ts'

describe('fifty thousand random messages', function () {
  this.timeout(600_000)

  it('random messages get exactly one response each, identical on the fast path and the SDK path', async () => {
    await fuzzServingPaths(40_000)
  })

  it('random messages over sockets get exactly one response each', async () => {
    await fuzzSockets(10_000)
  })
})
