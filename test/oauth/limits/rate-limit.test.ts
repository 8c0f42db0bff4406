import { once } from 'node:events'
import { expect } from 'chai'
import express, { type RequestHandler } from 'express'
import { Redis } from 'ioredis'
import { RateLimiterMemory, RateLimiterRedis, RateLimiterUnion } from 'rate-limiter-flexible'
import { createClient } from 'redis'
import { createMcpAdapter, KitMcpRouter, mcpAuth, mcpCors, type OAuthOptions } from '../../../src/index.ts'
import { KitTelemetry, MockTelemetryAdapter } from '../../../src/telemetry/index.ts'
import { fakeTime } from '../../support/fake-time.ts'
import { gatedApp, oauthOptions } from '../../support/gate-app.ts'
import { listen } from '../../support/listen.ts'
import { rawRequest } from '../../support/raw-http.ts'
import { type RedisServer, redisMissing, startRedis } from '../../support/redis.ts'
import { skipIf } from '../../support/skip.ts'

const HOST = 'Host: mcp.example.com'
const GOOD = 'Authorization: Bearer good'
const limited = (points: number, changes: Partial<OAuthOptions> = {}) =>
  oauthOptions({ rateLimit: { points, durationSeconds: 60 }, ...changes })

/** Sends these requests one after the other, and returns the status of each response. */
async function statuses(port: number, ...requests: readonly (readonly string[])[]): Promise<number[]> {
  const found: number[] = []
  for (const headers of requests) found.push((await rawRequest(port, { headers: [HOST, ...headers] })).status)
  return found
}

