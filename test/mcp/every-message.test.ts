import { fuzzServingPaths, fuzzSockets } from '../support/every-message.ts'
import { runs } from '../support/runs.ts'

describe('mcp: every message', function () {
  this.timeout(60_000)

  it('every message gets exactly one response, the same on the fast path and by the SDK', async () => {
    await fuzzServingPaths(runs(1_500), 1)
  })

  it('every message gets exactly one response over sockets', async () => {
    await fuzzSockets(runs(400), 2)
  })
})
