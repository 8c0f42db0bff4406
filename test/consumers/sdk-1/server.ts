import type { AddressInfo } from 'node:net'
import { McpServer } from '@modelcontextprotocol/sdk/server/mcp.js'
import { StreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/streamableHttp.js'
import express from 'express'
import { authOf, gracefulShutdown, jwtVerifier, mcpAuth, protectedResourceRouter } from 'mcp-gatekit/gate'
import { KitTelemetry } from 'mcp-gatekit/telemetry'
import { createTestIssuer } from 'mcp-gatekit/testing'
import { z } from 'zod'

// A server of version 1 of the SDK, behind the gate. Version 2 is not installed.
const issuer = createTestIssuer()
const oauth = {
  issuer: issuer.issuer,
  resource: issuer.audience,
  scopes: ['mcp:read'],
  verifyToken: jwtVerifier(issuer.verifierOptions),
}

function greeter(): McpServer {
  const server = new McpServer({ name: 'greeter', version: '1.0.0' })
  server.registerTool('greet', { description: 'Greets', inputSchema: { name: z.string() } }, ({ name }) => ({
    content: [{ type: 'text', text: `Hello, ${name}` }],
  }))
  return server
}

const app = express()
app.use(protectedResourceRouter(oauth))
app.all('/mcp', mcpAuth(oauth), async (req, res) => {
  if (authOf(req)?.clientId === undefined) throw new Error('there is not a verified token')
  const transport = new StreamableHTTPServerTransport()
  await greeter().connect(transport as Parameters<McpServer['connect']>[0])
  await transport.handleRequest(req, res)
})
const telemetry = KitTelemetry.create().build()
const listening = app.listen(0, '127.0.0.1', async () => {
  const { port } = listening.address() as AddressInfo
  const token = await issuer.issueToken({ scopes: ['mcp:read'] })
  gracefulShutdown(listening, { telemetry, signals: ['SIGTERM'] })
  console.log(JSON.stringify({ url: `http://127.0.0.1:${port}/mcp`, token }))
})
