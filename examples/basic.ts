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

// ISSUER: your authorization server. RESOURCE: the URL of this server as clients see it, with /mcp at its end.
const { ISSUER = '', RESOURCE = '' } = process.env

const router = KitMcpRouter.create().tool(
  'greet',
  { description: 'Greets someone', input: z.object({ name: z.string() }) },
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
