import { createServer, type Server } from 'node:http'
import { requireBearerAuth } from '@modelcontextprotocol/express'
import { toNodeHandler } from '@modelcontextprotocol/node'
import { createMcpHandler, McpServer } from '@modelcontextprotocol/server'
import express from 'express'
import { z } from 'zod'
import { mcpAuth } from '../src/express/mcp-auth.ts'
import { mcpHandler } from '../src/express/mcp-handler.ts'
import { KitMcpRouter } from '../src/mcp/router.ts'
import { createMcpAdapter } from '../src/mcp/server.ts'
import type { Contestant } from './contestants.ts'
import { measureLoad } from './load.ts'
import { printRatios } from './report.ts'

const EXPIRES_AT = Math.floor(Date.now() / 1000) + 86_400
const INPUT = z.object({ a: z.number(), b: z.number() })

export const contestants: Record<string, Contestant> = Object.fromEntries(
  [10, 1000].flatMap((tools) => [
    [`SDK, ${tools} tools`, () => sdk(tools)],
    [`mcp-gatekit, ${tools} tools`, () => gatekit(tools)],
    [`mcp-gatekit mcpHandler alone, ${tools} tools`, () => gatekitAlone(tools)],
    [`mcp-gatekit behind the SDK's toNodeHandler, ${tools} tools`, () => gatekitOnSdkNode(tools)],
  ]),
)

const gate = () =>
  requireBearerAuth({
    verifier: {
      verifyAccessToken: async (token) => ({
        token,
        clientId: 'c',
        scopes: ['mcp:read'],
        expiresAt: EXPIRES_AT,
      }),
    },
    requiredScopes: ['mcp:read'],
  })

/** The official stack: requireBearerAuth, toNodeHandler, createMcpHandler, an McpServer per request. */
function sdk(tools: number): Server {
  const handler = createMcpHandler(() => {
    const server = new McpServer({ name: 'bench', version: '1.0.0' })
    for (let index = 0; index < tools; index++) {
      server.registerTool(`tool-${index}`, { description: 'Adds', inputSchema: INPUT }, ({ a, b }) => ({
        content: [{ type: 'text', text: String(a + b) }],
      }))
    }
    return server
  })
  const app = express()
  const node = toNodeHandler(handler)
  app.use('/mcp', gate(), (req, res) => void node(req, res))
  return createServer(app)
}

function adapter(tools: number) {
  let router = KitMcpRouter.create()
  for (let index = 0; index < tools; index++) {
    router = router.tool(`tool-${index}`, { description: 'Adds', input: INPUT }, ({ a, b }) => String(a + b))
  }
  return createMcpAdapter({
    router,
    serverInfo: { name: 'bench', version: '1.0.0' },
    oauth: {
      issuer: 'https://auth.example.com',
      scopes: ['mcp:read'],
      verifyToken: async ({ bearerToken }) =>
        bearerToken === undefined
          ? undefined
          : { valid: true, clientId: 'c', scopes: ['mcp:read'], expiresAt: EXPIRES_AT },
    },
  })
}

function gatekit(tools: number): Server {
  const mcp = adapter(tools)
  const app = express()
  app.use('/mcp', mcpAuth(mcp), mcpHandler(mcp))
  return createServer(app)
}

/** The same adapter without a gate in front: `mcpHandler` enforces OAuth itself. */
function gatekitAlone(tools: number): Server {
  const app = express()
  app.use('/mcp', mcpHandler(adapter(tools)))
  return createServer(app)
}

/** The same adapter through its web-standard face and the official conversion. */
function gatekitOnSdkNode(tools: number): Server {
  const { server } = adapter(tools)
  const node = toNodeHandler({ fetch: server })
  const app = express()
  app.use('/mcp', (req, res) => void node(req, res))
  return createServer(app)
}

const META = {
  'io.modelcontextprotocol/protocolVersion': '2026-07-28',
  'io.modelcontextprotocol/clientInfo': { name: 'bench', version: '1.0.0' },
  'io.modelcontextprotocol/clientCapabilities': {},
}

function call(params: object, headers: Record<string, string>) {
  return {
    method: 'POST' as const,
    headers: {
      authorization: 'Bearer good-token',
      'content-type': 'application/json',
      accept: 'application/json, text/event-stream',
      ...headers,
    },
    body: JSON.stringify({
      jsonrpc: '2.0',
      id: 1,
      method: 'tools/call',
      params: { name: 'tool-7', arguments: { a: 1, b: 2 }, ...params },
    }),
  }
}

/** (b) `tools/call`, with few and with many tools. */
export async function benchToolsCall(): Promise<void> {
  const common = {
    module: new URL(import.meta.url),
    path: '/mcp',
    names: Object.keys(contestants),
    expectStatus: 200,
  }
  const modernHeaders = {
    'mcp-protocol-version': '2026-07-28',
    'mcp-method': 'tools/call',
    'mcp-name': 'tool-7',
  }
  const modern = await measureLoad({ ...common, request: call({ _meta: META }, modernHeaders) })
  printRatios('(b) tools/call, revision 2026-07-28', modern, 'SDK, 10 tools', 'requests/s')
  const legacy = await measureLoad({ ...common, request: call({}, { 'mcp-protocol-version': '2025-11-25' }) })
  printRatios('(b) tools/call, revision 2025-11-25', legacy, 'SDK, 10 tools', 'requests/s')
}
