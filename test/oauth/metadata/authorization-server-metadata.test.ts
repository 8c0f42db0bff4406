import type { IncomingMessage, ServerResponse } from 'node:http'
import { expect } from 'chai'
import express, { type RequestHandler } from 'express'
import { mcpServer } from '../../../src/express/mcp-server.ts'
import { type ProtectedResourceRouterOptions, protectedResourceRouter } from '../../../src/index.ts'
import { createMcpAdapter } from '../../../src/mcp/adapter.ts'
import { KitMcpRouter } from '../../../src/mcp/router/router.ts'
import { AuthorizationServerMetadata } from '../../../src/oauth/metadata/authorization-server-metadata.ts'
import type { OAuthOptions } from '../../../src/oauth/options.ts'
import { expectConfigError } from '../../support/config-error.ts'
import { oauthOptions } from '../../support/gate-app.ts'
import { listen } from '../../support/listen.ts'
import { type KeyServer, startKeyServer } from '../../support/tokens.ts'
import { until } from '../../support/until.ts'

const OAUTH = '/.well-known/oauth-authorization-server'
const OPENID = '/.well-known/openid-configuration'
const RESOURCE = 'https://mcp.example.com/api/mcp'
const COPIED = { authorizationServerMetadata: true } as const

const metadataOf = (issuer: string) => ({
  issuer,
  authorization_endpoint: `${issuer}/authorize`,
  token_endpoint: `${issuer}/token`,
  code_challenge_methods_supported: ['S256'],
  'x-own': { nested: ['é', 1, null] },
})

/** An authorization server with metadata at one path. It counts the requests. */
const startServer = (path = OAUTH, issuerPath = ''): Promise<KeyServer> =>
  startKeyServer([], (origin) => ({ [path]: metadataOf(origin + issuerPath) }))

async function serve(
  options: Partial<OAuthOptions>,
  routerOptions: ProtectedResourceRouterOptions = COPIED,
): Promise<string> {
  const router = protectedResourceRouter(oauthOptions(options), routerOptions) as RequestHandler
  const app = express().use(router, (_req, res) => void res.status(299).end('passed on'))
  return (await listen(app)).origin
}

