import express, { type Express } from 'express'
import {
  COMMON_SECRET_KEYS,
  createMcpAdapter,
  DevConsoleTransportAdapter,
  KitMcpRouter,
  KitTelemetry,
  type KitTelemetryManager,
  mcpServer,
  type OAuthOptions,
} from 'mcp-gatekit'
import { z } from 'zod'

const router = KitMcpRouter.create()
  .tool(
    'greet',
    {
      title: 'Greet',
      description: 'Greets someone',
      input: z.object({ name: z.string() }),
      annotations: { readOnlyHint: true, openWorldHint: false },
    },
    ({ name }) => `Hello, ${name}!`,
  )
  .tool(
    'forget',
    {
      title: 'Forget',
      description: 'Forgets someone',
      input: z.object({ name: z.string() }),
      scopes: ['mcp:write'],
      annotations: { destructiveHint: true, openWorldHint: false },
    },
    ({ name }, { auth }) => `${auth?.clientId} has forgotten ${name}`,
  )

/** Events of the gate and the tools, which `npx mcp-gatekit dev` shows. Add a transport to send them to other destinations. */
export const telemetry: KitTelemetryManager = KitTelemetry.create()
  .withService('my-server')
  .withSampling({ debugRate: 1, infoRate: 1 })
  .withRedaction({ denylistKeys: COMMON_SECRET_KEYS })
  .addTransport(DevConsoleTransportAdapter.create())
  .build()

/** Creates the server at the path of `oauth.resource`, which requires a token that `oauth.verifyToken` accepts. */
export function createApp(oauth: OAuthOptions): Express {
  const adapter = createMcpAdapter({
    router,
    oauth: { ...oauth, scopes: ['mcp:read'] },
    telemetry,
    unknownArguments: 'reject',
    serverInfo: { name: 'my-server', version: '0.1.0' },
  })
  const app = express()
  // Responds while the process works. `/ready` of server.ts also shows whether it takes new requests.
  app.get('/health', (_req, res) => void res.json({ status: 'ok' }))
  app.use(mcpServer(adapter))
  return app
}
