import { expect } from 'chai'
import { Redis } from 'ioredis'
import { RateLimiterRedis } from 'rate-limiter-flexible'
import { redisStore } from '../../../src/authorization/index.ts'
import { AuthInfo, createMcpAdapter, KitMcpRouter, mcpHandler, redisTaskStore } from '../../../src/index.ts'
import { redisReplayStore } from '../../../src/redis/replay-store.ts'
import { upstreamToken } from '../../../src/upstream/index.ts'
import { itAtOnce } from '../at-once.ts'
import { startFacade } from '../authorization/facade.ts'
import { createProofKey, proofFor } from '../dpop.ts'
import { gatedApp, oauthOptions } from '../gate-app.ts'
import { oauth } from '../mcp/notes.ts'
import { TaskClient } from '../mcp/tasks.ts'
import { bearer, call, legacy, listen } from '../mcp/wire.ts'
import { type RedisServer, startRedis } from '../redis.ts'
import type { RedisClientKind } from '../redis-clients.ts'
import { until } from '../until.ts'

/** The requests that are in progress when Redis stops, and those that follow when it has missed their timeouts. */
const FIRST = 20
const FOLLOWING = 300
const AT_A_TIME = 50

/** A use of a store in Redis. */
interface Use {
  /** Sends a request that uses the store, and describes its response. */
  ask(): Promise<unknown>
  close(): Promise<void>
}

interface Scenario {
  readonly use: string
  /** The outcome of a request while Redis does not answer, and after it. */
  readonly away: unknown
  readonly back: unknown
  start(client: any, kind: RedisClientKind): Promise<Use>
}

const limiterOn = (storeClient: unknown, { name }: RedisClientKind, options: { readonly points: number }) =>
  new RateLimiterRedis({ storeClient, useRedisPackage: name === 'node-redis', duration: 60, ...options })

const SCENARIOS: readonly Scenario[] = [
  {
    use: 'rateLimit',
    away: 401,
    back: 429,
    async start(client, kind) {
      const rateLimit = limiterOn(client, kind, { points: 3 })
      const server = await listen(gatedApp(oauthOptions({ rateLimit })))
      return { ask: async () => (await server.send(legacy({}))).status, close: () => server.close() }
    },
  },
  {
    use: 'limits.store',
    away: 'pong',
    back: 'refused',
    async start(client, kind) {
      const adapter = createMcpAdapter({
        router: KitMcpRouter.create().tool('ping', { description: 'x' }, () => 'pong'),
        oauth: oauth(),
        limits: {
          calls: { max: 3, perSeconds: 60, by: 'user' },
          store: (options) => limiterOn(client, kind, options),
        },
      })
      const server = await listen(mcpHandler(adapter))
      return {
        async ask() {
          const { result } = (await server.send(legacy(call('ping'), bearer('reader')))).message
          return result.isError === true ? 'refused' : result.content[0].text
        },
        close: () => server.close(),
      }
    },
  },
  {
    use: 'redisReplayStore',
    away: 503,
    back: 200,
    async start(client) {
      const key = await createProofKey()
      const options = oauthOptions(
        { dpop: { mode: 'required', replayStore: redisReplayStore(client) }, verifyTimeoutMs: 1_000 },
        { cnf: { jkt: key.thumbprint } },
      )
      const server = await listen(gatedApp(options))
      return {
        async ask() {
          const dpop = await proofFor(key, 'POST', `${server.origin}/mcp`, { token: 'good' })
          return (await server.send(legacy({}, { authorization: 'DPoP good', dpop }))).status
        },
        close: () => server.close(),
      }
    },
  },
  {
    use: 'redisTaskStore',
    away: -32_603,
    back: 'completed',
    async start(client) {
      const store = redisTaskStore(client)
      const router = KitMcpRouter.create().tool('quick', { description: 'x', task: 'required' }, () => 'done')
      const adapter = createMcpAdapter({ router, tasks: { store } })
      const server = await listen(mcpHandler(adapter))
      const user = new TaskClient(server)
      const { taskId } = await user.run('quick')
      return {
        async ask() {
          const { result, error } = (await user.send('tasks/get', { taskId })).message
          return error?.code ?? result.status
        },
        async close() {
          await adapter.tasks.close()
          await store.close()
          await server.close()
        },
      }
    },
  },
  {
    use: 'redisStore of authorizationFacade',
    away: 503,
    back: 401,
    async start(client) {
      const facade = await startFacade({ store: redisStore(client) }, {}, { keepOpen: true })
      const request = { grant_type: 'refresh_token', client_id: 'unknown', refresh_token: 'x' }
      return { ask: async () => (await facade.token(request)).status, close: () => facade.end() }
    },
  },
  {
    use: 'cache.store of upstreamToken',
    away: 'upstream',
    back: 'upstream',
    async start(client) {
      let issued = 0
      const endpoint = await listen((_req, res) => {
        res.setHeader('content-type', 'application/json')
        res.end(
          JSON.stringify({
            access_token: `upstream${issued++}`,
            issued_token_type: 'urn:ietf:params:oauth:token-type:access_token',
            token_type: 'Bearer',
            expires_in: 3_600,
          }),
        )
      })
      const tokens = upstreamToken({
        tokenEndpoint: `${endpoint.origin}/token`,
        clientId: 'mcp',
        clientSecret: 'a-secret-of-32-characters-at-least',
        style: 'token-exchange',
        timeoutMs: 20_000,
        cache: {
          store: {
            get: (key) => client.get(key),
            set: (key, value) => client.set(key, value),
            delete: (key) => client.del(key),
          },
        },
      })
      let users = 0
      return {
        async ask() {
          const user = { id: `user${users++}` }
          const claims = { clientId: 'c', scopes: [], expiresAt: undefined, resource: undefined, extra: {} }
          const { token } = await tokens.for(
            AuthInfo.of('incoming-token', { ...claims, user }, 'iss:https://example.com'),
          )
          return token.replace(/\d+$/, '')
        },
        close: () => endpoint.close(),
      }
    },
  },
]

