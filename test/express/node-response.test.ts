import { once } from 'node:events'
import { type ClientHttp2Session, connect, constants } from 'node:http2'
import { connect as connectTcp } from 'node:net'
import { expect } from 'chai'
import { writeResponse } from '../../src/express/node-response.ts'
import { createMcpAdapter, KitMcpRouter, mcpHandler } from '../../src/index.ts'
import { Http2Exchange, type Http2Listening, listenHttp2 } from '../support/http2.ts'
import { listen } from '../support/listen.ts'
import { definedOf, modern } from '../support/mcp/wire.ts'
import { RawConnection } from '../support/raw-http.ts'

/** The time after which a response that is not read is cut off, instead of 60 s. */
const UNREAD_MS = 1_000

const router = KitMcpRouter.create().tool('text', { description: 'x' }, (_args, { request }) =>
  'x'.repeat(Number(request.headers.get('x-size'))),
)

/** Makes the timers of 60 s shorter. Returns a function that ends this. */
function shortenTimers(): () => void {
  const { setTimeout } = globalThis
  globalThis.setTimeout = ((run: () => void, ms: number) =>
    setTimeout(run, ms === 60_000 ? UNREAD_MS : ms)) as typeof setTimeout
  return () => {
    globalThis.setTimeout = setTimeout
  }
}

describe('responses over HTTP/2', function () {
  this.timeout(60_000)
  let server: Http2Listening
  afterEach(() => server.close())

  describe('on a connection whose client reads some of them', () => {
    let session: ClientHttp2Session
    let restoreTimers: () => void
    beforeEach(async () => {
      restoreTimers = shortenTimers()
      server = await listenHttp2(mcpHandler(createMcpAdapter({ router })))
      // The client announces how much it takes of each response before it reads.
      session = connect(`http://127.0.0.1:${server.port}`, { settings: { initialWindowSize: 1_000 } })
      await once(session, 'connect')
    })
    afterEach(() => {
      restoreTimers()
      session.destroy()
    })

    const begin = (size: number) => {
      const { headers = {}, body } = modern('tools/call', { name: 'text' })
      const stream = session.request({
        ':method': 'POST',
        ':path': '/mcp',
        ...definedOf(headers),
        'x-size': String(size),
      })
      stream.on('error', () => undefined).end(body)
      return stream
    }

    /** Returns the number of characters of the text in a response, which ends without an error. */
    const read = async (size: number): Promise<number> => {
      const stream = begin(size)
      let text = ''
      for await (const chunk of stream.setEncoding('utf8')) text += chunk
      expect(stream.rstCode).to.equal(constants.NGHTTP2_NO_ERROR)
      return JSON.parse(text).result.content[0].text.length
    }

    /** Resolves with the code with which a response ends that is not read. */
    const leave = async (size: number): Promise<number | undefined> => {
      const stream = begin(size)
      await once(stream.pause(), 'close')
      return stream.rstCode
    }

    it('each response that is read arrives complete, and each other one is canceled, whatever their sizes', async () => {
      // A count that is not given back after a round would stop the requests of a later one.
      for (let round = 0; round < 3; round++) {
        const sizes = [100, 5_000, 60_000, 66_000, 200_000, 900_000]
        const [left, lengths] = await Promise.all([
          Promise.all([60_000, 100_000, 3_000_000, 60_000, 100_000, 3_000_000].map(leave)),
          Promise.all(sizes.map(read)),
        ])
        expect(lengths).to.deep.equal(sizes)
        expect(left).to.deep.equal(left.map(() => constants.NGHTTP2_CANCEL))
      }
    })

    it('many small responses that are not read do not stop the other requests of the connection', async () => {
      const left = Array.from({ length: 24 }, () => leave(60_000))
      expect(await read(100)).to.equal(100)
      expect(new Set(await Promise.all(left))).to.deep.equal(new Set([constants.NGHTTP2_CANCEL]))
    })
  })

  it('the time for a client that reads slowly begins again with each part that it takes', async () => {
    const { setTimeout, clearTimeout } = globalThis
    const begun: unknown[] = []
    const ended = new Set<unknown>()
    globalThis.setTimeout = ((run: () => void, ms: number) => {
      const timer = setTimeout(run, ms)
      if (ms === 60_000) begun.push(timer)
      return timer
    }) as typeof setTimeout
    globalThis.clearTimeout = (timer) => {
      ended.add(timer)
      clearTimeout(timer)
    }
    try {
      const body = 'x'.repeat(500_000)
      server = await listenHttp2(
        (req, res) => void writeResponse(req, res, { status: 200, headers: {}, body }),
      )
      const session = connect(`http://127.0.0.1:${server.port}`, { settings: { initialWindowSize: 1_000 } })
      const stream = session.request({ ':path': '/' })
      let bytes = 0
      let most = 0
      for await (const chunk of stream) {
        bytes += (chunk as Buffer).length
        most = Math.max(most, begun.filter((timer) => !ended.has(timer)).length)
      }
      session.destroy()
      expect(bytes).to.equal(body.length)
      expect([begun.length > 3, most]).to.deep.equal([true, 1])
      expect(begun.filter((timer) => !ended.has(timer))).to.deep.equal([])
    } finally {
      Object.assign(globalThis, { setTimeout, clearTimeout })
    }
  })

  for (const length of [10, 300_000])
    it(`a response of ${length} characters is complete before the stream of an incomplete request is closed`, async () => {
      const body = 'x'.repeat(length)
      server = await listenHttp2(
        (req, res) => void writeResponse(req, res, { status: 200, headers: {}, body }),
      )
      const exchange = new Http2Exchange(await server.connect())
      exchange.stream.write('the beginning of a body')
      const { text, rstCode } = await exchange.closed
      expect(text).to.equal(body)
      expect(rstCode).to.equal(constants.NGHTTP2_NO_ERROR)
    })

  it('an event stream that fails does not look complete', async () => {
    const failing = () => {
      let sent = 0
      return new ReadableStream({
        pull(controller) {
          if (sent++ === 2) controller.error(new Error('failed'))
          else controller.enqueue(Buffer.from('data: x\n\n'))
        },
      })
    }
    server = await listenHttp2((req, res) => {
      const headers = { 'Content-Type': 'text/event-stream' }
      void writeResponse(req.resume(), res, { status: 200, headers, body: failing() })
    })
    const exchange = new Http2Exchange(await server.connect())
    exchange.stream.end()
    expect((await exchange.closed).rstCode).to.equal(constants.NGHTTP2_INTERNAL_ERROR)
  })
})

