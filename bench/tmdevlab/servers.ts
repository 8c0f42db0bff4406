import { createServer, type Server } from 'node:http'
import { createRequire } from 'node:module'
import { cachedVerifier, jwtVerifier, type OAuthOptions } from 'mcp-gatekit'
import type { Contestant } from '../contestants.ts'
import { ISSUER, RESOURCE } from '../issue-token.ts'
import { inputsOf, shopApp, TEXTS } from './server/app.ts'
import { type Shop, shopOf } from './server/shop.ts'

/** The environment variables that pass the parts of the benchmark to the processes of the servers. */
export const ENV = {
  api: 'MCP_GATEKIT_BENCH_API',
  redis: 'MCP_GATEKIT_BENCH_REDIS',
  jwks: 'MCP_GATEKIT_BENCH_JWKS',
  /** The folder in which the packages of the published server are installed. */
  pinned: 'MCP_GATEKIT_BENCH_PINNED',
} as const

const OWN = 'mcp-gatekit'
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

function shop(require: NodeJS.Require, type: string): Shop {
  const { Redis } = require('ioredis')
  const redis = new Redis(process.env[ENV.redis], { enableReadyCheck: false, maxRetriesPerRequest: 3 })
  return shopOf(process.env[ENV.api] ?? '', redis, type)
}

/** The design of the published Node.js server: the SDK's server and transport are made for each request. */
function published(require: NodeJS.Require): Server {
  const { McpServer } = require('@modelcontextprotocol/sdk/server/mcp.js')
  const { StreamableHTTPServerTransport } = require('@modelcontextprotocol/sdk/server/streamableHttp.js')
  const express = require('express')
  const tools = shop(require, 'nodejs')
  const { search, cart, checkout } = inputsOf(require('zod').z)
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

function gatekit(oauth?: OAuthOptions<any, any>): Server {
  return createServer(shopApp(shop(createRequire(import.meta.url), OWN), OWN, oauth))
}
