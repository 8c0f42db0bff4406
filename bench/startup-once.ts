import { createServer, request } from 'node:http'
import type { RequestHandler } from 'express'
import { listen } from './contestants.ts'
import type { FirstResponse } from './startup.ts'

/** The program of one contestant: it starts a server, sends it a request, and prints the time since the start of the process. */
const [, , name, wanted] = process.argv as unknown as [string, string, string, keyof typeof REQUESTS]

const RESOURCE = 'https://mcp.example.com/mcp'
const EXPIRES_AT = Math.floor(Date.now() / 1000) + 86_400
const OWN_TOKEN = { valid: true, clientId: 'c', scopes: ['mcp:read'], expiresAt: EXPIRES_AT } as const
const OWN_OAUTH = {
  issuer: 'https://auth.example.com',
  resource: RESOURCE,
  scopes: ['mcp:read'],
  verifyToken: async ({ bearerToken }: { readonly bearerToken?: string | undefined }) =>
    bearerToken === undefined ? undefined : OWN_TOKEN,
}

async function sdkGate(): Promise<RequestHandler> {
  const { requireBearerAuth } = await import('@modelcontextprotocol/express')
  const verified = { clientId: 'c', scopes: ['mcp:read'], expiresAt: EXPIRES_AT }
  const verifyAccessToken = async (token: string) => ({ token, ...verified })
  return requireBearerAuth({ verifier: { verifyAccessToken }, requiredScopes: ['mcp:read'] })
}

/** The servers by name. Each imports only what it needs. */
const SERVERS: Readonly<Record<string, () => Promise<readonly RequestHandler[]>>> = {
  async SDK() {
    const { createMcpHandler, McpServer } = await import('@modelcontextprotocol/server')
    const { toNodeHandler } = await import('@modelcontextprotocol/node')
    const { z } = await import('zod')
    const inputSchema = z.object({ a: z.number(), b: z.number() })
    const handler = createMcpHandler(() => {
      const server = new McpServer({ name: 'bench', version: '1.0.0' })
      server.registerTool('add', { description: 'Adds', inputSchema }, ({ a, b }) => ({
        content: [{ type: 'text', text: String(a + b) }],
      }))
      return server
    })
    const node = toNodeHandler(handler)
    return [await sdkGate(), (req, res) => void node(req, res)]
  },
  'SDK requireBearerAuth': async () => [await sdkGate()],
  async 'mcp-gatekit'() {
    const { createMcpAdapter, KitMcpRouter, mcpHandler } = await import('mcp-gatekit')
    const { z } = await import('zod')
    const input = z.object({ a: z.number(), b: z.number() })
    const router = KitMcpRouter.create().tool('add', { description: 'Adds', input }, ({ a, b }) =>
      String(a + b),
    )
    return [mcpHandler(createMcpAdapter({ router, oauth: OWN_OAUTH }))]
  },
  async 'mcp-gatekit/gate'() {
    const { mcpAuth } = await import('mcp-gatekit/gate')
    return [mcpAuth(OWN_OAUTH)]
  },
}

const REQUESTS = {
  401: { token: undefined, status: 401 },
  'tools/call': { token: 'good-token', status: 200 },
} as const

const CALL = JSON.stringify({
  jsonrpc: '2.0',
  id: 1,
  method: 'tools/call',
  params: { name: 'add', arguments: { a: 1, b: 2 } },
})

const { default: express } = await import('express')
const app = express()
app.use('/mcp', ...(await (SERVERS[name] as (typeof SERVERS)[string])()))
const server = createServer(app)
const port = await listen(server)
const { token, status } = REQUESTS[wanted]
const received = await new Promise<number | undefined>((resolve, reject) => {
  const sent = request({ port, host: '127.0.0.1', path: '/mcp', method: 'POST' }, (response) => {
    response.resume().on('end', () => resolve(response.statusCode))
  })
  sent.on('error', reject)
  if (token !== undefined) sent.setHeader('authorization', `Bearer ${token}`)
  sent.setHeader('content-type', 'application/json')
  sent.setHeader('accept', 'application/json, text/event-stream')
  sent.setHeader('mcp-protocol-version', '2025-11-25')
  sent.end(CALL)
})
const time = performance.now() * 1000
const { user, system } = process.cpuUsage()
if (received !== status) throw new Error(`${name} responded with ${received}`)
console.log(JSON.stringify([time, user + system] satisfies FirstResponse))
process.exit()
