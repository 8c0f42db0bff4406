/**
 * The part of an ioredis or node-redis client that is used. A second connection is opened with `duplicate()`, because a connection
 * that subscribes cannot do anything else.
 */
export interface RedisClient {
  /** Sends a message to a channel. */
  publish(...args: any[]): unknown
  /** Creates a client with the same options. */
  duplicate(...args: any[]): any
}

/** The part of an ioredis or node-redis client that a store of tasks or events uses. */
export interface RedisScriptClient extends RedisClient {
  /** Runs a Lua script. */
  eval(...args: any[]): unknown
}

/** Runs a Lua script with keys and arguments. */
export type RunScript = (script: string, keys: readonly string[], args: readonly string[]) => Promise<unknown>

/** Returns a function that runs Lua scripts with a client of either library. */
export function scriptRunner(client: Pick<RedisScriptClient, 'eval'>): RunScript {
  const likeNodeRedis = isLikeNodeRedis(client)
  return async (script, keys, args) =>
    likeNodeRedis
      ? await client.eval(script, { keys, arguments: args })
      : await client.eval(script, keys.length, ...keys, ...args)
}

/** node-redis writes commands in camel case, and ioredis in lower case. */
export function isLikeNodeRedis(client: object): boolean {
  return typeof (client as { xAdd?: unknown }).xAdd === 'function'
}
