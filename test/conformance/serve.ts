import { createServer } from 'node:http'
import { mcpHandler } from '../../src/express/mcp-handler.ts'
import { createMcpAdapter, type McpAdapter } from '../../src/mcp/adapter.ts'
import { everything } from './everything.ts'

/** `node build/test/conformance/serve.js [port] [sessions]` serves the server of the conformance suite without a gate. */
const adapter: McpAdapter = createMcpAdapter({
  router: everything(() => adapter.notify),
  sessions: process.argv[3] === 'sessions',
  serverInfo: { name: 'everything', version: '1.0.0' },
})
const port = Number(process.argv[2] ?? 3999)
createServer(mcpHandler(adapter)).listen(port, '127.0.0.1', () => {
  process.stdout.write(`http://127.0.0.1:${port}/mcp\n`)
})
