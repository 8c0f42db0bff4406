import { once } from 'node:events'
import { createServer } from 'node:http'
import { type AddressInfo, connect, type Socket } from 'node:net'
import { mcpHandler } from '../../src/express/mcp-handler.ts'
import { createMcpAdapter } from '../../src/mcp/adapter.ts'
import { KitMcpRouter } from '../../src/mcp/router/router.ts'
import { call, definedOf, legacy, modern } from '../support/mcp/wire.ts'

const router = KitMcpRouter.create().tool('large', { description: 'x' }, () => 'x'.repeat(20_000_000))

const REQUESTS = [
  modern('tools/call', { name: 'large' }),
  legacy(call('large')),
  legacy([call('large', {}, 1), call('large', {}, 2)], { 'mcp-protocol-version': '2025-03-26' }),
]

describe('responses that are not read', function () {
  this.timeout(200_000)

  it('a connection of HTTP/1.1 whose client takes nothing of its response is closed after 60 to 130 seconds', async () => {
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
  })
})
