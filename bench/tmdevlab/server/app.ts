import express, { type Express } from 'express'
import { createMcpAdapter, KitMcpRouter, mcpServer, type OAuthOptions } from 'mcp-gatekit'
import { z } from 'zod'
import type { Shop } from './shop.ts'

/** The descriptions of the tools. */
export const TEXTS = {
  search: 'Search products by category and price range, merged with popularity data',
  cart: 'Get user cart details with recent order history',
  checkout: 'Process checkout: calculate total, update rate limit, record history',
} as const

/** Returns the inputs of the tools. @param zod the library of the server */
export function inputsOf(zod: typeof z) {
  const user_id = zod.string().default('user-00042')
  const item = zod.object({ product_id: zod.number(), quantity: zod.number() })
  return {
    search: {
      category: zod.string().default('Electronics'),
      min_price: zod.number().default(50),
      max_price: zod.number().default(500),
      limit: zod.number().default(10),
    },
    cart: { user_id },
    checkout: {
      user_id,
      items: zod.array(item).default([
        { product_id: 42, quantity: 2 },
        { product_id: 1337, quantity: 1 },
      ]),
    },
  }
}

/** Returns the application: the MCP server at `/mcp`, and a health check. */
export function shopApp(shop: Shop, type: string, oauth?: OAuthOptions<any, any>): Express {
  const { search, cart, checkout } = inputsOf(z)
  const router = KitMcpRouter.create()
    .tool('search_products', { description: TEXTS.search, input: z.object(search) }, shop.search)
    .tool('get_user_cart', { description: TEXTS.cart, input: z.object(cart) }, shop.cart)
    .tool('checkout', { description: TEXTS.checkout, input: z.object(checkout) }, shop.checkout)
  const serverInfo = { name: 'shop', version: '1.0.0' }
  const adapter = createMcpAdapter({ router, serverInfo, ...(oauth && { oauth }) })
  return express()
    .use(mcpServer(adapter))
    .get('/health', (_req, res) => void res.json({ status: 'ok', server_type: type }))
}
