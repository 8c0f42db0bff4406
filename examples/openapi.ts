import { createServer } from 'node:http'
import express from 'express'
import {
  type AuthInfo,
  createMcpAdapter,
  gracefulShutdown,
  jwtVerifier,
  mcpAuth,
  mcpHandler,
} from 'mcp-gatekit'
import { toolsFromOpenApi } from 'mcp-gatekit/openapi'

// An application that has routes, and a document of them, becomes an MCP server: its routes are the tools.
const { ISSUER = '', RESOURCE = '', PORT = '3000' } = process.env

const api = express()
api.use(express.json())
api.get('/orders/:id', (req, res) => {
  // Called as a tool, a route finds the verified user where mcpAuth leaves it, and no token to pass on.
  const { user } = (req as typeof req & { auth?: AuthInfo<{ id: string }> }).auth ?? {}
  res.json({ id: req.params.id, customer: user?.id ?? 'nobody', state: 'shipped' })
})

const document = {
  openapi: '3.1.0',
  info: { title: 'Orders', version: '1.0.0' },
  paths: {
    '/orders/{id}': {
      get: {
        operationId: 'getOrder',
        summary: 'One order',
        parameters: [{ name: 'id', in: 'path', required: true, schema: { type: 'string' } }],
        responses: {
          200: { description: 'The order', content: { 'application/json': { schema: { type: 'object' } } } },
        },
        security: [{ oauth: ['orders:read'] }],
      },
    },
  },
  components: { securitySchemes: { oauth: { type: 'oauth2', flows: {} } } },
}

const adapter = createMcpAdapter({
  router: await toolsFromOpenApi(document, { app: api }),
  oauth: {
    issuer: ISSUER,
    resource: RESOURCE,
    verifyToken: jwtVerifier({ issuer: ISSUER, audience: RESOURCE }),
  },
})

const app = express()
const server = createServer(app)
// SIGTERM: no longer ready, idle connections and event streams ended, running calls finished, and then the end.
const shutdown = gracefulShutdown(server, { signals: ['SIGTERM', 'SIGINT'] })
app.get('/ready', shutdown.readiness())
app.use('/mcp', mcpAuth(adapter), mcpHandler(adapter))
server.listen(Number(PORT), '127.0.0.1', () => console.log('listening', server.address()))
