import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { mcpHandler } from '../../../src/express/mcp-handler.ts'
import { KitMcpRouter } from '../../../src/mcp/router/router.ts'
import { createMcpAdapter } from '../../../src/mcp/server.ts'
import { oauthOptions } from '../../support/gate-app.ts'

// Serves one adapter with OAuth and one without, and writes their ports. Its argument is `maxBodyBytes`.
const maxBodyBytes = Number(process.argv[2])
const router = KitMcpRouter.create().tool('hello', { description: 'x' }, () => 'hello')
const ports: number[] = []
for (const oauth of [oauthOptions(), undefined]) {
  const server = createServer(
    mcpHandler(createMcpAdapter({ router, oauth, maxBodyBytes, bodyTimeoutMs: 600_000 })),
  )
  await once(server.listen(0, '127.0.0.1'), 'listening')
  ports.push((server.address() as AddressInfo).port)
}
console.log(JSON.stringify(ports))
