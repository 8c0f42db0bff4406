import { Redis } from 'ioredis'
import { type AuthorizationStore, redisStore } from 'mcp-gatekit/authorization'

/** A store that all nodes share, with its connection. */
export interface SharedStore {
  readonly store: AuthorizationStore
  close(): void
}

/**
 * Connects to the Redis at `REDIS_URL`. Without it, returns `undefined`: sign-ins are then kept in this process, and are lost
 * when it ends.
 */
export function connectStore(): SharedStore | undefined {
  const { REDIS_URL } = process.env
  if (!REDIS_URL) return undefined
  const redis = new Redis(REDIS_URL)
  // ioredis connects again by itself. The message has no password.
  redis.on('error', ({ message }) => console.error(`Redis: ${message}`))
  return { store: redisStore(redis), close: () => redis.disconnect() }
}
