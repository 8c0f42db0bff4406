import { once } from 'node:events'
import type { IncomingMessage, ServerResponse } from 'node:http'
import {
  connect as connectHttp2,
  createServer as createHttp2Server,
  type Http2ServerRequest,
  type Http2ServerResponse,
} from 'node:http2'
import type { AddressInfo } from 'node:net'
import { text } from 'node:stream/consumers'
import { expect } from 'chai'
import express, { type ErrorRequestHandler } from 'express'
import request from 'supertest'
import { z } from 'zod'
import { protectedResourceRouter } from '../../src/express/protected-resource-router.ts'
import { type AuthInfo, KitMcpRouter, mcpAuth, mcpHandler, type NodeRequest } from '../../src/index.ts'
import { createMcpAdapter } from '../../src/mcp/adapter.ts'
import { parseChallenge } from '../support/challenge.ts'
import { gatedApp, oauthOptions } from '../support/gate-app.ts'
import { listen } from '../support/listen.ts'
import { RawConnection, rawRequest } from '../support/raw-http.ts'

const LEAK = 'leak-of-another-user'
const HOST = 'Host: mcp.example.com'
const METADATA = 'http://mcp.example.com/.well-known/oauth-protected-resource'

/** The parameters of the challenge to a request without a token. */
async function challengeOf(
  port: number,
  {
    headers = [HOST],
    target = '/mcp',
    version = '1.1',
  }: { headers?: readonly string[]; target?: string; version?: string } = {},
): Promise<Record<string, string>> {
  const response = await rawRequest(port, { headers, target, version })
  expect(response.status).to.equal(401)
  return parseChallenge(response.header('www-authenticate') ?? '')
}