describe('authorizationServerMetadata', () => {
  for (const [what, path, issuerPath] of [
    ['RFC 8414', OAUTH, ''],
    ['OpenID Connect Discovery', OPENID, ''],
    ['RFC 8414 for an issuer with a path', `${OAUTH}/realm`, '/realm'],
    ['OpenID Connect Discovery for an issuer with a path', `/realm${OPENID}`, '/realm'],
    ['RFC 8414 §5 for an issuer with a path', `${OPENID}/realm`, '/realm'],
  ] as const) {
    it(`the copy of metadata by ${what} is served at every path that clients probe`, async () => {
      const server = await startServer(path, issuerPath)
      const issuer = server.origin + issuerPath
      const origin = await serve({ issuer, resource: RESOURCE })
      for (const own of [OAUTH, OPENID, `${OAUTH}/api/mcp`, `${OPENID}/api/mcp`, `/api/mcp${OPENID}`]) {
        const response = await fetch(origin + own)
        expect(response.status, own).to.equal(200)
        expect(Object.fromEntries(response.headers)).to.include({
          'content-type': 'application/json',
          'access-control-allow-origin': '*',
          'access-control-expose-headers': 'ETag',
          'cache-control': 'public, max-age=3600',
        })
        expect(await response.json()).to.deep.equal(metadataOf(issuer))
      }
      expect(server.asked.filter((asked) => asked === path)).to.have.length(1)
    })
  }

  it('requests for other paths than those of the resource are passed on', async () => {
    const server = await startServer()
    const origin = await serve({ issuer: server.origin, resource: RESOURCE })
    for (const path of [
      `${OAUTH}/mcp`,
      `${OAUTH}/`,
      `${OPENID}/api/mcp/`,
      `/mcp${OPENID}`,
      `/api/mcp${OAUTH}`,
      `${OAUTH}x`,
      '/.well-known',
    ])
      expect((await fetch(origin + path)).status, path).to.equal(299)
    expect(server.asked).to.deep.equal([])
  })

  it('without a fixed resource, the copy is served for every path after the well-known name', async () => {
    const server = await startServer()
    const origin = await serve({ issuer: server.origin })
    for (const [path, status] of [
      [OAUTH, 200],
      [`${OAUTH}/any/path`, 200],
      [`${OPENID}/mcp`, 200],
      [`/mcp${OPENID}`, 299],
      [`${OPENID}x`, 299],
    ] as const)
      expect((await fetch(origin + path)).status, path).to.equal(status)
  })

  it('the copy is not served by default', async () => {
    for (const options of [{}, { authorizationServerMetadata: false }]) {
      const origin = await serve({ resource: RESOURCE }, options)
      for (const path of [OAUTH, OPENID]) expect((await fetch(origin + path)).status).to.equal(299)
    }
  })

  it('the copy is of the first of several authorization servers', async () => {
    const [first, second] = [await startServer(), await startServer()]
    const origin = await serve({
      issuer: second.origin,
      authorizationServers: [first.origin, second.origin],
      resource: RESOURCE,
    })
    expect(await (await fetch(origin + OAUTH)).json()).to.have.property('issuer', first.origin)
    expect(second.asked).to.deep.equal([])
  })

  it('a conditional request gets 304, HEAD no body, a preflight its headers, and other methods 405', async () => {
    const server = await startServer()
    const origin = await serve({ issuer: server.origin, resource: RESOURCE })
    const url = origin + OAUTH
    const etag = (await fetch(url)).headers.get('etag') as string
    expect((await fetch(url, { headers: { 'if-none-match': etag } })).status).to.equal(304)
    expect((await fetch(url, { headers: { 'if-none-match': '"other"' } })).status).to.equal(200)
    const head = await fetch(url, { method: 'HEAD' })
    expect([head.status, await head.text()]).to.deep.equal([200, ''])
    const preflight = await fetch(url, { method: 'OPTIONS', headers: { origin: 'https://a.example' } })
    expect(preflight.status).to.equal(204)
    expect(preflight.headers.get('access-control-allow-origin')).to.equal('*')
    const post = await fetch(url, { method: 'POST' })
    expect([post.status, post.headers.get('allow')]).to.deep.equal([405, 'GET, HEAD, OPTIONS'])
  })

  it('the protected resource metadata is served as without the option', async () => {
    const server = await startServer()
    const origin = await serve({ issuer: server.origin, resource: RESOURCE })
    for (const path of ['', '/api/mcp']) {
      const response = await fetch(`${origin}/.well-known/oauth-protected-resource${path}`)
      expect(await response.json()).to.include({ resource: RESOURCE })
    }
  })

  it('mcpServer with authorizationServerMetadata serves the copy, also below the path of the endpoint', async () => {
    const server = await startServer()
    const adapter = createMcpAdapter({
      router: KitMcpRouter.create(),
      oauth: oauthOptions({ issuer: server.origin, resource: RESOURCE }),
    })
    for (const [options, status] of [
      [{}, 404],
      [COPIED, 200],
    ] as const) {
      const { origin } = await listen(mcpServer(adapter, options))
      for (const path of [OAUTH, OPENID, `${OAUTH}/api/mcp`, `/api/mcp${OPENID}`])
        expect((await fetch(origin + path)).status, path).to.equal(status)
      expect((await fetch(`${origin}/api/mcp`, { method: 'POST' })).status).to.equal(401)
    }
  })

  it('requests that arrive while the metadata is fetched share one fetch', async () => {
    const server = await startServer()
    let release = (): void => undefined
    server.answer((_req, res) => {
      release = () => {
        res.setHeader('content-type', 'application/json')
        res.end(JSON.stringify(metadataOf(server.origin)))
      }
    })
    const origin = await serve({ issuer: server.origin, resource: RESOURCE })
    const responses = Promise.all(Array.from({ length: 20 }, () => fetch(origin + OAUTH)))
    await until(() => server.asked.length > 0)
    release()
    expect((await responses).map(({ status }) => status)).to.deep.equal(Array.from({ length: 20 }, () => 200))
    expect(server.asked).to.have.length(1)
  })

  it('authorizationServerMetadata is a configuration error if the server has its own metadata at these paths', () => {
    for (const [issuer, resource] of [
      ['https://mcp.example.com', RESOURCE],
      ['https://mcp.example.com/', 'https://mcp.example.com'],
      ['https://mcp.example.com/api/mcp', RESOURCE],
    ] as const)
      expectConfigError(() => protectedResourceRouter(oauthOptions({ issuer, resource }), COPIED), {
        code: 'MCP_CONFIG_INVALID_OPTION',
        option: 'authorizationServerMetadata',
        message: /must not be set .* Remove the option/,
      })
    const elsewhere = oauthOptions({ issuer: 'https://mcp.example.com/auth', resource: RESOURCE })
    expect(() => protectedResourceRouter(elsewhere, COPIED)).not.to.throw()
  })
})

