import type { AddressInfo } from 'node:net'
import express, { type Request } from 'express'
import {
  type AuthInfo,
  createMcpAdapter,
  type JwtUser,
  jwtVerifier,
  KitMcpRouter,
  mcpAuth,
  mcpCors,
  mcpHandler,
  protectedResourceRouter,
} from 'mcp-gatekit'
import { InMemoryTransportAdapter, KitTelemetry } from 'mcp-gatekit/telemetry'
import { createTestIssuer, type TestIssuer } from 'mcp-gatekit/testing'
import { z } from 'zod'

const issuer: TestIssuer = createTestIssuer()
const telemetry = KitTelemetry.create()
  .withService('consumer')
  .withEnvironment('test')
  .addTransport(InMemoryTransportAdapter.create())
  .build()
const router = KitMcpRouter.create()
  .user<JwtUser>()
  .tool(
    'greet',
    { description: 'Greets', input: z.object({ name: z.string() }), output: z.object({ text: z.string() }) },
    ({ name }, { auth }) => ({ text: `Hello, ${name.trim()}, from ${auth?.user?.id ?? 'unknown'}` }),
  )
const adapter = createMcpAdapter({
  router,
  telemetry,
  oauth: {
    issuer: issuer.issuer,
    resource: issuer.audience,
    scopes: ['mcp:read'],
    verifyToken: jwtVerifier(issuer.verifierOptions),
  },
})
/** Compiled, but never called. */
export function misspelled(): void {
  // @ts-expect-error The option is misspelled.
  createMcpAdapter({ router, oauht: {} })
}

const app = express()
app.use(protectedResourceRouter(adapter))
app.use('/mcp', mcpCors(), mcpAuth(adapter), mcpHandler(adapter))
app.get('/me', mcpAuth(adapter), (req, res) => {
  const { auth } = req as Request & { auth?: AuthInfo<JwtUser> }
  res.json(auth?.scopes)
})
const server = app.listen(0, '127.0.0.1', async () => {
  const { port } = server.address() as AddressInfo
  const token = await issuer.issueToken({ scopes: ['mcp:read'] })
  console.log(JSON.stringify({ url: `http://127.0.0.1:${port}/mcp`, token }))
})
