// A server over stdio with a tool that returns 3 MB.
import { serveStdio } from '../../../src/index.ts'
import { KitMcpRouter } from '../../../src/mcp/router/router.ts'

const router = KitMcpRouter.create().tool('large', { description: 'Returns 3 MB' }, () =>
  'x'.repeat(3_000_000),
)

serveStdio(router)
