import { Redis } from 'ioredis'
import { createClient } from 'redis'
import type { RedisClient } from '../../src/redis/run-script.ts'

export interface TestRedisClient extends RedisClient {
  on(...args: any[]): unknown
  subscribe(...args: any[]): unknown
  end(): void
}

/** A connected client of one of the two libraries. It ignores its own errors. */
export interface RedisClientKind {
  readonly name: string
  connect(port: number): Promise<TestRedisClient>
}

export const REDIS_CLIENTS: readonly RedisClientKind[] = [
  {
    name: 'ioredis',
    async connect(port) {
      // ioredis ignores the promise with which it subscribes again, so the process would fail if it rejects.
      const client = new Redis(port, '127.0.0.1', { retryStrategy: () => 50, autoResubscribe: false })
      client.on('error', () => undefined)
      return Object.assign(client, { end: () => client.disconnect() })
    },
  },
  {
    name: 'node-redis',
    async connect(port) {
      const url = `redis://127.0.0.1:${port}`
      const client = createClient({ url, socket: { reconnectStrategy: () => 50 } })
      client.on('error', () => undefined)
      await client.connect()
      return Object.assign(client as unknown as TestRedisClient, { end: () => client.destroy() })
    },
  },
]
