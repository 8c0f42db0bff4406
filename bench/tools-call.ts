import { createHash } from 'node:crypto'
import { createServer, type Server } from 'node:http'
import { requireBearerAuth } from '@modelcontextprotocol/express'
import { toNodeHandler } from '@modelcontextprotocol/node'
import { createMcpHandler, McpServer } from '@modelcontextprotocol/server'
import express from 'express'
import { z } from 'zod'
import { mcpAuth } from '../src/express/mcp-auth.ts'
import { mcpHandler } from '../src/express/mcp-handler.ts'
import { mcpServer } from '../src/express/mcp-server.ts'
import { createMcpAdapter, type McpAdapter } from '../src/mcp/adapter.ts'
import type { McpAdapterOptions } from '../src/mcp/options.ts'
import { KitMcpRouter } from '../src/mcp/router/router.ts'
import type { OAuthOptions } from '../src/oauth/options.ts'
import type { Contestant } from './contestants.ts'
import { measureLoad } from './load.ts'
import { printRatios } from './report.ts'

const EXPIRES_AT = Math.floor(Date.now() / 1000) + 86_400
const INPUT = z.object({ a: z.number(), b: z.number() })

/** The input that a tool hashes as an example of work. Hashing takes 0.25 to 0.5 ms. */
const WORK = Buffer.alloc(256 * 1024, 'work')

/** The name of the contestant that does only what every server has to do for a call. */
export const FLOOR = 'Express, JSON.parse, and zod alone'

/** The name of the contestant whose tools do work. */
export const AT_WORK = 'mcp-gatekit, 10 tools that work'

export const contestants: Record<string, Contestant> = Object.fromEntries<Contestant>(
  [1, 10, 1000, 10_000].flatMap((tools) => [
    [`SDK, ${tools} tools`, () => sdk(tools)],
    [`mcp-gatekit, ${tools} tools`, () => gatekit(tools)],
    [`mcp-gatekit mcpHandler alone, ${tools} tools`, () => gatekitAlone(tools)],
    [`mcp-gatekit mcpServer, ${tools} tools`, () => gatekitServer(tools)],
    [`mcp-gatekit behind the SDK's toNodeHandler, ${tools} tools`, () => gatekitOnSdkNode(tools)],
  ]),
)
contestants[FLOOR] = floor
contestants[AT_WORK] = () => gatekit(10, () => createHash('sha256').update(WORK).digest('hex'))

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

/** The official stack: `requireBearerAuth`, `toNodeHandler`, `createMcpHandler`, and an `McpServer` per request. */
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

/** Reads the call, checks its arguments, and responds, without authorization and without MCP. */
function floor(): Server {
  const app = express()
  app.use('/mcp', (req, res) => {
    let text = ''
    req.setEncoding('utf8').on('data', (chunk) => {
      text += chunk
    })
    req.on('end', () => {
      const { id, params } = JSON.parse(text)
      const result = { content: [{ type: 'text', text: add(INPUT.parse(params.arguments)) }] }
      res.writeHead(200, { 'Content-Type': 'application/json' })
      res.end(JSON.stringify({ jsonrpc: '2.0', id, result }))
    })
  })
  return createServer(app)
}

/** The handler of a tool. */
export const add = ({ a, b }: z.infer<typeof INPUT>): string => String(a + b)

/** A verifier that does nothing. */
const ANY_TOKEN: OAuthOptions<any, any> = {
  issuer: 'https://auth.example.com',
  scopes: ['mcp:read'],
  verifyToken: async ({ bearerToken }) =>
    bearerToken === undefined
      ? undefined
      : { valid: true, clientId: 'c', scopes: ['mcp:read'], expiresAt: EXPIRES_AT },
}

/** Returns an adapter with tools of the same input, by default behind a verifier that does nothing. */
export function adapter(
  tools: number,
  handler = add,
  options: McpAdapterOptions = {},
  oauth: OAuthOptions<any, any> = ANY_TOKEN,
): McpAdapter {
  let router = KitMcpRouter.create()
  for (let index = 0; index < tools; index++) {
    router = router.tool(`tool-${index}`, { description: 'Adds', input: INPUT }, handler)
  }
  return createMcpAdapter({
    ...options,
    router,
    serverInfo: { name: 'bench', version: '1.0.0' },
    oauth,
  })
}

