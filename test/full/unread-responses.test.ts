import { once } from 'node:events'
import { createServer } from 'node:http'
import { constants } from 'node:http2'
import { type AddressInfo, connect, type Socket } from 'node:net'
import { expect } from 'chai'
import { createMcpAdapter, KitMcpRouter, mcpHandler } from '../../src/index.ts'
import { listenHttp2 } from '../support/http2.ts'
import { call, definedOf, legacy, modern } from '../support/mcp/wire.ts'

const router = KitMcpRouter.create().tool('large', { description: 'x' }, () => 'x'.repeat(20_000_000))

const REQUESTS = [
  modern('tools/call', { name: 'large' }),
  legacy(call('large')),
  legacy([call('large', {}, 1), call('large', {}, 2)], { 'mcp-protocol-version': '2025-03-26' }),
]

describe('responses that are not read', function () {
  this.timeout(200_000)

  // Both take two minutes, so they run at the same time.
  let ends: Promise<readonly unknown[]>
  before(() => {
    ends = Promise.all([overHttp1(), overHttp2()])
    ends.catch(() => undefined)
  })

  it('a connection of HTTP/1.1 whose client takes nothing of its response is closed after 60 to 130 seconds', async () => {
    await ends
  })

  it('a stream of HTTP/2 whose client takes nothing of its response is canceled after 60 to 130 seconds', async () => {
    const [, codes] = await ends
    expect(codes).to.deep.equal(REQUESTS.map(() => constants.NGHTTP2_CANCEL))
  })
})

async function overHttp1(): Promise<void> {
  const server = createServer(mcpHandler(createMcpAdapter({ router })))
  await once(server.listen(0, '127.0.0.1'), 'listening')
  const clients: Socket[] = []
  const closed: Promise<unknown>[] = []
  for (const { headers = {}, body = '' } of REQUESTS) {
    const accepted = once(server, 'connection')
    const client = connect((server.address() as AddressInfo).port, '127.0.0.1')
    clients.push(client.on('error', () => undefined).pause())
    const [socket] = (await accepted) as [Socket]
    closed.push(new Promise((resolve) => socket.once('close', resolve)))
    const lines = Object.entries(definedOf(headers)).map(([name, value]) => `${name}: ${value}\r\n`)
    client.write(
      `POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\n${lines.join('')}Content-Length: ${body.length}\r\n\r\n${body as string}`,
    )
  }
  await Promise.all(closed)
  for (const client of clients) client.destroy()
  server.close()
}

/** Returns the codes with which the streams end. */
async function overHttp2(): Promise<number[]> {
  const server = await listenHttp2(mcpHandler(createMcpAdapter({ router })))
  const client = await server.connect()
  const codes = await Promise.all(
    REQUESTS.map(async ({ headers = {}, body = '' }) => {
      const stream = client.request({ ':method': 'POST', ':path': '/mcp', ...definedOf(headers) })
      stream.on('error', () => undefined).pause()
      const closed = once(stream, 'close')
      stream.end(body)
      await closed
      return stream.rstCode
    }),
  )
  await server.close()
  return codes
}
