import type { Redis } from 'ioredis'

/** Writes the data of the benchmark: 10,000 carts, 1,000 histories of 20 orders, and 100,000 ranks. */
export async function seed(redis: Redis): Promise<void> {
  await redis.flushall()
  const pad = (number: number) => String(number).padStart(5, '0')
  const pipeline = redis.pipeline()
  for (let n = 1; n <= 10_000; n++) {
    const items = [7, 13, ...(n % 3 === 0 ? [17] : [])].map((factor) => {
      return { product_id: ((n * factor) % 100_000) + 1, qty: 1 + (n % 3) }
    })
    const cart = { user_id: `user-${pad(n)}`, items: JSON.stringify(items), total: '42.00' }
    pipeline.hset(`bench:cart:user-${pad(n)}`, cart)
  }
  for (let n = 1; n <= 1_000; n++) {
    const orders = Array.from({ length: 20 }, (_, j) =>
      JSON.stringify({
        order_id: `ORD-${pad(n)}-${j}`,
        product_id: ((n * j * 7) % 100_000) + 1,
        qty: 1 + (j % 3),
      }),
    )
    pipeline.rpush(`bench:history:user-${pad(n)}`, ...orders)
  }
  for (let from = 1; from <= 100_000; from += 1_000) {
    const ranks = Array.from({ length: 1_000 }, (_, index) => [
      String(((from + index) * 7) % 10_000),
      `product:${from + index}`,
    ])
    pipeline.zadd('bench:popular', ...ranks.flat())
  }
  await pipeline.exec()
}
