import { expect } from 'chai'
import { boundedFetch, FetchRefusal, type OpenResponse } from '../../../src/base/http/bounded-fetch.ts'
import { listen } from '../../support/listen.ts'

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

  /** Fetches with a function that sends the request. Returns what it got, the outcome, and whether the signal has aborted. */
  async function fetchWith(send: () => Promise<OpenResponse>, maxBytes?: number) {
    let sent: (RequestInit & { readonly signal: AbortSignal }) | undefined
    const outcome = await boundedFetch(
      'http://a.test',
      { method: 'POST' },
      {
        ...(maxBytes !== undefined && { maxBytes }),
        send: (_, init) => {
          sent = init
          return send()
        },
      },
    ).catch((error: unknown) => error as Error)
    return { outcome, sent }
  }
  const respond = (status: number, chunks?: readonly Uint8Array[]) => async () => ({
    status,
    headers: new Headers(),
    body: chunks === undefined ? null : (ReadableStream.from(chunks) as AsyncIterable<Uint8Array>),
  })

  for (const [status, isValid] of [
    [199, false],
    [200, true],
    [599, true],
    [600, false],
  ] as const)
    it(`boundedFetch() ${isValid ? 'accepts' : 'refuses'} the status ${status}, and ends the request`, async () => {
      const { outcome, sent } = await fetchWith(respond(status))
      expect(sent).to.include({ method: 'POST', redirect: 'manual' })
      expect(sent?.signal.aborted).to.equal(true)
      if (isValid) expect((outcome as Response).status).to.equal(status)
      else
        expect(outcome)
          .to.be.instanceOf(FetchRefusal)
          .with.property('message', 'the status of the response is not valid')
    })

  for (const [size, isValid] of [
    [3, true],
    [4, false],
  ] as const)
    it(`boundedFetch() ${isValid ? 'reads' : 'refuses'} a body of ${size} bytes if the limit is 3 bytes`, async () => {
      const chunks = Array.from({ length: size }, () => new Uint8Array([120]))
      const { outcome } = await fetchWith(respond(200, chunks), 3)
      if (isValid) expect(await (outcome as Response).text()).to.equal('xxx')
      else
        expect(outcome)
          .to.be.instanceOf(FetchRefusal)
          .with.property('message', 'the response is larger than 3 bytes')
    })

  it('boundedFetch() sends nothing if the signal has aborted, and rejects with its reason', async () => {
    const reason = new Error('stop')
    let count = 0
    const send = () => {
      count++
      return respond(200)()
    }
    const signal = AbortSignal.abort(reason)
    const outcome = await boundedFetch('http://a.test', { signal }, { send }).catch((error: unknown) => error)
    expect({ outcome, count }).to.deep.equal({ outcome: reason, count: 0 })
  })

  it('boundedFetch() names only the code of a failure', async () => {
    const failure = Object.assign(new Error('http://a.test/S3cr3t'), { code: 'ECONNRESET' })
    const { outcome } = await fetchWith(() => Promise.reject(failure))
    expect((outcome as Error).message).to.equal('the request failed (ECONNRESET)')
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
