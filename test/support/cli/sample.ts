import { once } from 'node:events'
import type { AddressInfo } from 'node:net'
import express, { type RequestHandler } from 'express'
import { z } from 'zod'
import {
  createMcpAdapter,
  DevConsoleTransportAdapter,
  firstMatch,
  jwtVerifier,
  KitMcpRouter,
  KitTelemetry,
  type KitTelemetryManager,
  mcpAuth,
  mcpCors,
  mcpHandler,
  protectedResourceRouter,
} from '../../../src/index.ts'

export interface SampleServer {
  readonly origin: string
  readonly telemetry: KitTelemetryManager
  close(): Promise<void>
}

const wait = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms))

const router = KitMcpRouter.create()
  .tool(
    'greet',
    { description: 'Greets', input: z.object({ name: z.string() }) },
    ({ name }) => `Hello, ${name}!`,
  )
  .tool(
    'search_notes',
    { description: 'Responds after a delay', input: z.object({ ms: z.number() }) },
    async ({ ms }) => {
      await wait(ms)
      return 'found'
    },
  )
  .tool('break', { description: 'Fails' }, () => {
    throw new Error('The index is being rebuilt')
  })
  .tool('erase', { description: 'Requires mcp:write', scopes: ['mcp:write'] }, () => 'gone')

/**
 * Starts a server for `mcp-gatekit dev`, which also accepts the token `good`.
 * @param url the feed URL of the console. Defaults to the one in the environment
 */
export async function startSampleServer(issuer: string, url?: string): Promise<SampleServer> {
  const telemetry = KitTelemetry.create()
    .withService('sample')
    .withSampling({ debugRate: 1, infoRate: 1 })
    .addTransport(DevConsoleTransportAdapter.create({ url }))
    .build()
  const app = express()
  const server = app.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  const resource = `${origin}/mcp`
  const jwt = jwtVerifier({ issuer, audience: resource })
  const adapter = createMcpAdapter({
    router,
    telemetry,
    oauth: {
      issuer,
      resource,
      scopes: ['mcp:read'],
      verifyToken: firstMatch(jwt, ({ bearerToken }) => {
        if (bearerToken === 'good') return { valid: true, user: { id: 'ada' }, scopes: ['mcp:read'] }
        return bearerToken === 'foreign' ? { valid: true, resource: 'https://elsewhere.example' } : undefined
      }),
    },
  })
  app.use('/mcp', mcpCors(), mcpAuth(adapter), mcpHandler(adapter) as RequestHandler)
  app.use(protectedResourceRouter(adapter) as RequestHandler)
  return {
    origin,
    telemetry,
    async close() {
      await telemetry.shutdown({ timeoutMs: 500 })
      const closed = once(server, 'close')
      server.close()
      server.closeAllConnections()
      await closed
    },
  }
}

/** Calls a tool of the sample server. Resolves with the status. */
export async function callTool(
  origin: string,
  token: string | undefined,
  name: string,
  args: object = {},
): Promise<number> {
  const response = await fetch(`${origin}/mcp`, {
    method: 'POST',
    headers: {
      'content-type': 'application/json',
      accept: 'application/json, text/event-stream',
      ...(token !== undefined && { authorization: `Bearer ${token}` }),
    },
    body: JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'tools/call', params: { name, arguments: args } }),
  })
  await response.text()
  return response.status
}
