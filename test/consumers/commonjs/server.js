const express = require('express')
const { createMcpAdapter, jwtVerifier, KitMcpRouter, mcpAuth, mcpHandler } = require('mcp-gatekit')
const { z } = require('zod')

async function main() {
  const { createTestIssuer } = await import('mcp-gatekit/testing')
  const { mcpAuth: imported } = await import('mcp-gatekit')
  if (imported !== mcpAuth) throw new Error('import() and require() return different modules')

  const issuer = createTestIssuer()
  const router = KitMcpRouter.create().tool(
    'greet',
    { description: 'Greets', input: z.object({ name: z.string() }) },
    ({ name }) => `Hello, ${name}`,
  )
  const verifyToken = jwtVerifier(issuer.verifierOptions)
  const oauth = { issuer: issuer.issuer, resource: issuer.audience, scopes: ['mcp:read'], verifyToken }
  const adapter = createMcpAdapter({ router, oauth })
  const app = express()
  app.use('/mcp', mcpAuth(adapter), mcpHandler(adapter))
  const server = app.listen(0, '127.0.0.1', async () => {
    const token = await issuer.issueToken({ scopes: ['mcp:read'] })
    console.log(JSON.stringify({ url: `http://127.0.0.1:${server.address().port}/mcp`, token }))
  })
}

void main()
