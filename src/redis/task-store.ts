import { optionChecksOf } from '../base/options/option-checks.ts'
import { optional, type ReadBy, type RulesFor } from '../base/options/option-rules.ts'
import { checkRedisClient } from '../base/options/redis-client.ts'
import { isOne, valueIn } from '../base/redis-replies.ts'
import type { TaskKey, TaskStore } from '../mcp/tasks/task-store.ts'
import { RedisBroadcast, type RedisClient } from './broadcast.ts'
import { isLikeNodeRedis, type RunScript, scriptRunner } from './run-script.ts'

const checks = optionChecksOf('redisTaskStore')
const { callable, readOptions, text } = checks

/** The part of an ioredis or node-redis client that {@link redisTaskStore} uses. */
export interface TaskRedisClient {
  /** Runs a Lua script. */
  eval(...args: any[]): unknown
  /** Stores a value. */
  set(...args: any[]): unknown
  /** Counts the keys that exist. */
  exists(...args: any[]): unknown
  /** Sends a message to a channel. */
  publish(...args: any[]): unknown
  /** Creates a client with the same options, for the subscription. */
  duplicate(...args: any[]): unknown
}

/** Options of {@link redisTaskStore}. */
export interface RedisTaskStoreOptions {
  /** The beginning of its keys, and the name of its channel. Defaults to `mcp-gatekit:tasks`. */
  readonly prefix?: string | undefined
  /** Called when Redis is unavailable for notifications between nodes, at most once every ten seconds. */
  readonly onError?: ((error: Error) => void) | undefined
}

/** A store of tasks in Redis, as {@link redisTaskStore} returns it. */
export interface RedisTaskStore extends TaskStore {
  /** `true` while this node receives the changes of other nodes. */
  readonly connected: boolean
  /** Closes the connection that was opened for notifications. Never rejects. */
  close(): Promise<void>
}

const RULES = {
  prefix: optional(text, 'mcp-gatekit:tasks'),
  onError: optional(
    callable<(error: Error) => void>('set it to a function that is called when Redis is unavailable'),
  ),
} satisfies RulesFor<RedisTaskStoreOptions>

/** Adds a task unless the owner has too many. Removes expired tasks from the index first. Uses the clock of Redis. */
const ADD = `
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
redis.call('ZREMRANGEBYSCORE', KEYS[2], '-inf', now)
if redis.call('ZCARD', KEYS[2]) >= tonumber(ARGV[2]) then return 0 end
redis.call('HSET', KEYS[1], 'value', ARGV[4], 'version', 1)
redis.call('PEXPIRE', KEYS[1], ARGV[1])
redis.call('ZADD', KEYS[2], now + ARGV[1], ARGV[3])
if redis.call('PTTL', KEYS[2]) < tonumber(ARGV[1]) then redis.call('PEXPIRE', KEYS[2], ARGV[1]) end
return 1
`

/** Replaces a task if it has the given version. Its time of expiry stays. */
const REPLACE = `
if redis.call('HGET', KEYS[1], 'version') ~= ARGV[1] then return 0 end
redis.call('HSET', KEYS[1], 'value', ARGV[2], 'version', ARGV[1] + 1)
return 1
`

const GET = `return redis.call('HMGET', KEYS[1], 'value', 'version')`

/**
 * Creates a store that keeps tasks in Redis (6.2 or later), so that every node of a server can serve every task. Arguments,
 * answers, and results of tools are stored as they are: protect Redis as you protect them. The store opens one further
 * connection with `client.duplicate()` for notifications between nodes.
 * @param client an ioredis or node-redis client, or a cluster client of either. It is neither connected nor closed.
 * @param options the prefix of the keys, and a function for errors.
 * @returns a store for the adapter option `tasks.store`, with `close()`.
 * @throws {KitMcpConfigError} if `client` is not a client, or an option is invalid or unknown.
 * @example
 * ```ts
 * import { Redis } from 'ioredis'
 * import { createMcpAdapter, KitMcpRouter, redisTaskStore } from 'mcp-gatekit'
 *
 * const router = KitMcpRouter.create().tool('import', { description: 'Imports data', task: 'optional' }, () => 'done')
 * const store = redisTaskStore(new Redis(), { onError: console.warn })
 * const adapter = createMcpAdapter({ router, tasks: { store } })
 * ```
 * @see docs/guides/tasks.md
 */