function gatekit(tools: number, handler = add): Server {
  const mcp = adapter(tools, handler)
  const app = express()
  app.use('/mcp', mcpAuth(mcp), mcpHandler(mcp))
  return createServer(app)
}

/** The same adapter without `mcpAuth`: `mcpHandler` enforces OAuth itself. */
function gatekitAlone(tools: number): Server {
  const app = express()
  app.use('/mcp', mcpHandler(adapter(tools)))
  return createServer(app)
}

/** The same adapter in `mcpServer`, which also serves the metadata document. */
function gatekitServer(tools: number): Server {
  return createServer(express().use(mcpServer(adapter(tools))))
}

/** The same adapter through its web-standard handler and the conversion of the SDK. */
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

interface Asked {
  readonly method: 'tools/call' | 'tools/list'
  readonly modern: boolean
}

const NAME = 'tool-0'

/** Returns a request of revision 2026-07-28 or 2025-11-25. */
function requestFor({ method, modern }: Asked) {
  const mirrored = method === 'tools/call' ? { 'mcp-name': NAME } : {}
  const params = {
    ...(method === 'tools/call' && { name: NAME, arguments: { a: 1, b: 2 } }),
    ...(modern && { _meta: META }),
  }
  return {
    method: 'POST' as const,
    headers: {
      authorization: 'Bearer good-token',
      'content-type': 'application/json',
      accept: 'application/json, text/event-stream',
      'mcp-protocol-version': modern ? '2026-07-28' : '2025-11-25',
      ...(modern && { 'mcp-method': method, ...mirrored }),
    },
    body: JSON.stringify({ jsonrpc: '2.0', id: 1, method, params }),
  }
}

/** A call of revision 2025-11-25 as autocannon accepts it. */
export const CALL_LEGACY: ReturnType<typeof requestFor> = requestFor({ method: 'tools/call', modern: false })

/** A call of revision 2026-07-28 as autocannon accepts it. */
export const CALL_MODERN: ReturnType<typeof requestFor> = requestFor({ method: 'tools/call', modern: true })

/** (b) Measures `tools/call` and `tools/list` with few and with many tools. */
export async function benchToolsCall(): Promise<void> {
  const measure = async (title: string, asked: Asked, names: readonly string[]): Promise<void> => {
    const common = { module: new URL(import.meta.url), path: '/mcp', expectStatus: 200 }
    const figures = await measureLoad({ ...common, names, request: requestFor(asked) })
    printRatios(title, figures.rounds, names[0] as string, 'requests/s', figures.cpu)
  }
  const modern: Asked = { method: 'tools/call', modern: true }
  await measure('(b) tools/call, revision 2026-07-28', modern, [
    'SDK, 10 tools',
    'mcp-gatekit, 10 tools',
    'mcp-gatekit mcpHandler alone, 10 tools',
    'mcp-gatekit mcpServer, 10 tools',
    "mcp-gatekit behind the SDK's toNodeHandler, 10 tools",
  ])
  await measure('(b) tools/call, revision 2026-07-28, against a floor', modern, [
    FLOOR,
    'mcp-gatekit mcpServer, 10 tools',
  ])
  await measure('(b) tools/call, revision 2026-07-28, many tools', modern, [
    'SDK, 1000 tools',
    'mcp-gatekit, 1000 tools',
  ])
  await measure('(b) tools/call, revision 2025-11-25', { ...modern, modern: false }, [
    'SDK, 10 tools',
    'mcp-gatekit, 10 tools',
  ])
  await measure(
    '(b) tools/call, revision 2026-07-28, as the number of tools grows',
    modern,
    [10, 1, 1000, 10_000].map((tools) => `mcp-gatekit, ${tools} tools`),
  )
  await measure('(b) tools/list, revision 2026-07-28', { method: 'tools/list', modern: true }, [
    'SDK, 1000 tools',
    'mcp-gatekit, 1000 tools',
  ])
  const names = ['SDK, 10 tools', 'mcp-gatekit, 10 tools']
  const latencies = await measureLoad({
    module: new URL(import.meta.url),
    path: '/mcp',
    expectStatus: 200,
    names,
    request: requestFor(modern),
    connections: 200,
    secondsPerRound: 2,
    figure: ({ latency }) => latency.p99,
  })
  printRatios(
    '(b) tools/call, 200 clients at once, 99th percentile',
    latencies.rounds,
    'SDK, 10 tools',
    'ms',
    latencies.cpu,
  )
}
