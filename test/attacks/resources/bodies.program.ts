// An adapter in a small heap. Its arguments are `maxBodyBytes`, and `oauth` if it requires tokens.
import { once } from 'node:events'
import { createServer } from 'node:http'
import { mcpHandler } from '../../../src/express/mcp-handler.ts'
import { createMcpAdapter } from '../../../src/mcp/adapter.ts'
import { KitMcpRouter } from '../../../src/mcp/router/router.ts'
import { reportReady } from '../../support/attacks/resource-report.ts'
import { oauthOptions } from '../../support/gate-app.ts'

const [maxBodyBytes, protection] = process.argv.slice(2)
const adapter = createMcpAdapter({
  router: KitMcpRouter.create().tool('hello', { description: 'x' }, () => 'hello'),
  oauth: protection === 'oauth' ? oauthOptions() : undefined,
  maxBodyBytes: Number(maxBodyBytes),
  bodyTimeoutMs: 600_000,
})
const server = createServer(mcpHandler(adapter))
await once(server.listen(0, '127.0.0.1'), 'listening')
reportReady(server)
