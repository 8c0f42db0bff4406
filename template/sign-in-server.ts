import { existsSync } from 'node:fs'
import type { AddressInfo } from 'node:net'
import { gracefulShutdown, jwtVerifier } from 'mcp-gatekit'
import { createTestIssuer } from 'mcp-gatekit/testing'
import { createApp, telemetry } from './app.ts'
import { ALLOW_LIST, SECRETS } from './github.ts'
import { createSignIn, readAllowList } from './sign-in.ts'
import { connectStore } from './store.ts'

if (existsSync('.env')) process.loadEnvFile()
const { PORT, HOST } = process.env
/** The URL of this server as clients see it, which is the audience of its tokens. */
const resource = process.env.RESOURCE || `http://127.0.0.1:${PORT || 3000}/mcp`

/** The authorization server of `npx mcp-gatekit dev`, which is used even if the secrets are set. */
const devIssuer = process.env.MCP_GATEKIT_ISSUER
const shared = devIssuer ? undefined : connectStore()
const signIn = devIssuer ? undefined : createSignIn(resource, shared?.store)
const testIssuer = devIssuer || signIn ? undefined : createTestIssuer({ audience: resource })
const accepted = testIssuer?.verifierOptions ?? { issuer: String(devIssuer), audience: resource }
const app = createApp(
  signIn?.oauth ?? { issuer: accepted.issuer, resource, verifyToken: jwtVerifier(accepted) },
)
// The second is the page on which users see and disconnect the applications that have access to their account.
if (signIn) app.use(signIn.router).use(signIn.account)

const { origin, port: portOfResource, pathname } = new URL(resource)
// A server that accepts test tokens must only be reachable from this machine.
const host = testIssuer === undefined ? HOST || '127.0.0.1' : '127.0.0.1'
const wanted = Number(PORT || portOfResource || 3000)
const server = app.listen(wanted, host, async (error) => {
  if (error && 'code' in error && error.code === 'EADDRINUSE') {
    console.error(`Port ${wanted} is in use. Set PORT.`)
    process.exit(1)
  }
  if (error) throw error
  const { address, port } = server.address() as AddressInfo
  console.log(`Listening on ${address}:${port}, press Ctrl-C to stop`)
  if (signIn) {
    console.log(`Users sign in at ${origin}. Redirect URI at the provider: ${origin}/signin/callback`)
    if (readAllowList().length === 0) console.log(`No account may sign in, because ${ALLOW_LIST} is empty.`)
  }
  if (testIssuer === undefined) return
  const token = await testIssuer.issueToken({ scopes: ['mcp:read'], expiresIn: 3600 })
  const call = { name: 'greet', arguments: { name: 'Ada' } }
  const body = JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'tools/call', params: call })
  const url = `http://127.0.0.1:${port}${pathname}`
  console.log(`${SECRETS.join(' and ')} are not set. The server accepts this test token for one hour:

curl ${url} -H 'Authorization: Bearer ${token}' -H 'Content-Type: application/json' -H 'Accept: application/json, text/event-stream' -d '${body}'
`)
})
const shutdown = gracefulShutdown(server, {
  telemetry,
  signals: ['SIGINT', 'SIGTERM'],
  onClosed: () => shared?.close(),
})
app.get('/ready', shutdown.readiness())
