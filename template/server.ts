import type { AddressInfo } from 'node:net'
import { gracefulShutdown, jwtVerifier } from 'mcp-gatekit'
import { createTestIssuer } from 'mcp-gatekit/testing'
import { createApp, telemetry } from './app.ts'

const { PORT, HOST = '127.0.0.1' } = process.env
/** The authorization server: yours, or that of `npx mcp-gatekit dev`. Without one, this server issues its own test token. */
const issuer: string | undefined = process.env.MCP_GATEKIT_ISSUER ?? process.env.ISSUER
/** The URL of this server as clients see it, which is the audience of its tokens. */
const resource = process.env.RESOURCE ?? `http://127.0.0.1:${PORT ?? 3000}/mcp`

const testIssuer = issuer === undefined ? createTestIssuer({ audience: resource }) : undefined
const accepted = testIssuer?.verifierOptions ?? { issuer: issuer as string, audience: resource }
const app = createApp({ issuer: accepted.issuer, resource, verifyToken: jwtVerifier(accepted) })

const { port: portOfResource, pathname } = new URL(resource)
// A server that accepts test tokens must only be reachable from this machine.
const host = testIssuer === undefined ? HOST : '127.0.0.1'
const wanted = Number(PORT ?? (portOfResource || 3000))
const server = app.listen(wanted, host, async (error) => {
  if (error && 'code' in error && error.code === 'EADDRINUSE') {
    console.error(`Port ${wanted} is in use. Set PORT.`)
    process.exit(1)
  }
  if (error) throw error
  const { address, port } = server.address() as AddressInfo
  console.log(`Listening on ${address}:${port}, press Ctrl-C to stop`)
  if (testIssuer === undefined) return
  const token = await testIssuer.issueToken({ scopes: ['mcp:read'], expiresIn: 3600 })
  const call = { name: 'greet', arguments: { name: 'Ada' } }
  const body = JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'tools/call', params: call })
  const url = `http://127.0.0.1:${port}${pathname}`
  console.log(`ISSUER is not set. The server accepts this test token for one hour:

curl ${url} -H 'Authorization: Bearer ${token}' -H 'Content-Type: application/json' -H 'Accept: application/json, text/event-stream' -d '${body}'
`)
})
const shutdown = gracefulShutdown(server, { telemetry, signals: ['SIGINT', 'SIGTERM'] })
app.get('/ready', shutdown.readiness())