describe('rateLimit', () => {
  it('refusals beyond rateLimit get a 429 with Retry-After and without a challenge', async () => {
    const { port } = await listen(gatedApp(limited(2)))
    expect(await statuses(port, [], ['Authorization: Bearer bad'])).to.deep.equal([401, 401])
    const response = await rawRequest(port, { headers: [HOST] })
    expect(response.status).to.equal(429)
    expect(Number(response.header('retry-after'))).to.be.within(1, 60)
    expect(response.header('www-authenticate')).to.equal(undefined)
    expect(response.header('content-type')).to.equal('application/json')
    expect(response.header('cache-control')).to.equal('no-store')
    expect(response.body).to.equal(
      '{"error":"too_many_requests","error_description":"Too many failed requests from this address"}',
    )
  })

  it('a valid token is accepted beyond rateLimit, and is not counted', async () => {
    const { port } = await listen(gatedApp(limited(1)))
    expect(await statuses(port, [GOOD], [GOOD], [], [], [GOOD], [], [GOOD])).to.deep.equal([
      200, 200, 401, 429, 200, 429, 200,
    ])
  })

  it('rateLimit counts 403 but neither 500 nor 503', async () => {
    const scoped = limited(1, { scopes: ['mcp:read'] })
    const { port } = await listen(gatedApp(scoped))
    expect(await statuses(port, [GOOD], [GOOD])).to.deep.equal([403, 429])
    const failing = limited(1, {
      verifyToken: ({ bearerToken }) => {
        if (bearerToken === 'good') return { valid: true }
        return undefined
      },
      onVerified: () => {
        throw new Error('a hook')
      },
    })
    const other = await listen(gatedApp(failing))
    expect(await statuses(other.port, [GOOD], [GOOD], [], [])).to.deep.equal([500, 500, 401, 429])
  })

  it('rateLimit is off by default', async () => {
    const { port } = await listen(gatedApp(oauthOptions()))
    expect(new Set(await statuses(port, ...new Array(50).fill([])))).to.deep.equal(new Set([401]))
  })

  it('a 429 has the CORS headers', async () => {
    const { port } = await listen(gatedApp(limited(1), { before: [mcpCors() as RequestHandler] }))
    await rawRequest(port, { headers: [HOST] })
    const response = await rawRequest(port, { headers: [HOST] })
    expect(response.status).to.equal(429)
    expect(response.header('access-control-allow-origin')).to.equal('*')
    expect(response.header('access-control-expose-headers')).to.include('Retry-After')
  })

  describe('clients', () => {
    it('rateLimit counts by req.ip if Express trusts its proxy', async () => {
      const from = (address: string) => [`X-Forwarded-For: ${address}`]
      for (const trusted of [true, false]) {
        const app = express()
          .set('trust proxy', trusted)
          .use(gatedApp(limited(1)))
        const { port } = await listen(app)
        const seen = await statuses(port, from('192.0.2.1'), from('192.0.2.2'), from('192.0.2.1'))
        expect(seen).to.deep.equal(trusted ? [401, 401, 429] : [401, 429, 429])
      }
    })

    it('rateLimit counts by the address of the socket on a plain server', async () => {
      const gate = mcpAuth(limited(1, { trustProxy: true }))
      const { port } = await listen((req, res) => gate(req, res))
      expect(
        await statuses(port, ['X-Forwarded-For: 192.0.2.1'], ['X-Forwarded-For: 192.0.2.2']),
      ).to.deep.equal([401, 429])
    })

    it('rateLimit counts by the result of clientAddress, in both handlers', async () => {
      const clientAddress = (request: Request) => request.headers.get('x-client') ?? undefined
      const oauth = limited(1, { clientAddress })
      const { port } = await listen(gatedApp(oauth))
      const from = (address: string) => [`X-Client: ${address}`]
      expect(
        await statuses(port, from('192.0.2.1'), from('192.0.2.2'), from('192.0.2.1'), [], []),
      ).to.deep.equal([401, 401, 429, 401, 401])
      const { server } = createMcpAdapter({ router: KitMcpRouter.create(), oauth })
      const ask = async (address: string) =>
        (await server(new Request('https://mcp.example.com/mcp', { headers: { 'x-client': address } })))
          .status
      expect([await ask('192.0.2.1'), await ask('192.0.2.2'), await ask('192.0.2.1')]).to.deep.equal([
        401, 401, 429,
      ])
    })

    it('a request without a known address is not limited', async () => {
      const { server } = createMcpAdapter({ router: KitMcpRouter.create(), oauth: limited(1) })
      for (let times = 0; times < 5; times++) {
        expect((await server(new Request('https://mcp.example.com/mcp'))).status).to.equal(401)
      }
      const { port } = await listen(gatedApp(limited(1, { clientAddress: () => undefined })))
      expect(await statuses(port, [], [])).to.deep.equal([401, 401])
    })

    it('a clientAddress that fails or returns no address falls back to the default, or else to one client', async () => {
      for (const clientAddress of [
        () => 'no address',
        () => 5 as never,
        () => null as never,
        () => Promise.reject(new Error('later')) as never,
        () => {
          throw new Error('unknown')
        },
      ]) {
        const oauth = limited(1, { clientAddress })
        const { port } = await listen(gatedApp(oauth))
        expect(await statuses(port, [], [])).to.deep.equal([401, 429])
        const { server } = createMcpAdapter({ router: KitMcpRouter.create(), oauth })
        const ask = async () => (await server(new Request('https://mcp.example.com/mcp'))).status
        expect([await ask(), await ask()]).to.deep.equal([401, 429])
      }
    })
  })

  describe('with a limiter of rate-limiter-flexible', () => {
    it('rateLimit accepts a limiter of rate-limiter-flexible in memory, and a union of limiters', async () => {
      const memory = () => new RateLimiterMemory({ points: 1, duration: 60 })
      const union = new RateLimiterUnion(
        new RateLimiterMemory({ keyPrefix: 'a', points: 5, duration: 1 }),
        new RateLimiterMemory({ keyPrefix: 'b', points: 1, duration: 60 }),
      )
      for (const rateLimit of [memory(), union]) {
        const { port } = await listen(gatedApp(oauthOptions({ rateLimit })))
        expect(await statuses(port, [], [])).to.deep.equal([401, 429])
      }
    })

    it('rateLimit accepts one limiter for several gates', async () => {
      const rateLimit = new RateLimiterMemory({ points: 2, duration: 60 })
      const [one, two] = [
        await listen(gatedApp(oauthOptions({ rateLimit }))),
        await listen(gatedApp(oauthOptions({ rateLimit }))),
      ]
      expect(await statuses(one.port, [])).to.deep.equal([401])
      expect(await statuses(two.port, [], [])).to.deep.equal([401, 429])
      expect(await statuses(one.port, [])).to.deep.equal([429])
    })

    describe('in Redis', () => {
      let redis: RedisServer
      before(async function () {
        skipIf(this, redisMissing())
        redis = await startRedis()
      })
      after(() => redis?.stop())

      it('rateLimit accepts a Redis limiter with node-redis', async () => {
        const storeClient = createClient({ url: `redis://127.0.0.1:${redis.port}` })
        await storeClient.connect()
        try {
          const rateLimit = new RateLimiterRedis({
            ...{ storeClient, useRedisPackage: true, keyPrefix: 'node-redis' },
            ...{ points: 1, duration: 60 },
          })
          const { port } = await listen(gatedApp(oauthOptions({ rateLimit })))
          expect(await statuses(port, [], [], [GOOD])).to.deep.equal([401, 429, 200])
        } finally {
          storeClient.destroy()
        }
      })

      it('rateLimit accepts a Redis limiter that several processes share, and survives its failure', async () => {
        const clients = [new Redis(redis.port), new Redis(redis.port, { enableOfflineQueue: false })] as const
        for (const client of clients) client.on('error', () => undefined)
        await once(clients[1], 'ready')
        const apps = clients.map((storeClient) =>
          gatedApp(
            oauthOptions({ rateLimit: new RateLimiterRedis({ storeClient, points: 1, duration: 60 }) }),
          ),
        )
        const [one, two] = await Promise.all(apps.map((app) => listen(app)))
        await clients[0].ping()
        try {
          expect(await statuses(one?.port ?? 0, [])).to.deep.equal([401])
          expect(await statuses(two?.port ?? 0, [])).to.deep.equal([429])
          await redis.kill()
          expect(await statuses(two?.port ?? 0, [], [])).to.deep.equal([401, 401])
        } finally {
          for (const client of clients) client.disconnect()
        }
      })
    })

    it('a limiter that fails or hangs does not change the response', async () => {
      for (const consume of [
        () => Promise.reject(new Error('redis://user:secret@host')),
        () => Promise.reject(undefined),
        () => Promise.reject('no'),
        () => Promise.reject({ msBeforeNext: 'soon' }),
        () => {
          throw new Error('at once')
        },
        () => new Promise(() => undefined),
      ]) {
        const { port } = await listen(gatedApp(oauthOptions({ rateLimit: { consume } })))
        const response = await rawRequest(port, { headers: [HOST] })
        expect(response.status).to.equal(401)
        expect(response.header('www-authenticate')).to.match(/^Bearer realm="mcp-server"/)
        expect(response.body).not.to.include('secret')
      }
    })

    it('a 429 names at least one second, whatever wait the limiter returns', async () => {
      const consume = () => Promise.reject({ msBeforeNext: 0 })
      const { port } = await listen(gatedApp(oauthOptions({ rateLimit: { consume } })))
      const response = await rawRequest(port, { headers: [HOST] })
      expect([response.status, response.header('retry-after')]).to.deep.equal([429, '1'])
    })
  })

  it('a 429 is reported to telemetry as rate_limited', async () => {
    const transport = MockTelemetryAdapter.create()
    const telemetry = KitTelemetry.create().withSampling({ infoRate: 1 }).addTransport(transport).build()
    const oauth = limited(1, { clientAddress: () => '192.0.2.1', scopes: ['mcp:read'] })
    const { server } = createMcpAdapter({ router: KitMcpRouter.create(), oauth, telemetry })
    const ask = (headers: Record<string, string>) =>
      server(
        new Request('https://mcp.example.com/mcp', { headers: { accept: 'text/event-stream', ...headers } }),
      )
    const answers = [await ask({}), await ask({}), await ask({ authorization: 'Bearer good' })]
    expect(answers.map(({ status }) => status)).to.deep.equal([401, 429, 429])
    expect(answers[1]?.headers.get('access-control-allow-origin')).to.equal('*')
    await telemetry.flush()
    const reasons = () => transport.getEvents().map(({ name, attributes }) => [name, attributes?.reason])
    // The third request is counted.
    expect(reasons()).to.deep.equal([
      ['kit.mcp.auth.refused', 'missing'],
      ['kit.mcp.auth.refused', 'rate_limited'],
    ])
    await telemetry.shutdown()
    expect(reasons().at(-1)).to.deep.equal(['kit.mcp.auth.refused', 'rate_limited'])
  })

  for (const end of ['the minute', 'the manager'])
    it(`each address has one event for its first 429 of a minute, and one for the others when ${end} ends`, async () => {
      const time = fakeTime()
      try {
        const transport = MockTelemetryAdapter.create()
        const telemetry = KitTelemetry.create().withSampling({ infoRate: 1 }).addTransport(transport).build()
        const clientAddress = (request: Request) => request.headers.get('x-address') ?? undefined
        const { server } = createMcpAdapter({
          router: KitMcpRouter.create(),
          oauth: limited(1, { clientAddress, rateLimit: { points: 1, durationSeconds: 600 } }),
          telemetry,
        })
        const ask = async (address: string, times: number): Promise<void> => {
          for (let sent = 0; sent < times; sent++)
            await server(
              new Request('https://mcp.example.com/mcp', {
                method: 'POST',
                headers: { 'x-address': address },
              }),
            )
        }
        const limitedEvents = () =>
          transport
            .getEvents()
            .filter(({ attributes }) => attributes?.reason === 'rate_limited')
            .map(({ level, attributes }) => [level, attributes?.['kit.refused.count']])
        await ask('192.0.2.1', 300)
        await ask('192.0.2.2', 2)
        await ask('192.0.2.3', 3)
        const first = ['warn', undefined]
        expect(limitedEvents()).to.deep.equal([first, first, first])
        if (end === 'the minute') time.advance(61_000)
        else await telemetry.shutdown()
        expect(limitedEvents().slice(3)).to.have.deep.members([
          ['warn', 298],
          ['warn', 1],
        ])
        if (end === 'the manager') return
        await ask('192.0.2.1', 2)
        expect(limitedEvents().slice(5)).to.deep.equal([first])
        await telemetry.shutdown()
        expect(limitedEvents().slice(6)).to.deep.equal([['warn', 1]])
      } finally {
        time.restore()
      }
    })
})