describe('authorizationServerMetadata: outages', () => {
  const request = { method: 'GET', header: () => undefined }
  let server: KeyServer
  let nowMs: number
  let metadata: AuthorizationServerMetadata
  beforeEach(async () => {
    server = await startServer()
    nowMs = 0
    metadata = new AuthorizationServerMetadata(server.origin, RESOURCE, false, () => nowMs)
  })

  const down = (_req: IncomingMessage, res: ServerResponse): void => void res.writeHead(500).end()

  /** Faults of the authorization server. A fault that is not an outage is asked about at both locations. */
  const FAULTS: Readonly<Record<string, (req: IncomingMessage, res: ServerResponse) => void>> = {
    'an error': down,
    'a closed connection': (req) => void req.socket.destroy(),
    'a redirect': (_req, res) => void res.writeHead(302, { location: '/elsewhere' }).end(),
    'a page': (_req, res) => void res.writeHead(200, { 'content-type': 'text/html' }).end('<p>'),
    'invalid JSON': (_req, res) => void res.writeHead(200, { 'content-type': 'application/json' }).end('{'),
    'the metadata of another issuer': (_req, res) =>
      void res
        .writeHead(200, { 'content-type': 'application/json' })
        .end(JSON.stringify(metadataOf('https://evil.example.com'))),
    'metadata of more than 1 MiB': (_req, res) =>
      void res
        .writeHead(200, { 'content-type': 'application/json' })
        .end(JSON.stringify({ ...metadataOf(server.origin), x: 'x'.repeat(1_048_576) })),
    'JSON of 500 000 levels': (_req, res) =>
      void res
        .writeHead(200, { 'content-type': 'application/json' })
        .end(`{"issuer":"${server.origin}","x":${'['.repeat(5e5)}${']'.repeat(5e5)}}`),
  }

  for (const [fault, answer] of Object.entries(FAULTS)) {
    it(`without a copy, ${fault} leads to a 503 that other web pages may read`, async () => {
      server.answer(answer)
      const { status, headers, body } = await metadata.respond(request)
      expect(status).to.equal(503)
      expect(headers).to.deep.equal({
        'Content-Type': 'application/json',
        'Cache-Control': 'no-store',
        'Retry-After': '5',
        'Access-Control-Allow-Origin': '*',
        'Access-Control-Expose-Headers': 'ETag',
      })
      expect(body).to.match(/^\{"error":"temporarily_unavailable",/)
    })
  }

  it('without a copy, at most one attempt per second is made, and the first success ends the outage', async () => {
    server.answer(down)
    for (let index = 0; index < 10; index++) expect((await metadata.respond(request)).status).to.equal(503)
    expect(server.asked).to.have.length(1)
    nowMs = 999
    await metadata.respond(request)
    expect(server.asked).to.have.length(1)
    nowMs = 1_000
    await Promise.all(Array.from({ length: 10 }, () => metadata.respond(request)))
    expect(server.asked).to.have.length(2)
    nowMs = 2_000
    server.answer()
    expect((await metadata.respond(request)).status).to.equal(200)
  })

  it('a copy is served without a fetch for ten minutes, then at once while it is fetched again', async () => {
    expect((await metadata.respond(request)).status).to.equal(200)
    nowMs = 599_999
    await metadata.respond(request)
    expect(server.asked).to.have.length(1)
    nowMs = 600_000
    server.answer((_req, res) => {
      res.setHeader('content-type', 'application/json')
      res.end(JSON.stringify({ ...metadataOf(server.origin), new: true }))
    })
    expect((await metadata.respond(request)).body).not.to.include('"new"')
    await until(async () => (await metadata.respond(request)).body?.includes('"new"') === true)
    expect(server.asked).to.have.length(2)
  })

  it('an old copy is served while the authorization server is down, with at most one attempt per second', async () => {
    await metadata.respond(request)
    server.answer(down)
    nowMs = 1_000_000
    expect((await metadata.respond(request)).status).to.equal(200)
    await until(() => server.asked.length === 2)
    for (let index = 0; index < 10; index++) expect((await metadata.respond(request)).status).to.equal(200)
    expect(server.asked).to.have.length(2)
  })
})
