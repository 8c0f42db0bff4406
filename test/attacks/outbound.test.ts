import { expect } from 'chai'
import fc from 'fast-check'
import { fetchResourceMetadata } from '../../cli/dev/startup-checks.ts'
import { sendRequest } from '../../cli/doctor/http-exchange.ts'
import { DocumentFetches } from '../../src/authorization/clients/document-fetches.ts'
import { ProviderClient } from '../../src/authorization/sign-in/provider-client.ts'
import { boundedFetch } from '../../src/base/http/bounded-fetch.ts'
import { createSafeFetch } from '../../src/base/http/safe-fetch.ts'
import { AuthInfo, introspectionVerifier, KitTelemetry, OtlpTransportAdapter } from '../../src/index.ts'
import { attempt } from '../../src/mcp/events/webhooks/attempt.ts'
import { IssuerDiscovery } from '../../src/oauth/verifiers/issuer-discovery.ts'
import { RemoteKeys } from '../../src/oauth/verifiers/jwks.ts'
import { overHttp } from '../../src/openapi/route-target.ts'
import { HttpTarget } from '../../src/telemetry/transports/http/http-target.ts'
import { upstreamToken } from '../../src/upstream/index.ts'
import { itAtOnce } from '../support/at-once.ts'
import { selfSigned } from '../support/certificates.ts'
import {
  type HostileServer,
  MISBEHAVIORS,
  type Misbehavior,
  reset,
  startHostileServer,
} from '../support/hostile-server.ts'
import { runs } from '../support/runs.ts'
import { until } from '../support/until.ts'
import { verifyInput } from '../support/verify-input.ts'

const LIMIT_MS = 300
/** The limit of many requests at once, whose handshakes take a busy machine longer. */
const MANY_LIMIT_MS = 1_000
/** The tolerance for a busy machine. */
const TOLERANCE_MS = 2_000
/** The time within which a request to the honest server must succeed on a busy machine. */
const AFTERWARDS_MS = 20_000

/** A part of this package that sends requests. */
interface Caller {
  readonly limitMs: number
  readonly isTls?: true
  /** The pause after a failure. */
  readonly pauseMs?: number
  /** The JSON of a good response. */
  readonly honest: (origin: string) => unknown
  /** Returns a function that sends one request. It rejects, or returns `false`, unless the response is good. */
  readonly start: (origin: string) => () => Promise<unknown>
}

const certificate = selfSigned()
const signal = (): AbortSignal => AbortSignal.timeout(LIMIT_MS)
const safe = { isAllowed: () => true, ca: certificate.cert, timeoutMs: LIMIT_MS }
const auth = AuthInfo.of('token', { clientId: 'c', scopes: [], user: { id: 'ada' }, extra: {} }, 'iss:x')
const providerOf = (issuer: string) => ({
  name: 'oidc',
  issuer,
  clientId: 'c',
  clientSecret: 's',
  scopes: ['openid'],
  parameters: {},
  readsUserInfo: false,
  endpoints: undefined,
})
const metadataOf = (issuer: string): object => ({
  issuer,
  authorization_endpoint: `${issuer}/authorize`,
  token_endpoint: `${issuer}/token`,
  jwks_uri: `${issuer}/jwks`,
  response_types_supported: ['code'],
  subject_types_supported: ['public'],
  id_token_signing_alg_values_supported: ['RS256'],
})

