import type { DpopReplayStore } from '../oauth/dpop/replay-store.ts'
import { optionChecksOf } from '../options/option-checks.ts'

const { invalidKind, invalidOption } = optionChecksOf('redisReplayStore')

/** An ioredis client, or a node-redis client; of either also a cluster. */
export interface ReplayRedisClient {
  set(...args: any[]): unknown
}

/** Proofs are remembered for so much longer than they are good, since a node whose clock is slow takes them longer. */
const CLOCK_DIFFERENCE_SECONDS = 60

/**
 * Remembers used DPoP proofs in Redis, for all nodes that share it, whose clocks may be 60 s apart. It opens no connection and closes none.
 * @param client an ioredis or node-redis client. Its `set` must reject, or answer within `verifyTimeoutMs`.
 * @param prefix what its keys begin with. Default `mcp-gatekit:dpop:`.
 * @throws {KitMcpConfigError} for anything else.
 */
export function redisReplayStore(
  client: ReplayRedisClient,
  prefix: string = 'mcp-gatekit:dpop:',
): DpopReplayStore {
  if (typeof client?.set !== 'function')
    throw invalidKind('replayStore', 'must be made of an ioredis or a node-redis client', client)
  if (typeof prefix !== 'string') throw invalidOption('prefix', 'must be a string', prefix)
  // The two spell every command of more than one word differently.
  const likeNodeRedis = typeof (client as { xAdd?: unknown }).xAdd === 'function'
  return {
    async use(key, expiresAtSeconds) {
      const seconds = Math.max(1, Math.ceil(expiresAtSeconds - Date.now() / 1000)) + CLOCK_DIFFERENCE_SECONDS
      const reply = likeNodeRedis
        ? await client.set(prefix + key, '1', { NX: true, EX: seconds })
        : await client.set(prefix + key, '1', 'EX', seconds, 'NX')
      return reply !== null
    },
  }
}