/** Returns the number of commands that Redis has received on all connections. */
async function commandsOf({ port }: RedisServer): Promise<number> {
  const client = new Redis(port, '127.0.0.1')
  const stats = await client.info('stats')
  client.disconnect()
  return Number(/total_commands_processed:(\d+)/.exec(stats)?.[1])
}

/** Tests all uses of a store in Redis on kinds of clients. */
export function silentStoreTests(kinds: readonly RedisClientKind[]): void {
  itAtOnce(
    6,
    kinds.flatMap((kind) =>
      SCENARIOS.map((scenario) => [
        `${scenario.use} on ${kind.name}: requests while Redis does not answer add no command each, and the store is used again afterwards`,
        () => expectFewCommands(scenario, kind),
      ]),
    ),
  )
}

async function expectFewCommands({ away, back, start }: Scenario, kind: RedisClientKind): Promise<void> {
  const redis = await startRedis()
  const client = await kind.connect(redis.port)
  const { ask, close } = await start(client, kind)
  try {
    await ask()
    const before = await commandsOf(redis)
    redis.pause()
    const first = await Promise.all(Array.from({ length: FIRST }, ask))
    expect(first).to.deep.equal(Array(FIRST).fill(away))
    let left = FOLLOWING
    const following = new Set<unknown>()
    // The request that asks the store waits for its timeout, and the others go on.
    const askOnAndOn = async (): Promise<void> => {
      while (left-- > 0) following.add(await ask())
    }
    await Promise.all(Array.from({ length: AT_A_TIME }, askOnAndOn))
    expect(following).to.deep.equal(new Set([away]))
    redis.resume()
    await until(async () => (await ask()) === back, 10)
    // One request takes up to eight commands.
    expect((await commandsOf(redis)) - before).to.be.below(FOLLOWING / 2)
  } finally {
    redis.resume()
    await close()
    client.end()
    await redis.stop()
  }
}
