import { once } from 'node:events'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { connect } from 'node:net'
import { expect } from 'chai'
import { isCut, onceClosed } from '../../../src/base/http/response-close.ts'
import { Http2Exchange, listenHttp2 } from '../../support/http2.ts'
import { listen } from '../../support/listen.ts'
import { until } from '../../support/until.ts'

/** The requests of a server that responds to none of them, and how often their listeners were called. */
class Requests {
  readonly all: { readonly req: IncomingMessage; readonly res: ServerResponse; closed: number }[] = []

  readonly add = (req: IncomingMessage, res: ServerResponse): void => {
    const request = { req, res, closed: 0 }
    this.all.push(request)
    onceClosed(req, res, () => {
      request.closed++
    })
  }

  get closed(): readonly number[] {
    return this.all.map(({ closed }) => closed)
  }
}

const GET = 'GET / HTTP/1.1\r\nHost: localhost\r\n\r\n'

describe('onceClosed()', () => {
  for (const [count, what] of [
    [1, 'a request'],
    [3, 'each pipelined request'],
  ] as const) {
    it(`onceClosed() calls the listener of ${what} once if the client disconnects`, async () => {
      const requests = new Requests()
      const { port } = await listen(requests.add)
      const client = connect(port, '127.0.0.1').on('error', () => undefined)
      client.write(GET.repeat(count))
      await until(() => requests.all.length === count)
      expect(requests.closed).to.deep.equal(Array(count).fill(0))
      client.destroy()
      await until(() => requests.all.every(({ closed }) => closed > 0))
      await new Promise(setImmediate)
      expect(requests.closed).to.deep.equal(Array(count).fill(1))
      expect(requests.all.every(({ req, res }) => isCut(req, res))).to.equal(true)
      requests.add(requests.all[0]?.req as IncomingMessage, requests.all[0]?.res as ServerResponse)
      expect(requests.closed.at(-1)).to.equal(1)
    })

    it(`onceClosed() calls the listener of ${what} once after its response, and not again if the client disconnects`, async () => {
      const requests = new Requests()
      const { port } = await listen(requests.add)
      const client = connect(port, '127.0.0.1').on('error', () => undefined)
      client.resume().write(GET.repeat(count))
      await until(() => requests.all.length === count)
      for (const [index, { res }] of requests.all.entries()) {
        const closed = once(res, 'close')
        res.end('done')
        await closed
        expect(requests.closed.slice(0, index + 1)).to.deep.equal(Array(index + 1).fill(1))
      }
      const [{ req } = expect.fail()] = requests.all
      const gone = new Promise((resolve) => req.socket.once('close', resolve))
      client.destroy()
      await gone
      expect(requests.closed).to.deep.equal(Array(count).fill(1))
      expect(requests.all.some((request) => isCut(request.req, request.res))).to.equal(false)
    })
  }

  it('onceClosed() calls the listener of a request of HTTP/2 once if the client cancels it', async () => {
    const requests = new Requests()
    const served = await listenHttp2(requests.add as never)
    const { stream } = new Http2Exchange(await served.connect())
    await until(() => requests.all.length === 1)
    stream.close(8)
    await until(() => requests.all.every(({ closed }) => closed > 0))
    await served.close()
    expect(requests.closed).to.deep.equal([1])
  })
})
