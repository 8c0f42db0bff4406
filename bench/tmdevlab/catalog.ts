import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'

/** The HTTP API with 100,000 products that the tools of the benchmark read. It runs in a process of its own. */
const CATEGORIES =
  'Electronics Books Clothing Sports Home Garden Toys Food Beauty Automotive Music Movies Games Office Health Pets Travel Tools Jewelry Baby'.split(
    ' ',
  )
const COUNT = 100_000

interface Product {
  readonly id: number
  readonly sku: string
  readonly name: string
  readonly category: string
  readonly price: number
  readonly rating: number
  readonly description: string
}

const catalog = Array.from({ length: COUNT }, (_, index): Product => {
  const category = CATEGORIES[index % CATEGORIES.length] as string
  const sku = `SKU-${String(index + 1).padStart(6, '0')}`
  return {
    id: index + 1,
    sku,
    name: `Brand ${index % 50} ${category} Item ${index + 1}`,
    category,
    price: 1 + (index % 99_900) / 100,
    rating: 1 + (index % 40) / 10,
    description: `Quality ${category}. ${sku}.`,
  }
})

/** The products of each category by price, sorted once, so that the API is not the slowest part. */
const byCategory = new Map(
  CATEGORIES.map((category) => [
    category,
    catalog.filter((product) => product.category === category).sort((one, other) => one.price - other.price),
  ]),
)

function search(query: URLSearchParams): object {
  const category = query.get('category') ?? 'Electronics'
  const [min, max] = [Number(query.get('min_price')), Number(query.get('max_price') ?? Infinity)]
  const found = (byCategory.get(category) ?? []).filter(({ price }) => price >= min && price <= max)
  return { category, total_found: found.length, products: found.slice(0, Number(query.get('limit') ?? 10)) }
}

function calculate({
  user_id,
  items,
}: {
  user_id: string
  items: { product_id: number; quantity: number }[]
}) {
  const subtotal = items.reduce(
    (sum, { product_id, quantity }) => sum + (catalog[product_id - 1]?.price ?? 0) * quantity,
    0,
  )
  const total = subtotal * 1.085 + (subtotal >= 100 ? -subtotal * 0.1 : 5.99)
  return {
    order_id: `ORD-${user_id}`,
    user_id,
    total: Math.round(total * 100) / 100,
    items_count: items.length,
  }
}

const server = createServer(async (req, res) => {
  const { pathname, searchParams } = new URL(req.url as string, 'http://127.0.0.1')
  let body = ''
  for await (const chunk of req.setEncoding('utf8')) body += chunk
  const answer =
    pathname === '/products/search'
      ? search(searchParams)
      : pathname === '/cart/calculate'
        ? calculate(JSON.parse(body))
        : catalog[Number(pathname.slice('/products/'.length)) - 1]
  res.writeHead(answer === undefined ? 404 : 200, { 'Content-Type': 'application/json' })
  res.end(JSON.stringify(answer ?? { error: 'not found' }))
}).listen(0, '127.0.0.1')
await once(server, 'listening')
process.on('disconnect', () => process.exit())
process.send?.((server.address() as AddressInfo).port)
