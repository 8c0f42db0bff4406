import { createServer } from 'node:http'
import express from 'express'
import { listen } from '../../../examples/listen.ts'
import { authorizationFacade, oidc } from '../../../src/authorization/index.ts'
import {
  createMcpAdapter,
  DevConsoleTransportAdapter,
  KitMcpRouter,
  KitTelemetry,
  mcpServer,
} from '../../../src/index.ts'
import { startOpenIdProvider } from '../../support/upstream/openid-provider.ts'

// Runs an MCP server behind the authorization facade as a process. It prints its origin. The user Ada may sign in only if
// the environment variable says so.

const app = express()
const origin = `http://127.0.0.1:${await listen(createServer(app), 0)}`
const { issuer, clientId, clientSecret } = await startOpenIdProvider('ada', [`${origin}/signin/callback`])
const telemetry = KitTelemetry.create()
  .withSampling({ debugRate: 1, infoRate: 1 })
  .addTransport(DevConsoleTransportAdapter.create())
  .build()
const facade = authorizationFacade({
  url: origin,
  resource: `${origin}/mcp`,
  upstream: oidc({ issuer, clientId, clientSecret, scopes: ['openid'] }),
  scopes: { 'mcp:read': 'Read your notes' },
  allow: () => process.env.TEST_ALLOW !== 'no',
  telemetry,
})
const router = KitMcpRouter.create().tool('greet', { description: 'Greets' }, () => 'Hello')
app.use(facade.router)
app.use(mcpServer(createMcpAdapter({ router, oauth: facade.oauth, telemetry })))
console.log(JSON.stringify({ origin }))
process.on('SIGTERM', () => process.exit(0))
