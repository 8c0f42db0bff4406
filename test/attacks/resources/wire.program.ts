// A public server with large lists, resources, and results. Its argument is `sessions` or empty.
import { once } from 'node:events'
import { createServer } from 'node:http'
import { z } from 'zod'
import { mcpHandler } from '../../../src/express/mcp-handler.ts'
import { createMcpAdapter } from '../../../src/mcp/adapter.ts'
import { KitMcpRouter } from '../../../src/mcp/router/router.ts'
import { reportReady } from '../../support/attacks/resource-report.ts'
import { oauthOptions } from '../../support/gate-app.ts'

const MB = 1_000_000
const page = 'x'.repeat(MB)
let router = KitMcpRouter.create()
  .resource('page', { uri: 'test://page', public: true }, () => page)
  .tool('large', { description: 'x', public: true }, () => Buffer.alloc(3 * MB, 'x').toString())
  .tool('wide', { description: 'x', public: true, input: z.looseObject({}) }, () => 'done')
for (let index = 0; index < 1_000; index++)
  router = router.tool(
    `tool-${index}`,
    { description: 'A tool with a long description. '.repeat(5) },
    () => 'x',
  )

const adapter = createMcpAdapter({
  router,
  oauth: oauthOptions({ anonymous: true }),
  ...(process.argv[2] === 'sessions' && { sessions: {} }),
})
const server = createServer(mcpHandler(adapter))
await once(server.listen(0, '127.0.0.1'), 'listening')
reportReady(server)
