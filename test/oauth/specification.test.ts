import { expect } from 'chai'
import { mcpHandler } from '../../src/express/mcp-handler.ts'
import {
  type CreateMcpAdapterOptions,
  createMcpAdapter,
  type McpAuthHandlers,
} from '../../src/mcp/adapter.ts'
import { KitMcpRouter } from '../../src/mcp/router/router.ts'
import type { OAuthOptions, VerifiedToken } from '../../src/oauth/options.ts'
import { KitMcpConfigError } from '../../src/options/config-error.ts'
import { KitTelemetry, MockTelemetryAdapter } from '../../src/telemetry/index.ts'
import { build, onExpress, type Served, web } from '../support/mcp/entry-points.ts'
import { bearer, call, legacy, type WireAnswer, type WireRequest } from '../support/mcp/wire.ts'
import { nowSeconds } from '../support/tokens.ts'

/** For arguments that do not compile. */
type Wrong = any

const ORIGIN = 'http://localhost:3000'
const PATH = '/api/mcp/sse'
const WELL_KNOWN = '/.well-known/oauth-protected-resource'
const UNAUTHORIZED = 'Bearer realm="mcp-server", error="invalid_token"'

interface Adapted extends Served {
  readonly auth: McpAuthHandlers
  /** Sends a request to the MCP route, without waiting for the end of the response. */
  fetch(init: RequestInit): Promise<Response>
}

interface Way {
  readonly name: string
  serve(setup: CreateMcpAdapterOptions): Promise<Adapted>
}

/** Both ways to create an adapter, each with both handlers. */
const WAYS: readonly Way[] = [
  {
    name: 'KitMcpServer and its handler',
    async serve(setup) {
      const { handler, auth } = build(setup)
      return { ...web(handler, ORIGIN), auth, fetch: (init) => handler(new Request(ORIGIN + PATH, init)) }
    },
  },
  {
    name: 'createMcpAdapter and its server',
    async serve(setup) {
      const { server, auth } = createMcpAdapter(setup)
      return { ...web(server, ORIGIN), auth, fetch: (init) => server(new Request(ORIGIN + PATH, init)) }
    },
  },
  ...([build, createMcpAdapter] as const).map(
    (make): Way => ({
      name: `${make === build ? 'KitMcpServer' : 'createMcpAdapter'} and mcpHandler on Express`,
      async serve(setup) {
        const adapter = make(setup)
        const { origin, close, send } = await onExpress((req, res, next) =>
          mcpHandler(adapter)(req, res, next),
        )
        // The route is mounted as in `onExpress`. The path is the one that clients use.
        return {
          origin,
          auth: adapter.auth,
          fetch: (init) => fetch(`${origin}/mcp${PATH}`, init),
          close,
          send: (request) => send({ ...request, path: `/mcp${request.path ?? PATH}` }),
        }
      },
    }),
  ),
]

const router = KitMcpRouter.create()
  .context((): { db: string; user?: Wrong } => ({ db: 'a data-access object' }))
  .tool('whoami', { description: 'Who is calling' }, (_, { auth, context }) =>
    JSON.stringify({ verified: auth?.user ?? null, wired: context.user ?? null, db: context.db }),
  )
  .tool('write', { description: 'Writes', scopes: ['mcp:write'] }, () => 'written')

const USER = { id: 'u1', email: 'u1@example.com', roles: ['admin'] }

/** Accepts the token `good`. */
const oauthWith = (
  changes: Partial<OAuthOptions> = {},
  result: Partial<VerifiedToken> = {},
): OAuthOptions => ({
  issuer: 'https://auth.example.com',
  verifyToken: async ({ bearerToken }) =>
    bearerToken === 'good' ? { valid: true, user: USER, ...result } : undefined,
  ...changes,
})

const post = (token?: string, headers: Record<string, string> = {}): WireRequest => ({
  path: PATH,
  ...legacy(call('whoami'), { ...(token !== undefined && bearer(token)), ...headers }),
})
const challengeOf = (answer: WireAnswer) => answer.headers.get('www-authenticate') ?? ''

