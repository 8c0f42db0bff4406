import { expect } from 'chai'
import { boundedFetch } from '../../src/http/bounded-fetch.ts'
import { listen } from '../support/listen.ts'

describe('boundedFetch()', () => {
  const MAX = 1_048_576

  /** Fetches a body in chunks of this size. */
  async function fetchChunks(size: number, chunkBytes: number): Promise<Response> {
    const { origin } = await listen((_, res) => {
      for (let left = size; left > 0; left -= chunkBytes)
        res.write(Buffer.alloc(Math.min(left, chunkBytes), 'x'))
      res.end()
    })
    return await boundedFetch(origin, {})
  }

  it('boundedFetch() reads a body of any size in chunks of any size', async () => {
    for (const [size, chunkBytes] of [
      [0, 1],
      [1, 1],
      [5_000, 1],
      [16_384, 16_384],
      [16_385, 5_000],
      [MAX, 65_536],
      [MAX, MAX],
    ] as const) {
      const response = await fetchChunks(size, chunkBytes)
      const text = await response.text()
      expect([text.length, text === 'x'.repeat(size)]).to.deep.equal([size, true])
    }
  })

  it('boundedFetch() fails for a body of more than 1 MiB', async () => {
    let thrown: unknown
    await fetchChunks(MAX + 1, 65_536).catch((error: unknown) => {
      thrown = error
    })
    expect((thrown as Error).message).to.match(/larger than 1048576 bytes/)
  })

  it('boundedFetch() keeps status and headers, and does not follow redirects', async () => {
    for (const status of [204, 302, 304, 404]) {
      const { origin } = await listen((_, res) => {
        res.writeHead(status, { location: '/elsewhere', 'x-test': 'yes' }).end()
      })
      const response = await boundedFetch(origin, {})
      expect([response.status, response.headers.get('x-test')]).to.deep.equal([status, 'yes'])
      expect(await response.text()).to.equal('')
    }
  })
})
