import express from 'express'
import {
  createMcpAdapter,
  jwtVerifier,
  KitMcpRouter,
  mcpAuth,
  mcpCors,
  mcpHandler,
  protectedResourceRouter,
} from 'mcp-gatekit'
import { z } from 'zod'

// ISSUER is the URL of your authorization server. RESOURCE is the URL of this server as clients see it, including /mcp.
const { ISSUER = '', RESOURCE = '' } = process.env

const router = KitMcpRouter.create().tool(
  'greet',
  {
    title: 'Greet',
    description: 'Greets someone',
    input: z.object({ name: z.string() }),
    annotations: { readOnlyHint: true },
  },
  ({ name }) => `Hello, ${name}!`,
)
const oauth = {
  issuer: ISSUER,
  resource: RESOURCE,
  scopes: ['mcp:read'],
  verifyToken: jwtVerifier({ issuer: ISSUER, audience: RESOURCE }),
}
const adapter = createMcpAdapter({ router, oauth, serverInfo: { name: 'greeter', version: '1.0.0' } })

const app = express()
app.use('/mcp', mcpCors(), mcpAuth(adapter), mcpHandler(adapter))
app.use(protectedResourceRouter(adapter))
app.listen(3000)