for (const way of WAYS) {
  describe(`the OAuth specification, with ${way.name}`, () => {
    const open: Adapted[] = []
    afterEach(async () => {
      await Promise.all(open.splice(0).map((served) => served.close()))
    })

    const serve = async (oauth: OAuthOptions | undefined, more: Partial<CreateMcpAdapterOptions> = {}) => {
      const served = await way.serve({ router, ...(oauth !== undefined && { oauth }), ...more })
      open.push(served)
      return served
    }
    const answerTo = async (request: WireRequest, oauth: OAuthOptions | undefined = oauthWith()) =>
      (await serve(oauth)).send(request)
    const rows = (table: Readonly<Record<string, () => unknown>>) => {
      for (const [row, check] of Object.entries(table)) it(row, async () => void (await check()))
    }
    const refuses = async (oauth: unknown, option: string) => {
      let thrown: unknown
      try {
        await serve(oauth as OAuthOptions)
      } catch (error) {
        thrown = error
      }
      expect(thrown).to.be.instanceOf(KitMcpConfigError)
      expect((thrown as KitMcpConfigError).option).to.equal(option)
      expect((thrown as KitMcpConfigError).message).to.include(option)
    }
    const metadata = (path: string, { auth }: Adapted, init: RequestInit = {}) =>
      auth.resource(new Request(`https://mcp.example.com${path}`, init))

    describe('1: what the service does', () => {
      rows({
        'every MCP request must carry a valid Bearer token': async () => {
          const served = await serve(oauthWith())
          for (const method of ['GET', 'POST', 'DELETE', 'PUT']) {
            expect((await served.send({ method, path: PATH })).status, method).to.equal(401)
          }
        },
        'auth has two members: auth.cors and auth.resource': async () => {
          expect((await serve(oauthWith())).auth).to.have.all.keys('cors', 'resource')
        },
        'the builder gives { handler, auth }, the function { server, auth }': () => {
          expect(build({ router })).to.have.all.keys('handler', 'auth')
          expect(createMcpAdapter({ router })).to.have.all.keys('server', 'auth')
        },
        'without OAuth everything is open': async () => {
          expect((await (await serve(undefined)).send(post())).status).to.equal(200)
        },
      })
    })

    describe('2: OAuth options', () => {
      rows({
        'resourceMetadataPath, default /.well-known/oauth-protected-resource': async () => {
          const standard = await answerTo(post())
          expect(challengeOf(standard)).to.include(`${WELL_KNOWN}"`)
          const moved = await answerTo(post(), oauthWith({ resourceMetadataPath: '/meta' }))
          expect(challengeOf(moved)).to.match(/resource_metadata="http:\/\/[^/]+\/meta"/)
        },
      })
    })

    describe('4: endpoints', () => {
      const preflight = {
        method: 'OPTIONS',
        path: PATH,
        headers: { origin: 'http://localhost:5173', 'access-control-request-method': 'POST' },
      }
      rows({
        'GET on the MCP route: 200 with the header, 401 without': async () => {
          const served = await serve(oauthWith())
          const leave = new AbortController()
          const get = (headers: Record<string, string>) =>
            served.fetch({ headers: { accept: 'text/event-stream', ...headers }, signal: leave.signal })
          expect((await get({})).status).to.equal(401)
          const answer = await get(bearer('good'))
          expect(answer.status).to.equal(200)
          expect(answer.headers.get('content-type')).to.match(/^text\/event-stream/)
          leave.abort()
          await answer.body?.cancel().catch(() => undefined)
        },
        'OPTIONS on the same route: served by auth.cors': async () => {
          const served = await serve(oauthWith())
          const direct = await served.auth.cors(
            new Request(`${ORIGIN}${PATH}`, { method: 'OPTIONS', headers: preflight.headers }),
          )
          const routed = await served.send(preflight)
          for (const { status, headers } of [direct, routed]) {
            expect(status).to.equal(204)
            expect(headers.get('access-control-allow-headers')).to.include('Authorization')
          }
        },
        'GET on resourceMetadataPath: the metadata, served by auth.resource': async () => {
          const response = await metadata(
            WELL_KNOWN,
            await serve(oauthWith({ resource: 'https://mcp.example.com/mcp' })),
          )
          expect(response.status).to.equal(200)
          expect(await response.json()).to.deep.equal({
            resource: 'https://mcp.example.com/mcp',
            authorization_servers: ['https://auth.example.com'],
            scopes_supported: ['mcp:write'],
            bearer_methods_supported: ['header'],
          })
        },
        'OPTIONS on resourceMetadataPath: served by auth.cors': async () => {
          const { auth } = await serve(oauthWith())
          const response = await auth.cors(
            new Request(`https://mcp.example.com${WELL_KNOWN}`, { method: 'OPTIONS' }),
          )
          expect(response.status).to.equal(204)
          expect(response.headers.get('access-control-allow-origin')).to.equal('*')
        },
        'the host must register the metadata route itself': async () => {
          const served = await serve(oauthWith())
          expect((await served.send({ method: 'GET', path: WELL_KNOWN })).status).to.equal(401)
        },
      })
    })

    it('6: the adapter emits no events to the consumer, unless it is given telemetry', async () => {
      const events = MockTelemetryAdapter.create()
      const telemetry = KitTelemetry.create().withSampling({ infoRate: 1 }).addTransport(events).build()
      await (await serve(oauthWith())).send(post())
      await telemetry.flush()
      expect(events.getEvents()).to.deep.equal([])
      await (await serve(oauthWith(), { telemetry })).send(post())
      await telemetry.flush()
      expect(events.getEvents().map(({ name }) => name)).to.deep.equal(['kit.mcp.auth.refused'])
      await telemetry.shutdown()
    })

    describe('7: errors', () => {
      rows({
        '401 Unauthorized: missing or invalid token': async () => {
          for (const token of [undefined, 'bad']) {
            const answer = await answerTo(post(token))
            expect(answer.status).to.equal(401)
            expect(challengeOf(answer).startsWith(UNAUTHORIZED)).to.equal(true)
          }
        },
        '403 Forbidden: the token lacks a required scope, which the scope parameter carries': async () => {
          const answer = await answerTo(post('good'), oauthWith({ scopes: ['mcp:read'] }))
          expect(answer.status).to.equal(403)
          expect(
            challengeOf(answer).startsWith(
              'Bearer realm="mcp-server", error="insufficient_scope", scope="mcp:read"',
            ),
          ).to.equal(true)
        },
        'troubleshooting: browsers may read refusals': async () => {
          const { headers } = await answerTo(post())
          expect(headers.get('access-control-allow-origin')).to.equal('*')
          expect(headers.get('access-control-expose-headers')).to.match(/www-authenticate/i)
        },
      })
    })

    describe('decisions 1.2: further options', () => {
      const documentOf = async (oauth: OAuthOptions): Promise<Wrong> =>
        (await metadata(WELL_KNOWN, await serve(oauth))).json()
      rows({
        'authorizationServers, default [issuer], which is not added to it': async () => {
          const authorizationServers = ['https://one.example.com', 'https://two.example.com']
          expect((await documentOf(oauthWith({ authorizationServers }))).authorization_servers).to.deep.equal(
            authorizationServers,
          )
          await refuses(oauthWith({ authorizationServers: [] }), 'authorizationServers')
        },
        'scopeImplies: a broader scope satisfies the narrower ones, transitively; a cycle is fine':
          async () => {
            const scopeImplies = {
              'mcp:admin': ['mcp:write'],
              'mcp:write': ['mcp:read'],
              'mcp:read': ['mcp:read'],
            }
            const oauth = oauthWith({ scopes: ['mcp:read'], scopeImplies }, { scopes: ['mcp:admin'] })
            expect((await answerTo(post('good'), oauth)).status).to.equal(200)
          },
        'without OAuth, auth.resource responds with 404': async () => {
          expect((await metadata(WELL_KNOWN, await serve(undefined))).status).to.equal(404)
        },
      })
    })

    describe('decisions 1.3: a request', () => {
      rows({
        '3: a token is accepted only if valid === true, and expiresAt and resource are checked': async () => {
          const resource = 'https://mcp.example.com/mcp'
          for (const [result, status] of [
            [{ valid: 1 }, 401],
            [{ valid: 'true' }, 401],
            [{ valid: true, expiresAt: nowSeconds() - 1 }, 401],
            [{ valid: true, expiresAt: Number.NaN }, 401],
            [{ valid: true, resource: 'https://other.example.com' }, 401],
            [{ valid: true, resource, expiresAt: nowSeconds() + 60 }, 200],
            [{ valid: true, resource: null, expiresAt: null }, 200],
          ] as const) {
            const oauth = oauthWith({ resource, verifyToken: async () => result as Wrong })
            expect((await answerTo(post('x'), oauth)).status, JSON.stringify(result)).to.equal(status)
          }
        },
        'responses are JSON and are not stored': async () => {
          for (const [token, scopes] of [
            [undefined, []],
            ['good', ['mcp:read']],
          ] as const) {
            const { headers, text } = await answerTo(post(token), oauthWith({ scopes }))
            expect(headers.get('content-type')).to.equal('application/json')
            expect(headers.get('cache-control')).to.equal('no-store')
            expect(JSON.parse(text)).to.include.keys('error', 'error_description')
          }
        },
        'parameters of a challenge: realm, error, scope, resource_metadata, error_description': async () => {
          const challenge = challengeOf(await answerTo(post(), oauthWith({ scopes: ['a', 'b'] })))
          expect(challenge).to.match(
            /^Bearer realm="mcp-server", error="invalid_token", scope="a b", resource_metadata="[^"]+", error_description="[^"]+"$/,
          )
        },
      })
    })
  })
}
