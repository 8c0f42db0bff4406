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

/** Your authorization server, or that of `npx mcp-gatekit dev`. Without one this server issues a token of its own, to try it out on this machine. */
const issuer: string | undefined = process.env.MCP_GATEKIT_ISSUER ?? process.env.ISSUER
/** This server as its clients see it: what a token must be meant for. */
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
    ({ name }, { auth }) => `${auth?.clientId} wants ${name} forgotten`,
  )

/** What the gate decides and the tools do. `npx mcp-gatekit dev` shows it; add a transport for wherever it shall go. */
const telemetry = KitTelemetry.create()
  .withService('my-server')
  .withSampling({ debugRate: 1, infoRate: 1 })
  .withRedaction({ denylistKeys: COMMON_SECRET_KEYS })
  .addTransport(DevConsoleTransportAdapter.create())
  .build()

/** The server, for whoever brings a token that `verifyToken` accepts. */
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
  // What accepts test tokens is for this machine only.
  const host = testIssuer === undefined ? (process.env.HOST ?? '127.0.0.1') : '127.0.0.1'
  const server = app.listen(wanted, host, async (error) => {
    if (error) throw error
    const { address, port } = server.address() as AddressInfo
    console.log(`Listening on ${address}:${port}, Ctrl-C stops`)
    if (testIssuer === undefined) return
    const token = await testIssuer.issueToken({ scopes: ['mcp:read'], expiresIn: 3600 })
    const call = { name: 'greet', arguments: { name: 'Ada' } }
    const body = JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'tools/call', params: call })
    const url = `http://127.0.0.1:${port}${new URL(resource).pathname}`
    console.log(`Without ISSUER it accepts this token, for an hour:

curl ${url} -H 'Authorization: Bearer ${token}' -H 'Content-Type: application/json' -H 'Accept: application/json, text/event-stream' -d '${body}'
`)
  })
  gracefulShutdown(server, { telemetry, signals: ['SIGINT', 'SIGTERM'] })
}

if (process.argv[1] === fileURLToPath(import.meta.url)) start()
