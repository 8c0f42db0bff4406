import { createServer } from 'node:http'
import express from 'express'
import {
  authOf,
  createMcpAdapter,
  gracefulShutdown,
  type JwtUser,
  jwtVerifier,
  mcpAuth,
  mcpHandler,
} from 'mcp-gatekit'
import { toolsFromOpenApi } from 'mcp-gatekit/openapi'

// Turns the routes of an Express application with an OpenAPI document into MCP tools.
const { ISSUER = '', RESOURCE = '', PORT = '3000' } = process.env

const api = express()
api.use(express.json())
api.get('/orders/:id', (req, res) => {
  // In a tool call, req.auth contains the verified user. The token is not passed to the route.
  res.json({ id: req.params.id, customer: authOf<JwtUser>(req)?.user?.id ?? 'unknown', state: 'shipped' })
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
// On SIGTERM, the readiness check fails, idle connections and event streams close, and running calls finish.
const shutdown = gracefulShutdown(server, { signals: ['SIGTERM', 'SIGINT'] })
app.get('/ready', shutdown.readiness())
app.use('/mcp', mcpAuth(adapter), mcpHandler(adapter))
server.listen(Number(PORT), '127.0.0.1', () => console.log('listening', server.address()))
