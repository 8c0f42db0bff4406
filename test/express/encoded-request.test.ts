import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { expect } from 'chai'
import { mcpHandler } from '../../src/express/mcp-handler.ts'
import { createMcpAdapter } from '../../src/mcp/adapter.ts'
import { KitMcpRouter } from '../../src/mcp/router/router.ts'

describe('mcpHandler behind middleware that has set an encoding', () => {
  for (const text of ['Ada', 'Zoë']) {
    it(`a body that comes with its headers is read: ${text}`, async () => {
      const router = KitMcpRouter.create().tool('echo', { description: 'Echoes' }, () => text)
      const handler = mcpHandler(createMcpAdapter({ router }))
      const server = createServer((req, res) => {
        req.setEncoding('utf8')
        handler(req, res)
      }).listen(0, '127.0.0.1')
      await once(server, 'listening')
      try {
        const { port } = server.address() as AddressInfo
        const params = { name: 'echo', arguments: { name: text } }
        const response = await fetch(`http://127.0.0.1:${port}/`, {
          method: 'POST',
          headers: { 'Content-Type': 'application/json', Accept: 'application/json, text/event-stream' },
          body: JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'tools/call', params }),
        })
        expect(response.status).to.equal(200)
        expect(await response.text()).to.contain(text)
      } finally {
        server.close()
        server.closeAllConnections()
      }
    })
  }
})
