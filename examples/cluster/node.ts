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

// One of several processes that form one server. They share Redis and the same environment variables.
const { ISSUER, RESOURCE, REDIS_URL, STATE_SECRET, PORT } = settings({
  ISSUER: 'the authorization server, such as https://auth.example.com',
  RESOURCE: 'the URL of this server as clients see it, with /mcp at its end',
  REDIS_URL: 'the Redis that all nodes share, such as redis://127.0.0.1:6379',
  STATE_SECRET: 'at least 32 random characters, the same on every node',
  PORT: 'the port of this node on 127.0.0.1; nginx.conf expects 3001 and 3002',
})
/** JWKS_URI is the URL of the issuer's keys, if its metadata does not contain it. SESSIONS=on enables Mcp-Session-Id. */
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

// If Redis is slow or unavailable, a request waits one second instead of ten.
const redis = new Redis(REDIS_URL, { commandTimeout: 1_000, maxRetriesPerRequest: 1 })
// The parts that use Redis report errors, see below.
redis.on('error', () => undefined)
const reportTo = (part: string) => ({
  onError: (error: Error) =>
    void collected.emit('redis.away', { level: 'warn', attributes: { part }, error }),
  onCaughtUp: () => void collected.emit('redis.caught_up', { attributes: { part } }),
})

const eventBus = redisEventBus(redis, reportTo('event bus'))
const verifyToken = shareInvalidations(
  cachedVerifier(
    jwtVerifier({
      issuer: ISSUER,
      audience: RESOURCE,
      ...(JWKS_URI !== undefined && { jwksUri: JWKS_URI }),
      // The clocks of machines differ.
      clockToleranceSeconds: 30,
    }),
  ),
  redis,
  reportTo('invalidations'),
)

const BOARD = 'board://notes'
const router = KitMcpRouter.create()
  .tool(
    'greet',
    {
      title: 'Greet',
      description: 'Greets someone',
      input: z.object({ name: z.string() }),
      annotations: { readOnlyHint: true },
    },
    ({ name }) => {
      return `Hello, ${name}!`
    },
  )
  .tool(
    'post',
    {
      title: 'Post a note',
      description: 'Puts a note on the board',
      input: z.object({ note: z.string() }),
      annotations: { destructiveHint: false },
    },
    (args) => post(args.note),
  )
  .tool(
    'clear',
    {
      title: 'Clear the board',
      description: 'Takes all notes off the board',
      annotations: { destructiveHint: true },
    },
    (_args, context) => clear(context),
  )
  .resource('board', { uri: BOARD }, async () => (await redis.lrange('board', 0, -1)).join('\n'))

/** The state of the tools is in Redis, because the next request can reach another node. */
async function post(note: string): Promise<string> {
  const count = await redis.rpush('board', note)
  adapter.notify.resourceUpdated(BOARD)
  return `The board has ${count} notes.`
}

const SURE = z.object({ sure: z.boolean() })

/** Asks the user first. The answer can reach another node, which can decrypt the state because all nodes share STATE_SECRET. */
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
  if (context.accepted('sure', SURE)?.sure !== true || !unchanged) return 'The board was not changed.'
  await redis.del('board')
  adapter.notify.resourceUpdated(BOARD)
  return `${count} notes were removed.`
}

const adapter = createMcpAdapter({
  serverInfo: { name: 'board', version: '1.0.0' },
  router,
  telemetry: collected,
  eventBus,
  requestStateSecret: STATE_SECRET,
  sessions: SESSIONS === 'on',
  // The nodes listen on loopback, but the Host header contains the public host name.
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
      // While Redis is unavailable, each node counts separately.
      insuranceLimiter: new RateLimiterMemory({ points: 100, duration: 60 }),
    }),
  },
})

const app = express()
// nginx runs on this machine and sends the address of the client.
app.set('trust proxy', 'loopback')
const server = createServer(app)
// Longer than nginx keeps idle connections (60 s), so that nginx closes them first and loses no request.
server.keepAliveTimeout = 75_000
const shutdown = gracefulShutdown(server, {
  telemetry: collected,
  signals: ['SIGTERM', 'SIGINT'],
  // A load balancer that checks /ready needs some seconds here to notice the shutdown.
  readinessDelayMs: Number(process.env.READINESS_DELAY_MS ?? 0),
  // nginx keeps connections to the nodes open. A call would be lost if the node closed its connection at the same time.
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
// Revokes a token: `curl -X DELETE 127.0.0.1:3001/tokens/<SHA-256 of the token>`. nginx does not forward this path.
app.delete('/tokens/:key', (req, res) => {
  verifyToken.invalidateKey(req.params.key)
  res.sendStatus(204)
})

console.log(`Serving ${RESOURCE} on port ${await listen(server, Number(PORT))}`)