describe('responses over HTTP/1.1', () => {
  it('the connection of a client that takes nothing of its response is closed', async () => {
    const handler = mcpHandler(createMcpAdapter({ router }))
    let onClosed: () => void = () => undefined
    const closed = new Promise<void>((resolve) => {
      onClosed = resolve
    })
    const { port } = await listen((req, res) => {
      const { socket } = req
      const setTimeout = socket.setTimeout.bind(socket)
      socket.setTimeout = (ms) => setTimeout(Math.min(ms, UNREAD_MS))
      socket.once('close', onClosed)
      handler(req, res)
    })
    const { headers = {}, body = '' } = modern('tools/call', { name: 'text' })
    const sent = { ...definedOf(headers), 'x-size': '20000000', 'content-length': String(body.length) }
    const lines = Object.entries(sent).map(([name, value]) => `${name}: ${value}\r\n`)
    const client = connectTcp(port, '127.0.0.1').on('error', () => undefined)
    client.pause().write(`POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\n${lines.join('')}\r\n${body}`)
    await closed
    client.destroy()
  })
})

describe('plain responses', () => {
  for (const [status, method, body, length] of [
    [200, 'GET', 'text', '4'],
    [200, 'HEAD', 'text', '4'],
    [200, 'GET', undefined, '0'],
    [203, 'GET', undefined, '0'],
    // A response without a body must have no Content-Length (RFC 9110, section 8.6), or that of the response to a GET.
    [204, 'GET', undefined, undefined],
    [204, 'OPTIONS', undefined, undefined],
    [304, 'GET', undefined, undefined],
    [304, 'HEAD', undefined, undefined],
    [405, 'PUT', undefined, '0'],
    [404, 'GET', 'é', '2'],
  ] as const)
    it(`a response ${status} to ${method} with ${body === undefined ? 'no body' : `the body ${body}`} has ${length === undefined ? 'no Content-Length' : `the Content-Length ${length}`}`, async () => {
      const { port } = await listen(
        (req, res) => void writeResponse(req, res, { status, headers: {}, ...(body && { body }) }),
      )
      const connection = await RawConnection.open(port)
      const response = await connection.send(`${method} / HTTP/1.1\r\nHost: x\r\n\r\n`)
      connection.close()
      expect(response.status).to.equal(status)
      expect(response.header('content-length')).to.equal(length)
      expect(response.body).to.equal(method === 'HEAD' ? '' : (body ?? ''))
    })
})
