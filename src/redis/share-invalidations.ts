import { hash } from 'node:crypto'
import { joinGate, onJoin } from '../oauth/gate-values.ts'
import type { CachedVerifier } from '../oauth/verifiers/cached.ts'
import { optionChecksOf } from '../options/option-checks.ts'
import {
  type PubSubRedis,
  RedisBroadcast,
  type RedisBroadcastOptions,
  type RedisShared,
} from './broadcast.ts'

const { checkFunction, invalidKind } = optionChecksOf('shareInvalidations')

/** A verifier whose `invalidate`, `invalidateKey` and `clear` reach all nodes. */
export interface SharedVerifier<App = unknown, User = unknown>
  extends CachedVerifier<App, User>,
    RedisShared {}

const CLEAR = 'clear'
const KEY = /^[0-9a-f]{64}$/

/**
 * Has all nodes that share a Redis forget what one of them forgets. Only the SHA-256 of a token goes about. This
 * node forgets at once; the others as soon as they hear of it, and where they may have missed something (Redis was away,
 * or they were) they forget every token. So a revoked token works no longer than `ttlSeconds` anywhere, whatever
 * becomes of Redis.
 * @param verifier what `cachedVerifier()` returned. It stays as it is; use what is returned in its place.
 * @param options `channel` is by default `mcp-gatekit:invalidations`.
 * @throws {KitMcpConfigError} for anything else.
 */
export function shareInvalidations<App = unknown, User = unknown>(
  verifier: CachedVerifier<App, User>,
  redis: PubSubRedis,
  options: RedisBroadcastOptions = {},
): SharedVerifier<App, User> {
  checkFunction('verifier', verifier, 'give what cachedVerifier() returned')
  if (typeof verifier.invalidateKey !== 'function')
    throw invalidKind('verifier', 'must be what cachedVerifier() returned', verifier)
  const channel = options?.channel ?? 'mcp-gatekit:invalidations'
  const given = typeof options === 'object' && options !== null ? { ...options, channel } : options
  const broadcast: RedisBroadcast = new RedisBroadcast('shareInvalidations', redis, given, {
    onText(text) {
      if (KEY.test(text)) verifier.invalidateKey(text)
      else verifier.clear()
    },
    onGap: () => verifier.clear(),
  })
  const invalidateKey = (key: string): void => {
    verifier.invalidateKey(key)
    // What is no SHA-256 is in no cache, and may be a token.
    if (KEY.test(key)) broadcast.send(key)
  }
  const shared = Object.assign((input: Parameters<CachedVerifier<App, User>>[0]) => verifier(input), {
    invalidate: (token: string) => invalidateKey(hash('sha256', token, 'hex')),
    invalidateKey,
    clear() {
      verifier.clear()
      broadcast.send(CLEAR)
    },
    close: () => broadcast.close(),
  })
  onJoin(shared, (gate) => joinGate(verifier, gate))
  return Object.defineProperty(shared, 'connected', { get: () => broadcast.connected }) as SharedVerifier<
    App,
    User
  >
}
