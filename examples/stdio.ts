import { realpathSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { createMcpAdapter, KitMcpRouter, type McpAdapter, type OAuthOptions, serveStdio } from 'mcp-gatekit'
import { KitTelemetry, LoggerTransportAdapter } from 'mcp-gatekit/telemetry'
import { z } from 'zod'

/** One router for both servers. */
export const router: KitMcpRouter = KitMcpRouter.create()
  .tool(
    'add',
    { description: 'Adds numbers', input: z.object({ numbers: z.array(z.number()) }) },
    ({ numbers }) => String(numbers.reduce((sum, number) => sum + number, 0)),
  )
  // Requires a scope over HTTP. Over stdio, `trustLocal` lets the user of this machine call it.
  .tool('whoami', { description: 'Returns the user', scopes: ['profile'] }, (_args, { auth }) =>
    auth === undefined ? `the local user ${process.env.USER ?? 'without a name'}` : auth.clientId,
  )

/** Serves the router over HTTP, for users who sign in. */
export function createServer(oauth: OAuthOptions): McpAdapter {
  return createMcpAdapter({ router, oauth, serverInfo: { name: 'numbers', version: '1.0.0' } })
}

// `node stdio.js` serves the router over stdio, for a client that starts this file.
if (process.argv[1] !== undefined && realpathSync(process.argv[1]) === fileURLToPath(import.meta.url)) {
  // `console` writes to stderr while the server runs.
  const telemetry = KitTelemetry.create()
    .withService('numbers')
    .addTransport(LoggerTransportAdapter.create({ logger: console }))
    .build()
  serveStdio(router, { telemetry, trustLocal: true, serverInfo: { name: 'numbers', version: '1.0.0' } })
}
