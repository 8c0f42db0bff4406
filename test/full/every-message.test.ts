import { fuzzFaces, fuzzSockets } from '../support/every-message.ts'

describe('a hundred thousand random messages', function () {
  this.timeout(600_000)

  it('get exactly one answer each, the same by every way', async () => {
    await fuzzFaces(80_000)
  })

  it('get exactly one answer each over sockets', async () => {
    await fuzzSockets(20_000)
  })
})
