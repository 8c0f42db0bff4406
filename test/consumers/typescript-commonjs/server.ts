import type { AddressInfo } from 'node:net'
import express from 'express'
import { createMcpAdapter, jwtVerifier, KitMcpRouter, mcpServer } from 'mcp-gatekit'
import { toolsFromOpenApi } from 'mcp-gatekit/openapi'
import { KitTelemetry } from 'mcp-gatekit/telemetry'
import { createTelemetryRecorder, createTestIssuer } from 'mcp-gatekit/testing'
import { z } from 'zod'

// The compiler accepts this in CommonJS only.
if (typeof require !== 'function' || !__filename.endsWith('server.js'))
  throw new Error('This is not CommonJS')
if (require('mcp-gatekit').mcpServer !== mcpServer) throw new Error('The package is loaded twice')

const issuer = createTestIssuer()
const router = KitMcpRouter.create().tool(
  'greet',
  { description: 'Greets', input: z.object({ name: z.string() }) },
  ({ name }) => `Hello, ${name}`,
)

async function main(): Promise<void> {
  const app = express()
  app.get('/pets', (_req, res) => {
    res.json([])
  })
  const pets = await toolsFromOpenApi(
    {
      openapi: '3.1.0',
      info: { title: 'Pets', version: '1' },
      paths: { '/pets': { get: { operationId: 'listPets', responses: { 200: { description: 'All' } } } } },
    },
    { app },
  )
  const adapter = createMcpAdapter({
    router: router.merge('pets', pets),
    oauth: {
      issuer: issuer.issuer,
      resource: issuer.audience,
      scopes: ['mcp:read'],
      verifyToken: jwtVerifier(issuer.verifierOptions),
    },
    telemetry: KitTelemetry.create().addTransport(createTelemetryRecorder()).build(),
  })
  app.use(mcpServer(adapter))
  const server = app.listen(0, '127.0.0.1', async () => {
    const { port } = server.address() as AddressInfo
    const token = await issuer.issueToken({ scopes: ['mcp:read'] })
    console.log(JSON.stringify({ url: `http://127.0.0.1:${port}/mcp`, token }))
  })
}

void main()
