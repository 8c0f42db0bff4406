import { fuzzFaces, fuzzSockets } from '../support/every-message.ts'

describe('fifty thousand random messages', function () {
  this.timeout(600_000)

  it('get exactly one answer each, the same by every way', async () => {
    await fuzzFaces(40_000)
  })

  it('get exactly one answer each over sockets', async () => {
    await fuzzSockets(10_000)
  })
})
