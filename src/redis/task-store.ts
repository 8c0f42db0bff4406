import { randomUUID } from 'node:crypto'
import { optionChecksOf } from '../base/options/option-checks.ts'
import { optional, type RulesFor, unchecked } from '../base/options/option-rules.ts'
import { checkRedisClient } from '../base/options/redis-client.ts'
import { isOne, valueIn } from '../base/redis-replies.ts'
import type { TaskKey, TaskStore } from '../mcp/tasks/task-store.ts'
import { type RedisSubscription, redisBroadcast } from './broadcast.ts'
import { type RedisScriptClient, scriptRunner } from './run-script.ts'

const checks = optionChecksOf('redisTaskStore')
const { readOptions, text } = checks

/** Options of {@link redisTaskStore}. */
export interface RedisTaskStoreOptions {
  /** The beginning of its keys, and the name of its channel. Defaults to `mcp-gatekit:tasks`. */
  readonly prefix?: string | undefined
  /** Called when Redis is unavailable for notifications between nodes, at most once every ten seconds. */
  readonly onError?: ((error: Error) => void) | undefined
}

/** A store of tasks in Redis, as {@link redisTaskStore} returns it. */
export interface RedisTaskStore extends TaskStore, RedisSubscription {}

const RULES = {
  prefix: optional(text, 'mcp-gatekit:tasks'),
  onError: unchecked<RedisTaskStoreOptions['onError']>(),
} satisfies RulesFor<RedisTaskStoreOptions>

/**
 * Adds a task unless the owner has too many. Removes expired tasks from the index first. Uses the clock of Redis. A client repeats
 * it if the reply was lost.
 */
const ADD = `
if redis.call('EXISTS', KEYS[1]) == 1 then return 1 end
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

/** Replaces a task if it has the given version, or if this very change is repeated, as a client does if the reply was lost. */
const REPLACE = `
local version, change = unpack(redis.call('HMGET', KEYS[1], 'version', 'change'))
if change == ARGV[3] then return 1 end
if version ~= ARGV[1] then return 0 end
redis.call('HSET', KEYS[1], 'value', ARGV[2], 'version', ARGV[1] + 1, 'change', ARGV[3])
return 1
`

/** Runs one command, whose name is the first argument. */
const COMMAND = `return redis.call(ARGV[1], KEYS[1], unpack(ARGV, 2))`

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
export function redisTaskStore(
  client: RedisScriptClient,
  options: RedisTaskStoreOptions = {},
): RedisTaskStore {
  checkRedisClient(checks, 'client', client, ['eval', 'publish', 'duplicate'])
  const expected = `must be an object such as { prefix: 'my-server:tasks' }`
  const { prefix, onError } = readOptions('redisTaskStore', expected, options, RULES, 'options')
  const run = scriptRunner(client)
  const channel = `${prefix}:changes`
  const { close, send, listen } = redisBroadcast('redisTaskStore', client, { onError }, channel)
  // The keys of one owner share a hash tag, so that a cluster keeps them on one node.
  const keyOf = ({ owner, id }: TaskKey): string => `${prefix}:{${owner}}:task:${id}`
  return {
    close,
    async add(key, value, { expiresAtMs, countedFor, max }) {
      const keys = [keyOf(key), `${prefix}:{${key.owner}}:count:${countedFor}`]
      const ttlMs = Math.max(1, expiresAtMs - Date.now())
      const reply = await run(ADD, keys, [String(ttlMs), String(max), key.id, value])
      return isOne(reply) ? 'added' : 'owner-full'
    },
    async get(key) {
      const reply = await run(COMMAND, [keyOf(key)], ['HMGET', 'value', 'version'])
      const [value, version] = (reply as readonly unknown[]).map(valueIn)
      return value === undefined ? undefined : { value, version: Number(version) }
    },
    async replace(key, version, value) {
      const reply = await run(REPLACE, [keyOf(key)], [String(version), value, randomUUID()])
      return isOne(reply) ? 'replaced' : 'changed'
    },
    async beat(node, ttlMs) {
      await run(COMMAND, [`${prefix}:node:${node}`], ['SET', '1', 'PX', String(ttlMs)])
    },
    async isAlive(node) {
      return isOne(await run(COMMAND, [`${prefix}:node:${node}`], ['EXISTS']))
    },
    announce: ({ owner, id }) => send(`${owner} ${id}`),
    subscribe: (listener) =>
      listen((message = '') => {
        const [owner = '', id, more] = message.split(' ', 3)
        if (owner !== '' && id !== undefined && more === undefined) listener({ owner, id })
      }),
  }
}
