import type { Redis } from 'ioredis'

/** The line items of an order. */
export interface Item {
  readonly product_id: number
  readonly quantity: number
}

/** The work of the three tools, the same for every server. Each function returns the text of the result. */
export interface Shop {
  search(query: { category: string; min_price: number; max_price: number; limit: number }): Promise<string>
  cart(query: { user_id: string }): Promise<string>
  checkout(order: { user_id: string; items: readonly Item[] }): Promise<string>
}

/** The commands of Redis that the tools use. */
type Commands = Pick<Redis, 'zrevrange' | 'hgetall' | 'lrange' | 'incr' | 'rpush' | 'zincrby'>

/**
 * @param api the URL of the HTTP API
 * @param server_type the name of the server, which is a part of each result
 */
export function shopOf(api: string, redis: Commands, server_type: string): Shop {
  const get = async (path: string, init?: RequestInit): Promise<any> =>
    (await fetch(`${api}${path}`, init)).json()
  return {
    async search({ category, min_price, max_price, limit }) {
      const query = new URLSearchParams({
        category,
        min_price: String(min_price),
        max_price: String(max_price),
        limit: String(limit),
      })
      const [found, popular] = await Promise.all([
        get(`/products/search?${query}`),
        redis.zrevrange('bench:popular', 0, 9),
      ])
      const top = popular.map((member) => Number(member.split(':')[1]))
      const products = found.products.map(({ id, sku, name, price, rating }: any) => {
        return { id, sku, name, price, rating, popularity_rank: top.indexOf(id) + 1 }
      })
      return JSON.stringify({
        category,
        total_found: found.total_found,
        products,
        top10_popular_ids: top,
        server_type,
      })
    },
    async cart({ user_id }) {
      const stored = await redis.hgetall(`bench:cart:${user_id}`)
      const items = JSON.parse(stored.items ?? '[]')
      const [, history] = await Promise.all([
        get(`/products/${items[0]?.product_id ?? 1}`),
        redis.lrange(`bench:history:${user_id}`, 0, 4),
      ])
      const cart = { items, item_count: items.length, estimated_total: Number(stored.total ?? 0) }
      return JSON.stringify({
        user_id,
        cart,
        recent_history: history.map((entry) => JSON.parse(entry)),
        server_type,
      })
    },
    async checkout({ user_id, items }) {
      const counter = String(Number(user_id.split('-').pop()) % 100).padStart(5, '0')
      const order = JSON.stringify({ order_id: `ORD-${user_id}`, items, ts: Math.floor(Date.now() / 1000) })
      const [calculated, count] = await Promise.all([
        get('/cart/calculate', {
          method: 'POST',
          headers: { 'Content-Type': 'application/json' },
          body: JSON.stringify({ user_id, items }),
        }),
        redis.incr(`bench:ratelimit:user-${counter}`),
        redis.rpush(`bench:history:${user_id}`, order),
        redis.zincrby('bench:popular', 1, `product:${items[0]?.product_id ?? 1}`),
      ])
      const { order_id, total } = calculated
      const answer = { order_id, user_id, total, items_count: items.length, rate_limit_count: count }
      return JSON.stringify({ ...answer, status: 'confirmed', server_type })
    },
  }
}
