// A server with sessions that believes every token, `<user>` or `<user>-wide`.
import { createServer } from 'node:http'
import { z } from 'zod'
import { mcpHandler } from '../../../src/express/mcp-handler.ts'
import { createMcpAdapter } from '../../../src/mcp/adapter.ts'
import { KitMcpRouter } from '../../../src/mcp/router/router.ts'
import { reportReady } from '../../support/attacks/resource-report.ts'

const router = KitMcpRouter.create()
  .tool('echo', { description: 'Echoes', input: z.object({ text: z.string() }) }, ({ text }) => text)
  .tool('big', { description: 'Returns many bytes' }, () => 'x'.repeat(3_000_000))
  .tool('report', { description: 'Reports 1,100 times' }, async (_args, { progress }) => {
    for (let n = 0; n < 1_100; n++) await progress(n, undefined, 'x'.repeat(300))
    return 'done'
  })
  .tool('flood', { description: 'Reports without waiting' }, async (_args, { progress, log }) => {
    for (let n = 0; n < 60_000; n++) {
      void progress(n, undefined, 'x'.repeat(1_000))
      void log('info', 'x'.repeat(1_000))
      if (n % 100 === 0) await new Promise(setImmediate)
    }
    return 'done'
  })
  .resourceTemplate('note', { uriTemplate: 'notes://{id}' }, () => 'x')

const adapter = createMcpAdapter({
  router,
  sessions: true,
  oauth: {
    anonymous: true,
    issuer: 'https://auth.example.com',
    resource: 'https://mcp.example.com/mcp',
    verifyToken: ({ bearerToken }) =>
      bearerToken === undefined ? undefined : { valid: true, user: { id: bearerToken }, clientId: 'web' },
  },
})

const server = createServer((req, res) => {
  if (req.url !== '/notify') return mcpHandler(adapter)(req, res)
  for (let n = 0; n < 1_000; n++) {
    adapter.notify.toolsChanged()
    adapter.notify.resourceUpdated(`notes://${n % 100}`)
  }
  res.end('sent')
})
server.listen(0, '127.0.0.1', () => reportReady(server))
