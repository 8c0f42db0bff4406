import { createServer, type Server } from 'node:http'
import { createRequire } from 'node:module'
import { z } from 'zod'
import { mcpServer } from '../../src/express/mcp-server.ts'
import { createMcpAdapter } from '../../src/mcp/adapter.ts'
import { KitMcpRouter } from '../../src/mcp/router/router.ts'
import type { OAuthOptions } from '../../src/oauth/options.ts'
import { cachedVerifier } from '../../src/oauth/verifiers/cached.ts'
import { jwtVerifier } from '../../src/oauth/verifiers/jwt.ts'
import type { Contestant } from '../contestants.ts'
import { type Shop, shopOf } from './shop.ts'

/** The environment variables that pass the parts of the benchmark to the processes of the servers. */
export const ENV = {
  api: 'MCP_GATEKIT_BENCH_API',
  redis: 'MCP_GATEKIT_BENCH_REDIS',
  jwks: 'MCP_GATEKIT_BENCH_JWKS',
  /** The folder in which the packages of the published server are installed. */
  pinned: 'MCP_GATEKIT_BENCH_PINNED',
} as const

export const ISSUER = 'https://auth.example.com'
export const RESOURCE = 'https://mcp.example.com/mcp'

export const PUBLISHED = 'the published design, SDK 1.26'
export const NEWEST = 'the published design, newest SDK 1'
export const OPEN = 'mcp-gatekit, open'
export const GATED = 'mcp-gatekit, JWT'

export const contestants: Record<string, Contestant> = {
  [PUBLISHED]: () => published(createRequire(`${process.env[ENV.pinned]}/index.js`)),
  [NEWEST]: () => published(createRequire(import.meta.url)),
  [OPEN]: () => gatekit(),
  [GATED]: () => {
    const publicKey = JSON.parse(process.env[ENV.jwks] ?? '')
    const verifyToken = cachedVerifier(jwtVerifier({ issuer: ISSUER, resource: RESOURCE, publicKey }))
    return gatekit({ issuer: ISSUER, resource: RESOURCE, scopes: ['mcp:read'], verifyToken })
  },
}

const TEXTS = {
  search: 'Search products by category and price range, merged with popularity data',
  cart: 'Get user cart details with recent order history',
  checkout: 'Process checkout: calculate total, update rate limit, record history',
} as const

/** The inputs of the tools, made with the zod of the server. */
const inputs = (zod: typeof z) => ({
  search: {
    category: zod.string().default('Electronics'),
    min_price: zod.number().default(50),
    max_price: zod.number().default(500),
    limit: zod.number().default(10),
  },
  cart: { user_id: zod.string().default('user-00042') },
  checkout: {
    user_id: zod.string().default('user-00042'),
    items: zod.array(zod.object({ product_id: zod.number(), quantity: zod.number() })).default([
      { product_id: 42, quantity: 2 },
      { product_id: 1337, quantity: 1 },
    ]),
  },
})

function shop(require: NodeJS.Require): Shop {
  const { Redis } = require('ioredis')
  const redis = new Redis(process.env[ENV.redis], { enableReadyCheck: false, maxRetriesPerRequest: 3 })
  return shopOf(process.env[ENV.api] ?? '', redis)
}

/** The design of the published Node.js server: the SDK's server and transport are made for each request. */
function published(require: NodeJS.Require): Server {
  const { McpServer } = require('@modelcontextprotocol/sdk/server/mcp.js')
  const { StreamableHTTPServerTransport } = require('@modelcontextprotocol/sdk/server/streamableHttp.js')
  const express = require('express')
  const tools = shop(require)
  const { search, cart, checkout } = inputs(require('zod').z)
  const text = async (result: Promise<string>) => ({ content: [{ type: 'text', text: await result }] })
  const app = express()
  app.use(express.json())
  app.post('/mcp', async (req: any, res: any) => {
    const server = new McpServer({ name: 'bench', version: '1.0.0' })
    server.tool('search_products', TEXTS.search, search, (args: any) => text(tools.search(args)))
    server.tool('get_user_cart', TEXTS.cart, cart, (args: any) => text(tools.cart(args)))
    server.tool('checkout', TEXTS.checkout, checkout, (args: any) => text(tools.checkout(args)))
    const transport = new StreamableHTTPServerTransport({ sessionIdGenerator: undefined })
    res.on('close', () => {
      transport.close()
      server.close()
    })
    await server.connect(transport)
    await transport.handleRequest(req, res, req.body)
  })
  return createServer(app)
}

function gatekit(oauth?: OAuthOptions): Server {
  const require = createRequire(import.meta.url)
  const tools = shop(require)
  const { search, cart, checkout } = inputs(z)
  const router = KitMcpRouter.create()
    .tool('search_products', { description: TEXTS.search, input: z.object(search) }, tools.search)
    .tool('get_user_cart', { description: TEXTS.cart, input: z.object(cart) }, tools.cart)
    .tool('checkout', { description: TEXTS.checkout, input: z.object(checkout) }, tools.checkout)
  const adapter = createMcpAdapter({
    router,
    serverInfo: { name: 'bench', version: '1.0.0' },
    ...(oauth && { oauth }),
  })
  return createServer(require('express')().use(mcpServer(adapter)))
}
