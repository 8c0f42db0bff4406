import { AsyncLocalStorage } from 'node:async_hooks'
import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { expect } from 'chai'
import { createMcpAdapter, KitMcpRouter, mcpHandler } from '../../src/index.ts'
import { oauthOptions } from '../support/gate-app.ts'
import { listenHttp2 } from '../support/http2.ts'
import { call, definedOf, type Listening, legacy, listen, modern, rpc, send } from '../support/mcp/wire.ts'
import { standstill, until } from '../support/until.ts'

const TEXT = 'x'.repeat(1024 * 1024)
const CALLS = 50

/** The number of results that the buffers of the system may take from the server. */
const IN_SOCKETS = 10

let begun = 0
let release: () => void = () => undefined
const released = new Promise<void>((resolve) => {
  release = resolve
})

const router = KitMcpRouter.create()
  .tool('large', { description: 'x' }, () => {
    begun++
    return TEXT
  })
  .tool('hang', { description: 'x' }, async (_args, { signal }) => void (await once(signal, 'abort')))
  .tool('wait', { description: 'x' }, async () => {
    begun++
    await released
    return 'done'
  })

/** Returns a call as it is sent over HTTP/1.1. */
function rawCall(name: string, id = 1): string {
  const { headers = {}, body = '' } = legacy(call(name, {}, id))
  const lines = Object.entries(definedOf(headers)).map(([header, value]) => `${header}: ${value}\r\n`)
  return `POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\n${lines.join('')}Content-Length: ${body.length}\r\n\r\n${body as string}`
}

const rawCalls = (name: string, count: number): string =>
  Array.from({ length: count }, (_, id) => rawCall(name, id)).join('')

describe('attacks with many requests on one connection', function () {
  this.timeout(60_000)
  let server: Listening
  let socket: Socket
  beforeEach(async () => {
    begun = 0
    server = await listen(mcpHandler(createMcpAdapter({ router })))
    socket = connect(server.port, '127.0.0.1').on('error', () => undefined)
    await once(socket, 'connect')
  })
  afterEach(async () => {
    socket.destroy()
    await server.close()
  })

  const expectServed = async (): Promise<void> => {
    expect((await server.send(legacy(rpc('tools/list')))).status).to.equal(200)
  }

  it(`connections: ${CALLS} pipelined calls with results of 1 MiB, which are not read: only those begin whose earlier responses are sent up to 1 MiB, and all are served when the client reads`, async () => {
    socket.write(rawCalls('large', CALLS))
    await standstill(() => begun, 10)
    expect(begun).to.be.within(1, IN_SOCKETS + 3)
    await expectServed()
    let received = 0
    for await (const chunk of socket) {
      received += (chunk as Buffer).length
      if (begun === CALLS && received > CALLS * TEXT.length) break
    }
    expect(begun).to.equal(CALLS)
  })

  it('connections: 100 pipelined calls that do not end: at most 9 run at a time, and all get their response', async () => {
    socket.write(rawCalls('wait', 100))
    await standstill(() => begun, 10)
    expect(begun).to.be.within(5, 9)
    release()
    let text = ''
    for await (const chunk of socket.setEncoding('latin1')) {
      text += chunk
      if (text.split('HTTP/1.1 200').length > 100) break
    }
    expect(begun).to.equal(100)
  })

  it('connections: 1,500 pipelined calls that never end: the connection is closed, and others are served', async () => {
    socket.write(rawCalls('hang', 1_500))
    await new Promise((resolve) => socket.once('close', resolve))
    await expectServed()
  })

  it('connections: 100 pipelined calls that never end, of a client that disconnects: no token is verified for those that wait', async () => {
    let verified = 0
    const verifyToken = async () => ({ valid: ++verified > 0 })
    const adapter = createMcpAdapter({ router, oauth: oauthOptions({ verifyToken }) })
    const guarded = await listen(mcpHandler(adapter))
    const client = connect(guarded.port, '127.0.0.1')
    client.write(rawCalls('hang', 100).replaceAll('POST /mcp HTTP/1.1', '$&\r\nAuthorization: Bearer x'))
    await until(() => verified >= 5)
    client.destroy()
    await guarded.close()
    // At most one request begins in each turn of the event loop.
    for (let turn = 0; turn < 300; turn++) await new Promise(setImmediate)
    expect(verified).to.be.within(5, 9)
  })

  it(`connections: ${CALLS} calls on one connection of HTTP/2, with results of 1 MiB, which are not read: only a few begin, and all are served when the client reads`, async () => {
    const served = await listenHttp2(mcpHandler(createMcpAdapter({ router })))
    const session = await served.connect()
    const { headers = {}, body } = legacy(call('large'))
    const streams = Array.from({ length: CALLS }, () => {
      const stream = session.request({ ':method': 'POST', ':path': '/mcp', ...definedOf(headers) })
      stream.end(body)
      return stream
    })
    await standstill(() => begun, 10)
    expect(begun).to.be.within(1, 5)
    const lengths = await Promise.all(
      streams.map(async (stream) => {
        let length = 0
        for await (const chunk of stream) length += (chunk as Buffer).length
        return length
      }),
    )
    expect(lengths.every((length) => length > TEXT.length)).to.equal(true)
    expect(begun).to.equal(CALLS)
    await served.close()
  })

  it('a pipelined request does not see the asynchronous context of another request', async () => {
    const context = new AsyncLocalStorage<string>()
    const seen: unknown[] = []
    const handler = mcpHandler(
      createMcpAdapter({
        router: KitMcpRouter.create().tool('look', { description: 'x' }, () => {
          seen.push(context.getStore())
          return 'seen'
        }),
      }),
    )
    let count = 0
    const { port, close } = await listen((req, res) =>
      context.run(`request ${++count}`, () => handler(req, res)),
    )
    const client = connect(port, '127.0.0.1')
    client.write(rawCalls('look', 20))
    await until(() => seen.length === 20)
    expect(seen).to.deep.equal(Array.from({ length: 20 }, (_, index) => `request ${index + 1}`))
    client.destroy()
    await close()
  })

  for (const [outcome, verified] of [
    ['served', true],
    ['refused', false],
  ] as const) {
    it(`a request that is ${outcome} sets no timer for the rest of its body if that came with its head`, async () => {
      const oauth = oauthOptions({ verifyToken: async () => ({ valid: verified }) })
      const { port, close } = await listen(mcpHandler(createMcpAdapter({ router, oauth })))
      const { setTimeout } = globalThis
      const set: unknown[] = []
      globalThis.setTimeout = ((...args: Parameters<typeof setTimeout>) => {
        set.push(args[1])
        return setTimeout(...args)
      }) as typeof setTimeout
      try {
        const request = modern('tools/call', { name: 'large' }, { authorization: 'Bearer x' })
        const { status } = await send(port, request)
        expect(status).to.equal(verified ? 200 : 401)
        // The time in which a client can read an early response.
        expect(set).not.to.include(5_000)
      } finally {
        globalThis.setTimeout = setTimeout
        await close()
      }
    })
  }
})
