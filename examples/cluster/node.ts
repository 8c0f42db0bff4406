import { createServer } from 'node:http'
import { inputRequired } from '@modelcontextprotocol/server'
import express from 'express'
import { Redis } from 'ioredis'
import {
  cachedVerifier,
  createMcpAdapter,
  gracefulShutdown,
  jwtVerifier,
  type KitContext,
  KitMcpRouter,
  KitTelemetry,
  mcpAuth,
  mcpCors,
  mcpHandler,
  OtlpTransportAdapter,
  protectedResourceRouter,
  redisEventBus,
  redisReplayStore,
  shareInvalidations,
} from 'mcp-gatekit'
import { RateLimiterMemory, RateLimiterRedis } from 'rate-limiter-flexible'
import { z } from 'zod'
import { listen } from '../listen.ts'
import { settings } from '../settings.ts'

// One of several processes that are one server. What they share is in Redis, or is the same in their environment.
const { ISSUER, RESOURCE, REDIS_URL, STATE_SECRET, PORT } = settings({
  ISSUER: 'the authorization server, such as https://auth.example.com',
  RESOURCE: 'the URL of this server as clients see it, with /mcp at its end',
  REDIS_URL: 'the Redis that all nodes share, such as redis://127.0.0.1:6379',
  STATE_SECRET: 'the same 32 random characters, or more, on every node',
  PORT: 'where this node listens on 127.0.0.1: nginx.conf expects 3001 and 3002',
})
/** JWKS_URI: where the issuer's keys are, if not in its metadata. SESSIONS: `on` for Mcp-Session-Id. */
const { JWKS_URI, SESSIONS, OTEL_EXPORTER_OTLP_ENDPOINT, INFO_RATE = '0.1' } = process.env

const telemetry = KitTelemetry.create()
  .withService('board')
  .withEnvironment(process.env.NODE_ENV ?? 'development')
  .withSampling({ infoRate: Number(INFO_RATE) })
  .withLogger(console)
const collected = OTEL_EXPORTER_OTLP_ENDPOINT
  ? telemetry
      .addTransport(OtlpTransportAdapter.create({ url: OTEL_EXPORTER_OTLP_ENDPOINT, compression: 'gzip' }))
      .build()
  : telemetry.build()

// A Redis that is slow or away costs a request that needs it a second, not ten.
const redis = new Redis(REDIS_URL, { commandTimeout: 1_000, maxRetriesPerRequest: 1 })
// Said by the parts that use it, below.
redis.on('error', () => undefined)
const told = (part: string) => ({
  onError: (error: Error) =>
    void collected.emit('redis.away', { level: 'warn', attributes: { part }, error }),
  onCaughtUp: () => void collected.emit('redis.caught_up', { attributes: { part } }),
})

const eventBus = redisEventBus(redis, told('event bus'))
const verifyToken = shareInvalidations(
  cachedVerifier(
    jwtVerifier({
      issuer: ISSUER,
      audience: RESOURCE,
      ...(JWKS_URI !== undefined && { jwksUri: JWKS_URI }),
      // Clocks of machines differ.
      clockToleranceSeconds: 30,
    }),
  ),
  redis,
  told('invalidations'),
)

const BOARD = 'board://notes'
const router = KitMcpRouter.create()
  .tool('greet', { description: 'Greets someone', input: z.object({ name: z.string() }) }, ({ name }) => {
    return `Hello, ${name}!`
  })
  .tool('post', { description: 'Puts a note on the board', input: z.object({ note: z.string() }) }, (args) =>
    post(args.note),
  )
  .tool('clear', { description: 'Takes all notes off the board' }, (_args, context) => clear(context))
  .resource('board', { uri: BOARD }, async () => (await redis.lrange('board', 0, -1)).join('\n'))

/** What tools change lies in Redis too: the next request may reach another node. */
async function post(note: string): Promise<string> {
  const count = await redis.rpush('board', note)
  adapter.notify.resourceUpdated(BOARD)
  return `There are ${count} notes on the board.`
}

const SURE = z.object({ sure: z.boolean() })

/** Asks first. The answer may reach another node, which can read what this one sealed: they share STATE_SECRET. */
async function clear(context: KitContext) {
  const count = await redis.llen('board')
  if (context.state === undefined) {
    const message = `Take ${count} notes off the board?`
    return context.inputRequired(
      { sure: inputRequired.elicit({ message, requestedSchema: SURE }) },
      { count },
    )
  }
  const unchanged = (context.state as { count: number }).count === count
  if (context.accepted('sure', SURE)?.sure !== true || !unchanged) return 'The board stays as it is.'
  await redis.del('board')
  adapter.notify.resourceUpdated(BOARD)
  return `${count} notes are gone.`
}

const adapter = createMcpAdapter({
  serverInfo: { name: 'board', version: '1.0.0' },
  router,
  telemetry: collected,
  eventBus,
  requestStateSecret: STATE_SECRET,
  sessions: SESSIONS === 'on',
  // Nodes listen on loopback, clients say the name of the whole.
  allowedHosts: [new URL(RESOURCE).hostname],
  oauth: {
    issuer: ISSUER,
    resource: RESOURCE,
    scopes: ['mcp:read'],
    verifyToken,
    dpop: { mode: 'allowed', replayStore: redisReplayStore(redis) },
    rateLimit: new RateLimiterRedis({
      storeClient: redis,
      keyPrefix: 'board:refusals',
      points: 100,
      duration: 60,
      rejectIfRedisNotReady: true,
      // While Redis is away each node counts by itself.
      insuranceLimiter: new RateLimiterMemory({ points: 100, duration: 60 }),
    }),
  },
})

const app = express()
// nginx says who the client is, and is on this machine.
app.set('trust proxy', 'loopback')
const server = createServer(app)
// Longer than nginx keeps an idle connection (60 s): whoever closes first must be the one who sends requests on it.
server.keepAliveTimeout = 75_000
const shutdown = gracefulShutdown(server, {
  telemetry: collected,
  signals: ['SIGTERM', 'SIGINT'],
  // A load balancer that asks /ready needs some seconds here to see that the node is about to end.
  readinessDelayMs: Number(process.env.READINESS_DELAY_MS ?? 0),
  // nginx keeps connections to the nodes. A call that it sends just as one is closed would be lost.
  idleGraceMs: 2_000,
  async onClosed({ pendingRequests, telemetry }) {
    console.log(JSON.stringify({ closed: { pendingRequests, transports: telemetry?.transports } }))
    await Promise.all([eventBus.close(), verifyToken.close()])
    redis.disconnect()
  },
})
app.get('/ready', shutdown.readiness())
app.use('/mcp', mcpCors(), mcpAuth(adapter), mcpHandler(adapter))
app.use(protectedResourceRouter(adapter))
// For whoever revokes tokens: `curl -X DELETE 127.0.0.1:3001/tokens/<SHA-256 of the token>`. nginx.conf passes it on to nobody.
app.delete('/tokens/:key', (req, res) => {
  verifyToken.invalidateKey(req.params.key)
  res.sendStatus(204)
})

console.log(`Serving ${RESOURCE} on port ${await listen(server, Number(PORT))}`)