const CALLERS: Readonly<Record<string, Caller>> = {
  'boundedFetch()': {
    limitMs: LIMIT_MS,
    honest: () => ({}),
    start: (origin) => async () => (await boundedFetch(origin, { signal: signal() })).ok,
  },
  'createSafeFetch()': {
    limitMs: LIMIT_MS,
    isTls: true,
    honest: () => ({}),
    start: (origin) => async () => (await createSafeFetch(safe)(origin)).ok,
  },
  'a message to a webhook': {
    limitMs: LIMIT_MS,
    isTls: true,
    honest: () => ({}),
    start(origin) {
      const safeFetch = createSafeFetch(safe)
      const secrets = [`whsec_${Buffer.alloc(32).toString('base64')}`]
      const message = { url: origin, subscriptionId: 'sub_1', messageId: 'msg_1', body: '{}', secrets }
      return async () => (await attempt(safeFetch, message)).error === undefined
    },
  },
  'DocumentFetches, for 25 documents of a client': {
    limitMs: MANY_LIMIT_MS,
    isTls: true,
    honest: () => ({}),
    start(origin) {
      const documents = new DocumentFetches({ ...safe, timeoutMs: MANY_LIMIT_MS })
      let count = 0
      return async () => {
        const all = Array.from({ length: 25 }, () => documents.fetch(`${origin}/${++count}`))
        const settled = await Promise.allSettled(all)
        return settled.some((one) => one.status === 'fulfilled' && one.value.ok)
      }
    },
  },
  IssuerDiscovery: {
    limitMs: 2 * LIMIT_MS,
    honest: metadataOf,
    start(origin) {
      const discovery = new IssuerDiscovery(origin, true, LIMIT_MS)
      return () => discovery.find(({ token_endpoint: found }) => found)
    },
  },
  'jwtVerifier (keys)': {
    limitMs: 5_000,
    pauseMs: 1_100,
    honest: () => ({ keys: [] }),
    start(origin) {
      const keys = new RemoteKeys({
        issuer: origin,
        jwksUri: `${origin}/jwks`,
        jwksCooldownSeconds: 30,
        jwksCacheSeconds: 600,
        allowInsecureHttp: true,
      })
      return () => keys.keysFor('kid')
    },
  },
  introspectionVerifier: {
    limitMs: LIMIT_MS,
    honest: () => ({ active: false }),
    start(origin) {
      const credentials = { clientId: 'c', clientSecret: 's', audience: origin, timeoutMs: LIMIT_MS }
      const verify = introspectionVerifier({ endpoint: origin, ...credentials })
      return async () => (await verify(verifyInput('token', origin))) === undefined
    },
  },
  upstreamToken: {
    limitMs: LIMIT_MS,
    honest: () => ({ access_token: 'upstream', token_type: 'Bearer' }),
    start(origin) {
      const credentials = {
        clientId: 'c',
        clientSecret: 's',
        style: 'token-exchange',
        timeoutMs: LIMIT_MS,
      } as const
      const tokens = upstreamToken({ tokenEndpoint: origin, ...credentials })
      return () => tokens.for(auth)
    },
  },
  'the provider of the facade': {
    limitMs: 10_000,
    honest: metadataOf,
    start(origin) {
      const client = new ProviderClient(
        providerOf(origin) as never,
        `${origin}/callback`,
        () => import('openid-client'),
      )
      return () => client.start({})
    },
  },
  'a route of toolsFromOpenApi': {
    limitMs: LIMIT_MS,
    honest: () => ({}),
    start(origin) {
      const target = overHttp(origin)
      const request = { method: 'GET', path: '/', headers: {}, body: undefined } as never
      const limits = () => ({ signal: signal(), maxBytes: 1_000_000 })
      return async () => (await target.send(request, {} as never, limits())).status === 200
    },
  },
  'a target of telemetry': {
    limitMs: LIMIT_MS,
    honest: () => ({}),
    start(origin) {
      const target = new HttpTarget(origin)
      return async () => (await target.post(new Headers(), '{}', LIMIT_MS)).status === 200
    },
  },
  'a request of doctor': {
    limitMs: LIMIT_MS,
    honest: () => ({}),
    start: (origin) => async () => {
      const url = new URL(origin)
      return (await sendRequest({ method: 'POST', url, headers: {}, body: '{}', timeoutMs: LIMIT_MS }))
        .succeeded
    },
  },
  'a check of dev': {
    limitMs: 2_000,
    honest: (origin) => ({ resource: origin }),
    start: (origin) => () =>
      fetchResourceMetadata({ address: '127.0.0.1', port: Number(new URL(origin).port) }),
  },
}

const respond = (value: unknown): Misbehavior => {
  const body = JSON.stringify(value)
  const head = `HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\nContent-Length: ${body.length}`
  return (socket) => socket.end(`${head}\r\n\r\n${body}`)
}

/** Sends a request to a hostile server, and then one to the same server when it is honest. */
async function attack(caller: Caller, hostile: HostileServer): Promise<string | undefined> {
  const { limitMs, pauseMs = 0 } = caller
  const call = caller.start(hostile.origin)
  const startedMs = performance.now()
  await Promise.race([
    call().catch(() => undefined),
    new Promise((resolve) => setTimeout(resolve, limitMs + TOLERANCE_MS + 1_000)),
  ])
  const tookMs = performance.now() - startedMs
  if (tookMs > limitMs + TOLERANCE_MS) return `took ${Math.round(tookMs)} ms`
  const deadlineMs = performance.now() + TOLERANCE_MS
  await until(() => hostile.connections() === 0 || performance.now() > deadlineMs, 10)
  if (hostile.connections() > 0) return `left ${hostile.connections()} connections open`
  hostile.misbehave = respond(caller.honest(hostile.origin))
  let again: unknown
  // On a busy machine, an honest answer can take longer than the short limit.
  const giveUpMs = performance.now() + AFTERWARDS_MS
  while (performance.now() < giveUpMs) {
    await new Promise((resolve) => setTimeout(resolve, pauseMs))
    again = await call().catch((error: Error) => error)
    if (again !== false && again !== undefined && !(again instanceof Error)) return undefined
  }
  return `did not work afterwards: ${again}`
}

