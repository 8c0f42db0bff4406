import { fuzzFaces, fuzzSockets } from '../support/every-message.ts'
import { runs } from '../support/runs.ts'

describe('mcp: every message', function () {
  this.timeout(60_000)

  it('gets exactly one answer, the same by the short way and the long one', async () => {
    await fuzzFaces(runs(1_500), 1)
  })

  it('gets exactly one answer over sockets', async () => {
    await fuzzSockets(runs(400), 2)
  })
})
