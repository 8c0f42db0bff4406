import type { AddressInfo } from 'node:net'
import { fileURLToPath } from 'node:url'
import express, { type Express } from 'express'
import {
  COMMON_SECRET_KEYS,
  createMcpAdapter,
  DevConsoleTransportAdapter,
  gracefulShutdown,
  jwtVerifier,
  KitMcpRouter,
  KitTelemetry,
  mcpAuth,
  mcpCors,
  mcpHandler,
  protectedResourceRouter,
  type VerifyToken,
} from 'mcp-gatekit'
import { createTestIssuer } from 'mcp-gatekit/testing'
import { z } from 'zod'

/** The authorization server: yours, or that of `npx mcp-gatekit dev`. Without one, this server issues its own test token. */
const issuer: string | undefined = process.env.MCP_GATEKIT_ISSUER ?? process.env.ISSUER
/** The URL of this server as clients see it, which is the audience of its tokens. */
const resource = process.env.RESOURCE ?? 'http://127.0.0.1:3000/mcp'

const router = KitMcpRouter.create()
  .tool(
    'greet',
    { description: 'Greets someone', input: z.object({ name: z.string() }) },
    ({ name }) => `Hello, ${name}!`,
  )
  .tool(
    'forget',
    { description: 'Forgets someone', input: z.object({ name: z.string() }), scopes: ['mcp:write'] },
    ({ name }, { auth }) => `${auth?.clientId} has forgotten ${name}`,
  )

/** Events of the gate and the tools, which `npx mcp-gatekit dev` shows. Add a transport to send them to other destinations. */
const telemetry = KitTelemetry.create()
  .withService('my-server')
  .withSampling({ debugRate: 1, infoRate: 1 })
  .withRedaction({ denylistKeys: COMMON_SECRET_KEYS })
  .addTransport(DevConsoleTransportAdapter.create())
  .build()

/** Creates the server, which requires a token that `verifyToken` accepts. */
export function createApp(issuer: string, resource: string, verifyToken: VerifyToken): Express {
  const oauth = { issuer, resource, scopes: ['mcp:read'], verifyToken }
  const adapter = createMcpAdapter({
    router,
    oauth,
    telemetry,
    serverInfo: { name: 'my-server', version: '0.1.0' },
  })
  const app = express()
  app.use(protectedResourceRouter(adapter))
  app.use(new URL(resource).pathname, mcpCors(), mcpAuth(adapter), mcpHandler(adapter))
  return app
}

function start(): void {
  const testIssuer = issuer === undefined ? createTestIssuer({ audience: resource }) : undefined
  const accepted = testIssuer?.verifierOptions ?? { issuer: issuer as string, audience: resource }
  const app = createApp(accepted.issuer, resource, jwtVerifier(accepted))

  const wanted = Number(process.env.PORT ?? (new URL(resource).port || 3000))
  // A server that accepts test tokens must only be reachable from this machine.
  const host = testIssuer === undefined ? (process.env.HOST ?? '127.0.0.1') : '127.0.0.1'
  const server = app.listen(wanted, host, async (error) => {
    if (error) throw error
    const { address, port } = server.address() as AddressInfo
    console.log(`Listening on ${address}:${port}, press Ctrl-C to stop`)
    if (testIssuer === undefined) return
    const token = await testIssuer.issueToken({ scopes: ['mcp:read'], expiresIn: 3600 })
    const call = { name: 'greet', arguments: { name: 'Ada' } }
    const body = JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'tools/call', params: call })
    const url = `http://127.0.0.1:${port}${new URL(resource).pathname}`
    console.log(`ISSUER is not set. The server accepts this test token for one hour:

curl ${url} -H 'Authorization: Bearer ${token}' -H 'Content-Type: application/json' -H 'Accept: application/json, text/event-stream' -d '${body}'
`)
  })
  gracefulShutdown(server, { telemetry, signals: ['SIGINT', 'SIGTERM'] })
}

if (process.argv[1] === fileURLToPath(import.meta.url)) start()
