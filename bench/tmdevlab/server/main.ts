// The server for the repository of the benchmark: docs/reference/benchmarks.md.
import cluster from 'node:cluster'
import { availableParallelism } from 'node:os'
import { Redis } from 'ioredis'
import { shopApp } from './app.ts'
import { shopOf } from './shop.ts'

const PORT = 8097

if (cluster.isPrimary) {
  const workers = Number(process.env.WEB_CONCURRENCY ?? availableParallelism())
  for (let index = 0; index < workers; index++) cluster.fork()
  cluster.on('exit', () => cluster.fork())
} else {
  const redis = new Redis(process.env.REDIS_URL ?? 'redis://mcp-redis:6379', { maxRetriesPerRequest: 3 })
  const type = process.env.SERVER_TYPE ?? 'mcp-gatekit'
  const shop = shopOf(process.env.API_SERVICE_URL ?? 'http://mcp-api-service:8100', redis, type)
  shopApp(shop, type).listen(PORT)
}
