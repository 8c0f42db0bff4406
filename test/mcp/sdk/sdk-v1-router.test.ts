import { McpServer } from '@modelcontextprotocol/sdk/server/mcp.js'
import { expect } from 'chai'
import { createMcpAdapter, InMemoryTransportAdapter, KitTelemetry } from '../../../src/index.ts'

describe('a router function that returns a server of SDK v1', () => {
  for (const revision of ['2025-11-25', '2026-07-28'])
    it(`fails with an error that names both packages, for revision ${revision}`, async () => {
      const transport = InMemoryTransportAdapter.create()
      const telemetry = KitTelemetry.create().withService('test').addTransport(transport).build()
      const adapter = createMcpAdapter({
        // @ts-expect-error the compiler prints the same explanation
        router: () => new McpServer({ name: 'v1', version: '1.0.0' }),
        telemetry,
      })
      const meta = {
        'io.modelcontextprotocol/protocolVersion': revision,
        'io.modelcontextprotocol/clientInfo': { name: 'test', version: '1.0.0' },
        'io.modelcontextprotocol/clientCapabilities': {},
      }
      const params = revision === '2025-11-25' ? {} : { _meta: meta }
      const response = await adapter.server(
        new Request('http://localhost/mcp', {
          method: 'POST',
          headers: {
            'Content-Type': 'application/json',
            Accept: 'application/json, text/event-stream',
            'MCP-Protocol-Version': revision,
            'Mcp-Method': 'tools/list',
          },
          body: JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'tools/list', params }),
        }),
      )
      await response.text()
      await telemetry.shutdown()
      const events = JSON.stringify(transport.getEvents())
      expect(events).to.contain('@modelcontextprotocol/sdk 1.x')
      expect(events).to.contain('@modelcontextprotocol/server')
    })
})