describe('mcpAuth()', () => {
  it('a token in the query, in a cookie, or in another header is ignored', async () => {
    const { port } = await listen(gatedApp(oauthOptions()))
    for (const [target, ...lines] of [
      ['/mcp?access_token=good&token=good&bearer=good'],
      ['/mcp', 'Cookie: access_token=good; Authorization=Bearer good'],
      ['/mcp', 'Proxy-Authorization: Bearer good', 'X-Authorization: Bearer good'],
    ] as const)
      await challengeOf(port, { target, headers: [HOST, ...lines] })
  })

  it('a token in a body is ignored, parsed or not', async () => {
    for (const before of [[], [express.json(), express.urlencoded({ extended: false })]]) {
      const app = gatedApp(oauthOptions(), { before })
      await request(app).post('/mcp').type('form').send({ access_token: 'good' }).expect(401)
      await request(app).post('/mcp').send({ access_token: 'good' }).expect(401)
    }
  })

  describe('resource_metadata', () => {
    const ROOT = '.well-known/oauth-protected-resource'

    it('resource_metadata is the root form of the requested host, without the query', async () => {
      const { port } = await listen(gatedApp(oauthOptions()))
      expect(await challengeOf(port, { target: '/mcp?a=b' })).to.include({ resource_metadata: METADATA })
      expect(await challengeOf(port, { headers: ['Host: OTHER.example:8080'] })).to.include({
        resource_metadata: `http://other.example:8080/${ROOT}`,
      })
    })

    it('resource_metadata is the suffixed form if a router of the same target exists, created before or after', async () => {
      for (const resource of [undefined, 'https://api.example.org/v1/mcp']) {
        const url = resource === undefined ? `${METADATA}/mcp` : `https://api.example.org/${ROOT}/v1/mcp`
        const options = oauthOptions({ resource })
        const early = await listen(gatedApp(options))
        expect((await challengeOf(early.port)).resource_metadata).not.to.match(/mcp$/)
        protectedResourceRouter(options)
        const late = await listen(gatedApp(options))
        expect(await challengeOf(early.port)).to.include({ resource_metadata: url })
        expect(await challengeOf(late.port)).to.include({ resource_metadata: url })
        const other = await listen(gatedApp({ ...options }))
        expect((await challengeOf(other.port)).resource_metadata).not.to.match(/mcp$/)
      }
    })

    it('resource_metadata is the suffixed form if a router of the same adapter exists', async () => {
      const adapter = createMcpAdapter({ router: KitMcpRouter.create(), oauth: oauthOptions() })
      const { port } = await listen(gatedApp(adapter))
      expect(await challengeOf(port)).to.include({ resource_metadata: METADATA })
      protectedResourceRouter(adapter)
      expect(await challengeOf(port)).to.include({ resource_metadata: `${METADATA}/mcp` })
    })

    it('resource_metadata is the root form for the path /, and has the whole path below a mount path', async () => {
      const options = oauthOptions()
      protectedResourceRouter(options)
      const root = await listen(gatedApp(options, { path: '/' }))
      expect(await challengeOf(root.port, { target: '/' })).to.include({ resource_metadata: METADATA })
      const outer = express().use('/api/v1', gatedApp(options))
      const { port } = await listen(outer)
      expect(await challengeOf(port, { target: '/api/v1/mcp/x?y' })).to.include({
        resource_metadata: `${METADATA}/api/v1/mcp/x`,
      })
    })

    it('resource_metadata is absent if the host is missing or invalid', async () => {
      const { port } = await listen(gatedApp(oauthOptions()))
      expect(await challengeOf(port, { headers: [], version: '1.0' })).not.to.have.property(
        'resource_metadata',
      )
      for (const host of ['', 'a"b', 'a b', 'a/b', 'user@host', 'a\\b', 'a:b:c', 'caf\u00e9']) {
        expect(await challengeOf(port, { headers: [`Host: ${host}`] }), host).not.to.have.property(
          'resource_metadata',
        )
      }
    })

    it('resource_metadata is well-formed for every path', async () => {
      const options = oauthOptions()
      protectedResourceRouter(options)
      const { port } = await listen((req, res) => mcpAuth(options)(req, res))
      for (const target of [
        '/a"b',
        '/a\\b',
        '/a\u00e9b',
        '//evil.example',
        '/a,b="c"',
        "/'",
        '/%0d%0a',
        'http://evil.example/mcp',
        '/;a',
        '/a\tb',
      ]) {
        const response = await rawRequest(port, { headers: [HOST], target })
        // Node.js itself rejects some of these.
        if (response.status === 400) continue
        expect(response.status, target).to.equal(401)
        const { resource_metadata: url = '' } = parseChallenge(response.header('www-authenticate') ?? '')
        expect(url, target).to.match(/^http:\/\/mcp\.example\.com\/\.well-known\/oauth-protected-resource\//)
      }
    })

    it('resource_metadata uses forwarded headers only if Express trusts its proxy', async () => {
      const forwarded = [
        HOST,
        'X-Forwarded-Proto: https',
        'X-Forwarded-Host: public.example.com',
        'Forwarded: host=x.example',
      ]
      for (const [trust, options, url] of [
        [undefined, oauthOptions(), METADATA],
        // In Express, the setting `trust proxy` decides.
        [undefined, oauthOptions({ trustProxy: true }), METADATA],
        [true, oauthOptions(), `https://public.example.com/${ROOT}`],
        ['loopback', oauthOptions(), `https://public.example.com/${ROOT}`],
        ['192.0.2.0/24', oauthOptions(), METADATA],
      ] as const) {
        const app = gatedApp(options)
        if (trust !== undefined) app.set('trust proxy', trust)
        const { port } = await listen(app)
        expect(await challengeOf(port, { headers: forwarded })).to.include({ resource_metadata: url })
      }
    })

    it('resource_metadata uses forwarded headers outside Express only with trustProxy', async () => {
      for (const [trustProxy, url] of [
        [false, METADATA],
        [true, `https://public.example.com/${ROOT}`],
      ] as const) {
        const middleware = mcpAuth(oauthOptions({ trustProxy }))
        const { port } = await listen((req, res) => middleware(req, res))
        for (const headers of [
          [HOST, 'X-Forwarded-Proto: https', 'X-Forwarded-Host: public.example.com'],
          [HOST, 'Forwarded: for=192.0.2.1;proto=https;host=public.example.com'],
        ]) {
          expect(await challengeOf(port, { headers })).to.include({ resource_metadata: url })
        }
      }
    })
  })

  describe('req.auth', () => {
    it('req.auth of an accepted request has the shape of the official SDK and the user', async () => {
      const expiresAt = Math.floor(Date.now() / 1000) + 60
      const result = {
        clientId: 'cli',
        scopes: 'a b',
        expiresAt,
        resource: 'https://mcp.example.com/mcp',
        user: { id: 7 },
        extra: { tenant: 'acme' },
      }
      const { body } = await request(gatedApp(oauthOptions({}, result)))
        .get('/mcp')
        .set('Authorization', 'Bearer good')
        .expect(200)
      expect(body).to.deep.equal({ auth: { ...result, scopes: ['a', 'b'] }, token: 'good' })
    })

    it('req.auth is not set if the request is refused', async () => {
      let seen: unknown = 'not looked at'
      const options = oauthOptions({ scopes: ['a'] })
      const app = express()
        .use((req, res, next) => {
          res.once('finish', () => {
            seen = (req as NodeRequest).auth
          })
          next()
        })
        .use(mcpAuth(options))
      await request(app).get('/').set('Authorization', 'Bearer good').expect(403)
      expect(seen).to.equal(undefined)
    })
  })

  describe('the input of the verifier', () => {
    it('the verifier gets a web-standard Request with the URL of the client, the headers, and no body', async () => {
      let seen: Request | undefined
      const options = oauthOptions({
        verifyToken: async (input) => {
          seen = input.request
          expect(input.request).to.equal(input.context.request)
          expect(input.context.context).to.deep.equal({})
          return { valid: true }
        },
      })
      const { port } = await listen(express().use('/api', gatedApp(options)))
      const headers = [HOST, 'Authorization: Bearer good', 'X-Twice: a', 'X-Twice: b', 'Content-Length: 2']
      await rawRequest(port, { method: 'POST', target: '/api/mcp?a=%20b', headers, body: '{}' })
      expect(seen).to.be.instanceOf(Request)
      expect(seen).to.include({ method: 'POST', url: 'http://mcp.example.com/api/mcp?a=%20b', body: null })
      expect(seen?.headers.get('x-twice')).to.equal('a, b')
      expect(seen?.headers.get('authorization')).to.equal('Bearer good')
    })

    it('the Request of the verifier is created only when it is read', async () => {
      const OriginalRequest = globalThis.Request
      let made = 0
      globalThis.Request = class extends OriginalRequest {
        constructor(...given: ConstructorParameters<typeof OriginalRequest>) {
          super(...given)
          made++
        }
      } as typeof OriginalRequest
      try {
        const quiet = oauthOptions({ scopes: ['a'], onVerified: () => undefined }, { scopes: ['a'] })
        for (const authorization of ['Bearer good', 'Bearer bad', '']) {
          await request(gatedApp(quiet)).get('/mcp').set('Authorization', authorization)
        }
        expect(made).to.equal(0)
        const curious = oauthOptions({
          verifyToken: async (input) => ({ valid: input.request === input.context.request }),
        })
        await request(gatedApp(curious)).get('/mcp').set('Authorization', 'Bearer good').expect(200)
        expect(made).to.equal(1)
      } finally {
        globalThis.Request = OriginalRequest
      }
    })

    it('the signal of the Request aborts when the client disconnects', async () => {
      let aborted: Promise<unknown> | undefined
      const asked = new Promise<void>((resolve) => {
        const options = oauthOptions({
          verifyToken: ({ request: { signal } }) => {
            aborted = once(signal, 'abort')
            resolve()
            return new Promise(() => undefined)
          },
        })
        void listen(gatedApp(options)).then(async ({ port }) => {
          const connection = await RawConnection.open(port)
          connection
            .send(`GET /mcp HTTP/1.1\r\n${HOST}\r\nAuthorization: Bearer good\r\n\r\n`)
            .catch(() => undefined)
          await asked
          connection.close()
        })
      })
      await asked
      await aborted
    })
  })

  describe('preflights', () => {
    const preflight = { Origin: 'https://app.example', 'Access-Control-Request-Method': 'POST' }

    const almost: readonly (readonly [
      what: string,
      method: 'options' | 'post' | 'get',
      headers: Record<string, string>,
    ])[] = [
      ['OPTIONS without Origin', 'options', { 'Access-Control-Request-Method': 'POST' }],
      ['OPTIONS without the method asked for', 'options', { Origin: 'https://app.example' }],
      ['OPTIONS alone', 'options', {}],
      ['POST with the headers of a preflight', 'post', preflight],
      ['POST that overrides its method', 'post', { ...preflight, 'X-HTTP-Method-Override': 'OPTIONS' }],
      ['GET with the headers of a preflight', 'get', preflight],
    ]
    for (const [what, method, headers] of almost) {
      it(`a request that is ${what} does not pass without a token`, async () => {
        await request(gatedApp(oauthOptions()))[method]('/mcp').set(headers).expect(401)
      })
    }
  })

  describe('before an adapter', () => {
    const tools = KitMcpRouter.create().tool(
      'write',
      { description: 'Writes', input: z.object({ text: z.string() }), scopes: ['mcp:write'] },
      ({ text }) => text,
    )
    const call = {
      jsonrpc: '2.0',
      id: 1,
      method: 'tools/call',
      params: { name: 'write', arguments: { text: 'hello' } },
    }

    for (const [what, wrap] of [
      ['a Proxy of it', (auth: object) => new Proxy(auth, {})],
      ['an object that inherits from it', (auth: object) => Object.create(auth)],
      [
        'a copy with its prototype',
        (auth: object) => Object.assign(Object.create(Object.getPrototypeOf(auth)), auth),
      ],
    ] as const)
      it(`mcpHandler behind mcpAuth and middleware that replaces req.auth by ${what} does not verify again`, async () => {
        let verified = 0
        const verifyToken = async () => {
          verified++
          return { valid: true, scopes: ['mcp:write'] }
        }
        const adapter = createMcpAdapter({ router: tools, oauth: oauthOptions({ verifyToken }) })
        const tokens: unknown[] = []
        const app = express().use(
          '/mcp',
          mcpAuth(adapter),
          (req, _res, next) => {
            const wrapped = wrap((req as NodeRequest).auth as object)
            Object.assign(req, { auth: wrapped })
            tokens.push((wrapped as AuthInfo).token)
            next()
          },
          mcpHandler(adapter),
        )
        const response = await request(app)
          .post('/mcp')
          .set({ Authorization: 'Bearer good', Accept: 'application/json, text/event-stream' })
          .send(call)
        expect(response.status).to.equal(200)
        expect({ verified, tokens }).to.deep.equal({ verified: 1, tokens: ['good'] })
      })
  })

  it('an accepted request gets a 404 if nothing is mounted behind mcpAuth', async () => {
    const { origin } = await listen(mcpAuth(oauthOptions()))
    const response = await fetch(origin, { headers: { authorization: 'Bearer good' } })
    expect([response.status, await response.json()]).to.deep.equal([404, { error: 'not_found' }])
  })

  for (const [when, begin, expected] of [
    ['before it answers', () => undefined, 500],
    ['in the middle of its answer', (res: ServerResponse) => res.write('half'), 'cut off'],
  ] as const) {
    it(`an error ${when} behind mcpAuth on a plain server leaves no request open`, async () => {
      const middleware = mcpAuth(oauthOptions())
      const { origin } = await listen((req, res) =>
        middleware(req, res, () => {
          begin(res)
          throw new Error(LEAK)
        }),
      )
      const asked = fetch(origin, { headers: { authorization: 'Bearer good' } })
      const outcome = await asked
        .then(
          async (response) => [response.status, await response.text()] as const,
          () => ['cut off'] as const,
        )
        .catch(() => ['cut off'] as const)
      expect(outcome[0]).to.equal(expected)
      expect(String(outcome)).to.not.include(LEAK)
    })
  }

  it('mcpAuth that is mounted twice, or around another gate, verifies once', async () => {
    let asked = 0
    const adapter = createMcpAdapter({
      router: KitMcpRouter.create(),
      oauth: oauthOptions({
        verifyToken: async ({ bearerToken }) => {
          asked++
          return { valid: bearerToken === 'good' }
        },
      }),
    })
    const app = express()
    app.use('/mcp', mcpAuth(adapter), mcpAuth(oauthOptions()), mcpAuth(adapter), mcpHandler(adapter))
    const { origin } = await listen(app)
    const response = await fetch(`${origin}/mcp`, {
      method: 'POST',
      headers: { authorization: 'Bearer good', 'content-type': 'application/json' },
      body: JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'tools/list' }),
    })
    expect(response.status).to.equal(200)
    expect(asked).to.equal(1)
  })

  describe('the URL of a request', () => {
    for (const [target, expected] of [
      ['/mcp?a=b', '/mcp?a=b'],
      ['/', '/'],
      ['/\\evil.example/x', '//evil.example/x'],
      ['//evil.example/x?y#z', '//evil.example/x?y'],
      ['http://evil.example/mcp?q', '/mcp?q'],
      ['http://a:b:c/', '/'],
      ['/a"b<c>', '/a%22b%3Cc%3E'],
    ] as const) {
      it(`the verifier gets the URL of the request for the target ${target}`, async () => {
        const urls: string[] = []
        const middleware = mcpAuth(
          oauthOptions({
            verifyToken: ({ request }) => {
              urls.push(request.url)
              return undefined
            },
          }),
        )
        const { port } = await listen((req, res) => middleware(req, res))
        const connection = await RawConnection.open(port)
        const { status } = await connection.send(
          `GET ${target} HTTP/1.1\r\nHost: localhost:${port}\r\nAuthorization: Bearer x\r\n\r\n`,
        )
        connection.close()
        expect(status).to.equal(401)
        expect(urls).to.deep.equal([`http://localhost:${port}${expected}`])
      })
    }
  })

  describe('environments', () => {
    it('mcpAuth() works over HTTP/2', async () => {
      let seen: string | undefined
      const middleware = mcpAuth(
        oauthOptions({
          verifyToken: async ({ request, bearerToken }) => {
            seen = request.url
            return { valid: bearerToken === 'good' }
          },
        }),
      ) as unknown as (req: Http2ServerRequest, res: Http2ServerResponse, next: () => void) => void
      const server = createHttp2Server((req, res) => middleware(req, res, () => res.end('let in'))).listen(
        0,
        '127.0.0.1',
      )
      await once(server, 'listening')
      const origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
      const client = connectHttp2(origin)
      try {
        const ask = async (headers: Record<string, string>) => {
          const stream = client.request({ ':path': '/mcp?a=b', ...headers })
          const [head] = (await once(stream, 'response')) as [Record<string, string>]
          return { head, body: await text(stream) }
        }
        const refused = await ask({})
        expect(refused.head).to.include({ ':status': 401, 'cache-control': 'no-store' })
        expect(parseChallenge(refused.head['www-authenticate'] ?? '')).to.include({
          resource_metadata: `${origin}/.well-known/oauth-protected-resource`,
        })
        expect((await ask({ authorization: 'Bearer good' })).body).to.equal('let in')
        expect(seen).to.equal(`${origin}/mcp?a=b`)
      } finally {
        client.close()
        server.close()
      }
    })

    it('mcpAuth() works over TLS, and names https', async () => {
      const middleware = mcpAuth(oauthOptions())
      const { port } = await listen((req, res) => {
        Object.assign(req.socket, { encrypted: true })
        middleware(req, res)
      })
      expect(await challengeOf(port)).to.include({ resource_metadata: METADATA.replace('http:', 'https:') })
    })

    it('two gates in a row each respond with their own challenge', async () => {
      const app = gatedApp(oauthOptions(), {
        before: [mcpAuth(oauthOptions({ scopes: ['a'] })) as express.RequestHandler],
      })
      await request(app).get('/mcp').set('Authorization', 'Bearer good').expect(403)
      const open = gatedApp(oauthOptions(), { before: [mcpAuth(oauthOptions()) as express.RequestHandler] })
      await request(open).get('/mcp').set('Authorization', 'Bearer good').expect(200)
    })

    it('a client that disconnects during verification causes no error', async () => {
      let answer: ((result: { valid: boolean }) => void) | undefined
      const asked = new Promise<ServerResponse>((resolve) => {
        const middleware = mcpAuth(
          oauthOptions({
            verifyToken: () =>
              new Promise((settle) => {
                answer = settle
              }),
          }),
        )
        void listen((req, res) => {
          middleware(req, res)
          resolve(res)
        }).then(async ({ port }) => {
          const connection = await RawConnection.open(port)
          connection
            .send(`GET / HTTP/1.1\r\n${HOST}\r\nAuthorization: Bearer x\r\n\r\n`)
            .catch(() => undefined)
          await asked
          connection.close()
        })
      })
      const res = await asked
      if (!res.destroyed) await once(res, 'close')
      answer?.({ valid: false })
      await new Promise(setImmediate)
      expect(res.headersSent).to.equal(false)
    })
  })

  describe('errors of later middleware', () => {
    const boom = new Error('boom')
    const onError: ErrorRequestHandler = (error, _req, res, _next) => {
      res.status(418).end(error === boom ? 'the very error' : String(error))
    }

    it('an error behind mcpAuth reaches the error handler of Express, thrown or passed on', async () => {
      for (const handler of [
        () => {
          throw boom
        },
        (_req: IncomingMessage, _res: ServerResponse, next: (error: Error) => void) => next(boom),
        async () => Promise.reject(boom),
      ]) {
        const app = express().use(mcpAuth(oauthOptions()), handler as express.RequestHandler, onError)
        const { text } = await request(app).get('/').set('Authorization', 'Bearer good').expect(418)
        expect(text).to.equal('the very error')
      }
    })

    it('a verifier that fails does not reach the error handler of the application', async () => {
      const options = oauthOptions({ verifyToken: async () => Promise.reject(boom) })
      const app = express().use(mcpAuth(options), onError)
      await request(app).get('/').set('Authorization', 'Bearer good').expect(401)
    })
  })
})
