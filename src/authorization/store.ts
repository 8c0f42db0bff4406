import { LRUCache } from 'lru-cache'
import { optionChecksOf } from '../base/options/option-checks.ts'
import { checkRedisClient } from '../base/options/redis-client.ts'
import { valueIn, wasAdded } from '../base/redis-replies.ts'

const checks = optionChecksOf('authorizationFacade')

/**
 * The place in which an authorization server keeps clients, sign-ins, and grants. The values are encrypted, and the keys are
 * hashes, so that the store sees neither tokens nor users.
 */
export interface AuthorizationStore {
  /** Resolves with the value of a key, or with `undefined` if there is none. */
  get(key: string): Promise<string | undefined>
  /** Stores a value for `ttlMs` milliseconds. */
  set(key: string, value: string, ttlMs: number): Promise<void>
  /** Stores a value if the key has none, in one step. Resolves with `true` if the value was stored. */
  add(key: string, value: string, ttlMs: number): Promise<boolean>
  /** Removes a value and resolves with it, in one step. */
  take(key: string): Promise<string | undefined>
  /** Removes a value. */
  delete(key: string): Promise<void>
}

/** The kinds of values that a store in memory never removes early. Only the application makes it keep them. */
export const REVOCATION_KINDS = { user: 'RevokedUser', client: 'RevokedClient' } as const

const LASTING_KINDS: ReadonlySet<string> = new Set(Object.values(REVOCATION_KINDS))

/** The maximum number of values of a kind. The one that was used least recently is removed. */
const MAX_ENTRIES_PER_KIND = 10_000

/** The maximum size of all values of a kind. Anyone can register clients that are as large as a request may be. */
const MAX_BYTES_PER_KIND = 67_108_864

/**
 * Creates a store in the memory of this process. It is for development and for servers with one process: a restart ends all
 * sign-ins. It keeps at most 10 000 values of each kind, which have at most 64 MiB together.
 * @returns a store for the option `store` of `authorizationFacade`.
 * @example
 * ```ts
 * import { memoryStore } from 'mcp-gatekit/authorization'
 *
 * const store = memoryStore()
 * ```
 * @see docs/guides/authorization-facade.md
 */
export function memoryStore(): AuthorizationStore {
  // One kind of values, such as clients that strangers register, cannot displace another kind.
  const kinds = new Map<string, LRUCache<string, string>>()
  const kindOf = (key: string): LRUCache<string, string> => {
    const kind = key.slice(0, key.indexOf(':'))
    const values =
      kinds.get(kind) ??
      new LRUCache<string, string>({
        ...(LASTING_KINDS.has(kind)
          ? { maxSize: Number.MAX_SAFE_INTEGER }
          : { max: MAX_ENTRIES_PER_KIND, maxSize: MAX_BYTES_PER_KIND }),
        // A value is a JWE, which has one byte per character.
        sizeCalculation: (value) => value.length + 1,
      })
    kinds.set(kind, values)
    return values
  }
  const put = (key: string, value: string, ttlMs: number): void => {
    kindOf(key).set(key, value, { ttl: Math.max(1, Math.ceil(ttlMs)) })
  }
  return {
    get: async (key) => kindOf(key).get(key),
    set: async (key, value, ttlMs) => put(key, value, ttlMs),
    async add(key, value, ttlMs) {
      if (kindOf(key).has(key)) return false
      put(key, value, ttlMs)
      return true
    },
    async take(key) {
      const value = kindOf(key).get(key)
      kindOf(key).delete(key)
      return value
    },
    delete: async (key) => void kindOf(key).delete(key),
  }
}

/** The part of an ioredis or node-redis client that is used. */
export interface StoreRedisClient {
  /** Reads a value. */
  get(...args: any[]): unknown
  /** Stores a value. */
  set(...args: any[]): unknown
  /** Removes a value. */
  del(...args: any[]): unknown
}

type AnyClient = StoreRedisClient & {
  readonly getDel?: (key: string) => unknown
  readonly getdel?: (key: string) => unknown
}

/**
 * Creates a store in Redis (6.2 or later), which all nodes of a server share. The store neither opens nor closes connections.
 * @param client an ioredis or node-redis client, or a cluster client of either.
 * @param prefix the beginning of its keys. Defaults to `mcp-gatekit:authorization:`.
 * @returns a store for the option `store` of `authorizationFacade`.
 * @throws {KitMcpConfigError} if `client` is not a client, or `prefix` is not a string.
 * @example
 * ```ts
 * import { Redis } from 'ioredis'
 * import { redisStore } from 'mcp-gatekit/authorization'
 *
 * const store = redisStore(new Redis())
 * ```
 * @see docs/guides/authorization-facade.md
 */
export function redisStore(
  client: StoreRedisClient,
  prefix: string = 'mcp-gatekit:authorization:',
): AuthorizationStore {
  const redis = client as AnyClient
  checkRedisClient(checks, 'client', client, ['get', 'set', 'del', 'getDel'])
  checks.checkString('prefix', prefix)
  const getAndDelete = (redis.getDel ?? redis.getdel) as (key: string) => unknown
  /** Sets a value as ioredis and node-redis want it. With `NX`, only a key without a value gets it. */
  const put = async (key: string, value: string, ttlMs: number, ...NX: ['NX'?]): Promise<unknown> => {
    const PX = Math.max(1, Math.ceil(ttlMs))
    if (redis.getDel === undefined) return await redis.set(prefix + key, value, 'PX', PX, ...NX)
    return await redis.set(prefix + key, value, { PX, ...(NX.length > 0 && { NX: true }) })
  }
  return {
    get: async (key) => valueIn(await redis.get(prefix + key)),
    set: async (key, value, ttlMs) => void (await put(key, value, ttlMs)),
    // An unexpected reply must neither let a code be used twice, nor count as a second use.
    add: async (key, value, ttlMs) => wasAdded(await put(key, value, ttlMs, 'NX')),
    take: async (key) => valueIn(await getAndDelete.call(redis, prefix + key)),
    delete: async (key) => void (await redis.del(prefix + key)),
  }
}
