import { optionChecksOf } from '../base/options/option-checks.ts'
import { checkRedisClient } from '../base/options/redis-client.ts'
import { wasAdded } from '../base/redis-replies.ts'
import type { DpopReplayStore } from '../oauth/dpop/replay-store.ts'
import { isLikeNodeRedis } from './run-script.ts'

const checks = optionChecksOf('redisReplayStore')

/** The time that proofs are kept after they expire, because a node whose clock is slow accepts them for longer. */
const CLOCK_DIFFERENCE_SECONDS = 60

/**
 * Creates a store that keeps used DPoP proofs in Redis, so that a proof is accepted once across all nodes. It can also keep used
 * answers to `confirm` of tools, in the option `confirmations.store`. The clocks of the
 * nodes may differ by 60 s. The store neither opens nor closes connections.
 * @param client an ioredis or node-redis client, or a cluster client of either. If a `SET` takes longer than
 * `verifyTimeoutMs`, or is answered with anything but `OK` or `null`, the response is 503. A plain object with `set` gets the
 * arguments of ioredis. If it passes them to node-redis, which ignores `NX` in that form, replays are accepted.
 * @param prefix the beginning of its keys. Defaults to `mcp-gatekit:dpop:`.
 * @returns a store for the option `dpop.replayStore`.
 * @throws {KitMcpConfigError} if `client` is not a client, or `prefix` is not a string.
 * @example
 * ```ts
 * import { Redis } from 'ioredis'
 * import { jwtVerifier, mcpAuth, redisReplayStore } from 'mcp-gatekit'
 *
 * const requireToken = mcpAuth({
 *   issuer: 'https://auth.example.com',
 *   resource: 'https://mcp.example.com/mcp',
 *   verifyToken: jwtVerifier(),
 *   dpop: { mode: 'required', replayStore: redisReplayStore(new Redis()) },
 * })
 * ```
 * @see https://www.rfc-editor.org/rfc/rfc9449#section-11.1
 */
export function redisReplayStore(
  client: { set(...args: any[]): unknown },
  prefix: string = 'mcp-gatekit:dpop:',
): DpopReplayStore {
  checkRedisClient(checks, 'replayStore', client, ['set'])
  checks.checkString('prefix', prefix)
  return {
    async use(key, expiresAtSeconds) {
      const seconds = Math.max(1, Math.ceil(expiresAtSeconds - Date.now() / 1000)) + CLOCK_DIFFERENCE_SECONDS
      const reply = isLikeNodeRedis(client)
        ? await client.set(prefix + key, '1', { NX: true, EX: seconds })
        : await client.set(prefix + key, '1', 'EX', seconds, 'NX')
      return wasAdded(reply)
    },
  }
}
