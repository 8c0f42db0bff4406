import { once } from 'node:events'
import { connect } from 'node:net'
import { mcpHandler } from '../../src/express/mcp-handler.ts'
import { createMcpAdapter } from '../../src/mcp/adapter.ts'
import { KitMcpRouter } from '../../src/mcp/router/router.ts'
import { listenHttp2 } from '../support/http2.ts'
import { listen } from '../support/listen.ts'
import { call, definedOf, legacy, modern, type WireRequest } from '../support/mcp/wire.ts'

const router = KitMcpRouter.create().tool('large', { description: 'x' }, () => 'x'.repeat(20_000_000))

const REQUESTS: Readonly<Record<string, WireRequest>> = {
  'a JSON response': modern('tools/call', { name: 'large' }),
  'an event stream with one event': legacy(call('large')),
  'the event stream of a batch': legacy([call('large', {}, 1), call('large', {}, 2)], {
    'mcp-protocol-version': '2025-03-26',
  }),
}

describe('responses that are not read', function () {
  this.timeout(200_000)

  it('a connection whose client takes nothing of its response is closed after 60 seconds, also over HTTP/2', async () => {
    const handler = mcpHandler(createMcpAdapter({ router }))
    const { port } = await listen(handler)
    const served = await listenHttp2(handler)
    const closed: Promise<unknown>[] = []
    for (const { headers = {}, body = '' } of Object.values(REQUESTS)) {
      const socket = connect(port, '127.0.0.1').on('error', () => undefined)
      await once(socket, 'connect')
      const lines = Object.entries(definedOf(headers)).map(([name, value]) => `${name}: ${value}\r\n`)
      socket.pause()
      socket.write(
        `POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\n${lines.join('')}Content-Length: ${body.length}\r\n\r\n${body as string}`,
      )
      closed.push(
        (async () => {
          await new Promise((resolve) => setTimeout(resolve, 150_000))
          // What the system has received is read, and then the end of the connection.
          socket.resume()
          await new Promise((resolve) => socket.once('close', resolve))
        })(),
      )
      const session = await served.connect()
      const stream = session.request({ ':method': 'POST', ':path': '/mcp', ...definedOf(headers) })
      stream.on('error', () => undefined).end(body)
      closed.push(new Promise((resolve) => stream.once('close', resolve)))
    }
    await Promise.all(closed)
    await served.close()
  })
})
