import type { AddressInfo } from 'node:net'
import express from 'express'
import { jwtVerifier, KitMcpRouter, KitMcpServer, mcpAuth, mcpHandler, type OAuthOptions } from 'mcp-gatekit'
import { toolsFromOpenApi } from 'mcp-gatekit/openapi'
import { KitTelemetry } from 'mcp-gatekit/telemetry'
import { createTelemetryRecorder, createTestIssuer } from 'mcp-gatekit/testing'
import { z } from 'zod'

const issuer = createTestIssuer()
const oauth: OAuthOptions = {
  issuer: issuer.issuer,
  resource: issuer.audience,
  scopes: ['mcp:read'],
  verifyToken: jwtVerifier(issuer.verifierOptions),
}
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
const router = KitMcpRouter.create()
  .merge('pets', pets)
  .tool(
    'greet',
    { description: 'Greets', input: z.object({ name: z.string() }) },
    ({ name }) => `Hello, ${name}`,
  )
const telemetry = KitTelemetry.create()
  .withService('consumer')
  .withEnvironment('test')
  .addTransport(createTelemetryRecorder())
  .build()
const mcp = KitMcpServer.create().router(router).withOAuth(oauth).withTelemetry(telemetry).build()
app.use('/mcp', mcpAuth(mcp), mcpHandler(mcp))
const server = app.listen(0, '127.0.0.1', async () => {
  const { port } = server.address() as AddressInfo
  const token = await issuer.issueToken({ scopes: ['mcp:read'] })
  console.log(JSON.stringify({ url: `http://127.0.0.1:${port}/mcp`, token }))
})
