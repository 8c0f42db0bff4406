import { hash } from 'node:crypto'
import { optionChecksOf } from '../base/options/option-checks.ts'
import type { CachedVerifier } from '../oauth/verifiers/cached.ts'
import { traitsOf, withTraits } from '../oauth/verifiers/verifier-traits.ts'
import { type RedisBroadcastOptions, type RedisSubscription, redisBroadcast } from './broadcast.ts'
import type { RedisClient } from './run-script.ts'

const { checkFunction, invalidKind } = optionChecksOf('shareInvalidations')

const CLEAR = 'clear'
const KEY = /^[0-9a-f]{64}$/

/**
 * Shares the invalidations of a cached verifier with all nodes that use the same Redis. Only the SHA-256 of a token is sent.
 *
 * This node removes the token from its cache at once, and the others do so when they receive the message. A node that may
 * have missed a message, because it lost Redis, clears its whole cache. In any case, a revoked token is accepted no longer
 * than `ttlSeconds`.
 * @param verifier the return value of `cachedVerifier()`. It is not modified; use the returned verifier instead of it.
 * @param redis an ioredis or node-redis client, which is neither connected nor closed.
 * @param options the channel and callbacks.
 * @returns the same verifier, whose `invalidate`, `invalidateKey`, and `clear` reach all nodes. Call `close()` when the
 * server shuts down.
 * @throws {KitMcpConfigError} if `verifier` or `redis` is something else, or an option is invalid.
 * @example
 * ```ts
 * import { Redis } from 'ioredis'
 * import { cachedVerifier, introspectionVerifier, shareInvalidations } from 'mcp-gatekit'
 *
 * const verifyToken = shareInvalidations(
 *   cachedVerifier(
 *     introspectionVerifier({
 *       endpoint: 'https://auth.example.com/introspect',
 *       clientId: 'mcp',
 *       clientSecret: String(process.env.CLIENT_SECRET),
 *       audience: 'https://mcp.example.com/mcp',
 *     }),
 *   ),
 *   new Redis(),
 * )
 * ```
 * @see docs/guides/many-nodes.md
 */
export function shareInvalidations<App = unknown, User = unknown>(
  verifier: CachedVerifier<App, User>,
  redis: RedisClient,
  options: RedisBroadcastOptions = {},
): CachedVerifier<App, User> & RedisSubscription {
  checkFunction('verifier', verifier, 'pass the return value of cachedVerifier()')
  if (typeof verifier.invalidateKey !== 'function')
    throw invalidKind('verifier', 'must be the return value of cachedVerifier()', verifier)
  const channel = 'mcp-gatekit:invalidations'
  const { close, send, listen } = redisBroadcast('shareInvalidations', redis, options, channel)
  listen((message = CLEAR) => {
    if (KEY.test(message)) verifier.invalidateKey(message)
    else verifier.clear()
  })
  const invalidateKey = (key: string): void => {
    verifier.invalidateKey(key)
    // Something that is not a SHA-256 is not in any cache, and might be a token.
    if (KEY.test(key)) send(key)
  }
  const shared = Object.assign((input: Parameters<CachedVerifier<App, User>>[0]) => verifier(input), {
    invalidate: (token: string) => invalidateKey(hash('sha256', token, 'hex')),
    invalidateKey,
    clear() {
      verifier.clear()
      send(CLEAR)
    },
    close,
  })
  return withTraits(shared, traitsOf(verifier))
}