describe('attacks on requests of this package to other servers', function () {
  this.timeout(120_000)
  const servers: HostileServer[] = []
  afterEach(async () => {
    await Promise.all(servers.splice(0).map((server) => server.close()))
  })
  const start = async (misbehave: Misbehavior, isTls = false): Promise<HostileServer> => {
    const server = await startHostileServer(misbehave, isTls ? certificate : undefined)
    servers.push(server)
    return server
  }

  async function expectToSettle(caller: Caller): Promise<void> {
    const failures: string[] = []
    // A few at a time, so that one process can serve and measure them.
    const rest = Object.entries(MISBEHAVIORS)
    const next = async (): Promise<void> => {
      for (let one = rest.shift(); one !== undefined; one = rest.shift()) {
        const failure = await attack(caller, await start(one[1], caller.isTls))
        if (failure !== undefined) failures.push(`${one[0]}: ${failure}`)
      }
    }
    await Promise.all(Array.from({ length: caller.limitMs > 1_000 ? rest.length : 6 }, next))
    expect(failures).to.deep.equal([])
  }

  itAtOnce(
    3,
    Object.entries(CALLERS).map(([name, caller]) => [
      `${name} settles within its time, closes the connection, and works afterwards, however the server misbehaves`,
      () => expectToSettle(caller),
    ]),
  )

  it('a document at a server that does not speak TLS is an outage within its time', async () => {
    for (const misbehave of [
      MISBEHAVIORS['sends garbage'],
      MISBEHAVIORS['does not respond'],
    ] as Misbehavior[]) {
      const { origin } = await start(misbehave)
      const startedMs = performance.now()
      const error = await createSafeFetch(safe)(origin.replace('http:', 'https:')).catch(
        (reason: Error) => reason,
      )
      expect(error).to.be.instanceOf(Error)
      expect(performance.now() - startedMs).to.be.below(LIMIT_MS + TOLERANCE_MS)
    }
  })

  it('an OTLP transport reports a collector that responds with 101 as unreachable, before the timeout', async () => {
    const { origin } = await start(MISBEHAVIORS['switches protocols (101)'] as Misbehavior)
    const transport = OtlpTransportAdapter.create({ url: origin, timeout: 20_000, retryBudgetMs: 1 })
    const reported: string[] = []
    const logger = {
      debug() {},
      info() {},
      warn: (line: string) => reported.push(line),
      error: (line: string) => reported.push(line),
    }
    const telemetry = KitTelemetry.create()
      .withLogger(logger)
      .withSampling({ debugRate: 1, infoRate: 1 })
      .addTransport(transport)
      .build()
    telemetry.emit('app.started', {})
    await telemetry.flush({ timeoutMs: 5_000 }).catch(() => undefined)
    expect(reported.join()).to.contain('could not be reached (ECONNRESET)')
    await telemetry.shutdown({ timeoutMs: 100 }).catch(() => undefined)
  })

  it('every caller settles within its time for any sequence of bytes and pauses', async () => {
    const pieces = [
      'HTTP/1.1 ',
      '200 OK\r\n',
      '101 Switching Protocols\r\n',
      '103 Early Hints\r\n\r\n',
      '302 Found\r\nLocation: /\r\n',
      '500 X\r\n',
      'Content-Length: 5\r\n',
      'Transfer-Encoding: chunked\r\n',
      'Content-Encoding: gzip\r\n',
      'Upgrade: x\r\n',
      'Connection: upgrade\r\n',
      '\r\n',
      '5\r\nhello\r\n',
      '0\r\n\r\n',
      'ffffffffffffffff\r\n',
      '{}',
      '\0\xff',
    ]
    const step = fc.oneof(
      { weight: 8, arbitrary: fc.constantFrom(...pieces) },
      { weight: 2, arbitrary: fc.integer({ min: 1, max: 30 }) },
      { weight: 1, arbitrary: fc.constantFrom('end' as const, 'reset' as const) },
    )
    const script = fc.tuple(
      fc.constantFrom('', 'HTTP/1.1 200 OK\r\n', 'HTTP/1.1 101 X\r\n'),
      fc.array(step, { maxLength: 12 }),
    )
    const play =
      ([first, steps]: readonly [string, readonly (string | number)[]]): Misbehavior =>
      async (socket) => {
        socket.write(first)
        for (const one of steps) {
          if (typeof one === 'number') await new Promise((resolve) => setTimeout(resolve, one))
          else if (one === 'end') socket.end()
          else if (one === 'reset') reset(socket)
          else if (socket.writable) socket.write(Buffer.from(one, 'latin1'))
        }
      }
    const fast = Object.values(CALLERS).filter(({ limitMs }) => limitMs < 1_000)
    await fc.assert(
      // Each takes as long as its slowest caller, so five run at a time.
      fc.asyncProperty(fc.array(script, { minLength: 5, maxLength: 5 }), async (scripts) => {
        const settled = await Promise.all(
          scripts
            .flatMap((given) => fast.map((caller) => ({ given, caller })))
            .map(async ({ given, caller }) => {
              const { origin } = await start(play(given), caller.isTls)
              const startedMs = performance.now()
              await Promise.race([
                caller
                  .start(origin)()
                  .catch(() => undefined),
                new Promise((resolve) => setTimeout(resolve, caller.limitMs + TOLERANCE_MS + 1_000)),
              ])
              return performance.now() - startedMs < caller.limitMs + TOLERANCE_MS
            }),
        )
        expect(settled).to.not.include(false)
        await Promise.all(servers.splice(0).map((server) => server.close()))
      }),
      { numRuns: runs(20) },
    )
  })
})