export function redisTaskStore(client: TaskRedisClient, options: RedisTaskStoreOptions = {}): RedisTaskStore {
  checkRedisClient(checks, 'client', client, ['eval', 'set', 'exists', 'publish', 'duplicate'])
  const expected = `must be an object such as { prefix: 'my-server:tasks' }`
  return new TasksInRedis(client, readOptions('redisTaskStore', expected, options, RULES, 'options'))
}

class TasksInRedis implements RedisTaskStore {
  readonly #client: TaskRedisClient
  readonly #prefix: string
  readonly #eval: RunScript
  readonly #listeners = new Set<(key: TaskKey) => void>()
  readonly #broadcast: RedisBroadcast

  constructor(client: TaskRedisClient, { prefix, onError }: ReadBy<typeof RULES>) {
    this.#client = client
    this.#prefix = prefix
    this.#eval = scriptRunner(client)
    this.#broadcast = new RedisBroadcast(
      'redisTaskStore',
      client as unknown as RedisClient,
      { channel: `${prefix}:changes`, ...(onError !== undefined && { onError }) },
      { onMessage: (message) => this.#onMessage(message), onGap: () => undefined },
    )
  }

  get connected(): boolean {
    return this.#broadcast.connected
  }

  async add(
    key: TaskKey,
    value: string,
    { expiresAtMs, countedFor, max }: Parameters<TaskStore['add']>[2],
  ): Promise<'added' | 'owner-full'> {
    const index = `${this.#prefix}:{${key.owner}}:count:${countedFor}`
    const ttlMs = Math.max(1, expiresAtMs - Date.now())
    const args = [String(ttlMs), String(max), key.id, value]
    return isOne(await this.#eval(ADD, [this.#keyOf(key), index], args)) ? 'added' : 'owner-full'
  }

  async get(key: TaskKey): Promise<{ value: string; version: number } | undefined> {
    const reply = await this.#eval(GET, [this.#keyOf(key)], [])
    const [value, version] = (reply as readonly unknown[]).map(valueIn)
    return value === undefined ? undefined : { value, version: Number(version) }
  }

  async replace(key: TaskKey, version: number, value: string): Promise<'replaced' | 'changed'> {
    const reply = await this.#eval(REPLACE, [this.#keyOf(key)], [String(version), value])
    return isOne(reply) ? 'replaced' : 'changed'
  }

  async beat(node: string, ttlMs: number): Promise<void> {
    const key = this.#nodeKey(node)
    if (isLikeNodeRedis(this.#client)) await this.#client.set(key, '1', { PX: ttlMs })
    else await this.#client.set(key, '1', 'PX', ttlMs)
  }

  async isAlive(node: string): Promise<boolean> {
    return isOne(await this.#client.exists(this.#nodeKey(node)))
  }

  announce({ owner, id }: TaskKey): void {
    this.#broadcast.send(`${owner} ${id}`)
  }

  subscribe(listener: (key: TaskKey) => void): () => void {
    this.#listeners.add(listener)
    return () => this.#listeners.delete(listener)
  }

  async close(): Promise<void> {
    await this.#broadcast.close()
  }

  #onMessage(message: string): void {
    const [owner, id, more] = message.split(' ', 3)
    if (owner === undefined || id === undefined || more !== undefined) return
    for (const listener of this.#listeners) listener({ owner, id })
  }

  /** The keys of one owner share a hash tag, so that a cluster keeps them on one node. */
  #keyOf({ owner, id }: TaskKey): string {
    return `${this.#prefix}:{${owner}}:task:${id}`
  }

  #nodeKey(node: string): string {
    return `${this.#prefix}:node:${node}`
  }
}
