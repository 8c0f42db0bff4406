import { expect } from 'chai'
import { expectTypeOf } from 'expect-type'
import express, { type RequestHandler } from 'express'
import { type McpDiscoveryOptions, type McpServerOptions, mcpServer } from '../../src/express/mcp-server.ts'
import { aiCatalog, KitMcpRouter, type McpAdapter, type ServerInfo } from '../../src/index.ts'
import { createMcpAdapter } from '../../src/mcp/adapter.ts'
import type { OAuthOptions } from '../../src/oauth/options.ts'
import { oauthOptions } from '../support/gate-app.ts'
import { listen } from '../support/listen.ts'
import { problemsOfCard, problemsOfCatalog } from '../support/mcp/discovery-schemas.ts'
import { modern, send } from '../support/mcp/wire.ts'
import { rawRequest } from '../support/raw-http.ts'

const CARD = '/server-card'
const CATALOG = '/.well-known/ai-catalog.json'
const CARD_TYPE = 'application/mcp-server-card+json'
const RESOURCE = 'https://mcp.example.com/tools/mcp'

const router = KitMcpRouter.create().tool('secret_tool', { description: 'Is not listed' }, () => 'done')
const serverInfo: ServerInfo = {
  name: 'com.acme/notes',
  version: '2.0.0',
  title: 'Notes',
  description: 'Keeps notes',
}

const adapterFor = (oauth?: Partial<OAuthOptions>, info: ServerInfo = serverInfo) =>
  createMcpAdapter({ router, serverInfo: info, ...(oauth !== undefined && { oauth: oauthOptions(oauth) }) })

/** Serves an adapter with Express. Requests that are passed on get 418. */
async function serve(adapter: McpAdapter, options?: McpServerOptions, ...before: unknown[]) {
  const app = express()
  for (const middleware of before) app.use(middleware as RequestHandler)
  app.use(mcpServer(adapter, options) as RequestHandler, (_req, res) => void res.sendStatus(418))
  return await listen(app)
}

interface Answer {
  readonly status: number
  readonly headers: Readonly<Record<string, string | undefined>>
  readonly body: string
}
type Ask = (path: string, method?: string, headers?: Record<string, string>) => Promise<Answer>

/** The ways to serve both documents of an adapter. */
const WAYS: Readonly<Record<string, (adapter: McpAdapter) => Promise<Ask>>> = {
  async mcpServer(adapter) {
    const { port } = await serve(adapter)
    return async (target, method = 'GET', headers = {}) => {
      const lines = Object.entries({ host: 'mcp.example.com', ...headers }).map(
        ([name, value]) => `${name}: ${value}`,
      )
      const response = await rawRequest(port, { target, method, headers: lines })
      return {
        status: response.status,
        headers: Object.fromEntries(response.lines.map(([name, value]) => [name.toLowerCase(), value])),
        body: response.body,
      }
    }
  },
  async 'adapter.discovery'(adapter) {
    return async (path, method = 'GET', headers = {}) => {
      const handler = path === CATALOG ? adapter.discovery.catalog : adapter.discovery.card
      const { host = 'mcp.example.com', ...rest } = headers
      const response = await handler(new Request(`http://${host}${path}`, { method, headers: rest }))
      return {
        status: response.status,
        headers: Object.fromEntries(response.headers),
        body: await response.text(),
      }
    }
  },
}

/** Returns the JSON at a URL. */
const jsonAt = async (url: string): Promise<any> => await (await fetch(url)).json()

/**
 * Returns the status of a path. Each request has a connection of its own, so that none meets the connection of an earlier server
 * at the same port.
 */
const statusAt = async (port: number, target: string): Promise<number> =>
  (await rawRequest(port, { target, headers: ['Host: mcp.example.com'] })).status

describe('the server card and the catalog', () => {
  for (const [way, ways] of Object.entries(WAYS)) {
    describe(`of ${way}`, () => {
      it(`the card of a fixed resource is valid, public, and has an ETag, by ${way}`, async () => {
        const ask = await ways(adapterFor({ resource: RESOURCE }))
        const { status, headers, body } = await ask(`/tools/mcp${CARD}`)
        expect(status).to.equal(200)
        expect(headers).to.include({
          'content-type': CARD_TYPE,
          'cache-control': 'public, max-age=3600',
          'access-control-allow-origin': '*',
          'access-control-allow-methods': 'GET',
          'access-control-allow-headers': 'Content-Type, If-None-Match',
          'access-control-expose-headers': 'ETag',
        })
        expect(headers.etag).to.match(/^"[\w-]+"$/)
        expect(problemsOfCard(JSON.parse(body))).to.deep.equal([])
        expect(JSON.parse(body)).to.deep.include({
          name: 'com.acme/notes',
          version: '2.0.0',
          title: 'Notes',
          description: 'Keeps notes',
          remotes: [
            {
              type: 'streamable-http',
              url: RESOURCE,
              supportedProtocolVersions: ['2026-07-28', '2025-11-25', '2025-06-18', '2025-03-26'],
            },
          ],
        })
        expect(body).not.to.include('secret_tool')
        const again = await ask(`/tools/mcp${CARD}`, 'GET', { 'if-none-match': String(headers.etag) })
        expect(again).to.include({ status: 304, body: '' })
        expect(again.headers.etag).to.equal(headers.etag)
      })

      it(`the catalog of a fixed resource names the card, by ${way}`, async () => {
        const ask = await ways(adapterFor({ resource: RESOURCE }))
        const { status, headers, body } = await ask(CATALOG)
        expect(status).to.equal(200)
        expect(headers).to.include({
          'content-type': 'application/ai-catalog+json',
          'cache-control': 'public, max-age=3600',
          'access-control-allow-origin': '*',
          'access-control-allow-headers': 'Content-Type, If-None-Match',
        })
        expect(problemsOfCatalog(JSON.parse(body))).to.deep.equal([])
        expect(JSON.parse(body)).to.deep.equal({
          specVersion: '1.0',
          entries: [
            { identifier: 'urn:air:mcp.example.com:mcp:notes', type: CARD_TYPE, url: `${RESOURCE}${CARD}` },
          ],
        })
        const again = await ask(CATALOG, 'GET', { 'if-none-match': String(headers.etag) })
        expect(again).to.include({ status: 304, body: '' })
      })

      it(`without a fixed resource, both are derived from the request and not stored, by ${way}`, async () => {
        const ask = await ways(adapterFor(undefined, { name: 'notes', version: '1' }))
        for (const host of ['a.example.com', 'b.example.com:8443', 'a.example.com']) {
          const card = await ask(`/mcp${CARD}`, 'GET', { host })
          expect(card.headers['cache-control']).to.equal('no-store')
          const [hostname = ''] = host.split(':')
          expect(JSON.parse(card.body)).to.include({
            name: `${hostname.split('.').reverse().join('.')}/notes`,
          })
          expect(JSON.parse(card.body).remotes[0].url).to.equal(`http://${host}/mcp`)
          const catalog = await ask(CATALOG, 'GET', { host })
          expect(catalog.headers['cache-control']).to.equal('no-store')
          expect(JSON.parse(catalog.body).entries).to.deep.equal([
            {
              identifier: `urn:air:${hostname}:mcp:notes`,
              type: CARD_TYPE,
              url: `http://${host}/mcp${CARD}`,
            },
          ])
        }
      })

      it(`with a function for resource, both are about the resource of the request, by ${way}`, async () => {
        const resource = ({ url, headers }: Request) =>
          headers.has('x-none') ? undefined : `https://${new URL(url).hostname}/mcp`
        const ask = await ways(adapterFor({ resource }))
        for (const host of ['a.example.com', 'b.example.com']) {
          const card = await ask(`/mcp${CARD}`, 'GET', { host })
          expect(card.headers['cache-control']).to.equal('no-store')
          expect(JSON.parse(card.body).remotes[0].url).to.equal(`https://${host}/mcp`)
          const catalog = await ask(CATALOG, 'GET', { host })
          expect(JSON.parse(catalog.body).entries[0].url).to.equal(`https://${host}/mcp${CARD}`)
          const none = await ask(`/mcp${CARD}`, 'GET', { host, 'x-none': '1' })
          expect(JSON.parse(none.body).remotes[0].url).to.equal(`http://${host}/mcp`)
        }
      })

      it(`a function for resource that throws gets a 500 without details, by ${way}`, async () => {
        const resource = () => {
          throw new Error('secret of a tenant')
        }
        const ask = await ways(adapterFor({ resource }))
        for (const path of [`/mcp${CARD}`, CATALOG]) {
          expect(await ask(path)).to.include({ status: 500, body: '{"error":"server_error"}' })
        }
      })

      it(`HEAD has no body, OPTIONS has the CORS headers, and other methods get 405, by ${way}`, async () => {
        const ask = await ways(adapterFor({ resource: RESOURCE }))
        for (const path of [`/tools/mcp${CARD}`, CATALOG]) {
          const whole = await ask(path)
          const head = await ask(path, 'HEAD')
          expect(head).to.include({ status: 200, body: '' })
          expect(head.headers.etag).to.equal(whole.headers.etag)
          const preflight = await ask(path, 'OPTIONS', {
            origin: 'https://client.example',
            'access-control-request-method': 'GET',
            'access-control-request-headers': 'if-none-match',
          })
          expect(preflight.status).to.equal(204)
          expect(preflight.headers).to.include({
            'access-control-allow-origin': '*',
            'access-control-allow-methods': 'GET',
            'access-control-allow-headers': 'Content-Type, If-None-Match',
          })
          for (const method of ['POST', 'PUT', 'DELETE', 'PATCH']) {
            const refused = await ask(path, method)
            expect(refused.status).to.equal(405)
            expect(refused.headers.allow).to.equal('GET, HEAD, OPTIONS')
            expect(refused.headers['access-control-allow-origin']).to.equal('*')
          }
        }
      })
    })
  }

  const resources: readonly (readonly [resource: string, card: string])[] = [
    ['https://mcp.example.com', '/server-card'],
    ['https://mcp.example.com/', '/server-card'],
    ['https://mcp.example.com/mcp/', '/mcp/server-card'],
    ['https://mcp.example.com/mcp?tenant=1', '/mcp/server-card'],
  ]
  for (const [resource, path] of resources) {
    it(`the card of ${resource} is at ${path}`, async () => {
      const { origin } = await serve(adapterFor({ resource }))
      expect((await jsonAt(origin + path)).remotes[0].url).to.equal(resource)
      const { entries } = await jsonAt(origin + CATALOG)
      expect(entries[0].url).to.equal(`https://mcp.example.com${path}`)
    })
  }

  it('the card says what server/discover says', async () => {
    const { port, origin } = await serve(adapterFor())
    const { message } = await send(port, modern('server/discover'))
    const card = await jsonAt(`${origin}/mcp${CARD}`)
    expect(message.result._meta['io.modelcontextprotocol/serverInfo']).to.include({
      name: card.name,
      version: card.version,
      title: card.title,
    })
    expect(card.remotes[0].supportedProtocolVersions).to.include.members(message.result.supportedVersions)
  })

  it('both need no token', async () => {
    const { port } = await serve(adapterFor({ resource: RESOURCE }))
    for (const path of [`/tools/mcp${CARD}`, CATALOG]) expect(await statusAt(port, path)).to.equal(200)
  })

  const hostile: readonly (readonly [what: string, host: string, status: number])[] = [
    ['with a space', 'a b', 404],
    ['with quotes', 'a"b', 404],
    ['with a path', 'a/b', 404],
    ['with credentials', 'user@a', 404],
    ['that is too long', 'a'.repeat(300), 404],
    ['with an underscore', 'a_b', 200],
    ['that is an IPv6 address', '[::1]:80', 200],
  ]
  for (const [what, host, status] of hostile) {
    it(`a card for a host ${what} is ${status === 200 ? 'valid' : 'not found'}`, async () => {
      const { port } = await serve(adapterFor(undefined, { name: 'notes', version: '1' }))
      const response = await rawRequest(port, { target: `/mcp${CARD}`, headers: [`Host: ${host}`] })
      expect(response.status).to.equal(status)
      if (status === 200) expect(problemsOfCard(JSON.parse(response.body))).to.deep.equal([])
      const catalog = await rawRequest(port, { target: CATALOG, headers: [`Host: ${host}`] })
      expect(problemsOfCatalog(JSON.parse(catalog.body))).to.deep.equal([])
      expect(JSON.parse(catalog.body).entries).to.have.length(status === 200 ? 1 : 0)
    })
  }

  it('forwarded headers count only if a proxy is trusted', async () => {
    const headers = ['Host: a.example.com', 'X-Forwarded-Host: evil.example', 'X-Forwarded-Proto: https']
    const adapter = adapterFor()
    const { port } = await serve(adapter)
    const untrusted = await rawRequest(port, { target: `/mcp${CARD}`, headers })
    expect(JSON.parse(untrusted.body).remotes[0].url).to.equal('http://a.example.com/mcp')
    const app = express()
      .set('trust proxy', true)
      .use(mcpServer(adapter) as RequestHandler)
    const trusting = await listen(app)
    const trusted = await rawRequest(trusting.port, { target: `/mcp${CARD}`, headers })
    expect(JSON.parse(trusted.body).remotes[0].url).to.equal('https://evil.example/mcp')
  })

  it('a card below a mount path names the whole path, whatever bytes it has', async () => {
    const app = express().use('/:tenant', mcpServer(adapterFor()) as RequestHandler)
    const { port } = await listen(app)
    for (const [mount, expected] of [
      ['/acme', '/acme'],
      ['/a%20b', '/a%20b'],
      ['/a"{b}', '/a%22%7Bb%7D'],
    ] as const) {
      const { body } = await rawRequest(port, { target: `${mount}/mcp${CARD}`, headers: ['Host: a'] })
      const card = JSON.parse(body)
      expect(card.remotes[0].url).to.equal(`http://a${expected}/mcp`)
      expect(problemsOfCard(card)).to.deep.equal([])
    }
  })

  it('other paths are passed on', async () => {
    const { port } = await serve(adapterFor({ resource: RESOURCE }))
    for (const path of [
      '/server-card',
      '/mcp/server-card',
      `/tools/mcp${CARD}/`,
      `/tools/mcp${CARD}x`,
      `/x${CATALOG}`,
      '/.well-known/ai-catalog',
    ])
      expect(await statusAt(port, path), path).to.equal(418)
  })

  it('discovery: false serves neither', async () => {
    const { port } = await serve(adapterFor({ resource: RESOURCE }), { discovery: false })
    for (const path of [`/tools/mcp${CARD}`, CATALOG]) expect(await statusAt(port, path)).to.equal(418)
  })

  it('discovery: { catalog: false } serves the card only', async () => {
    const { port } = await serve(adapterFor({ resource: RESOURCE }), { discovery: { catalog: false } })
    expect(await statusAt(port, `/tools/mcp${CARD}`)).to.equal(200)
    expect(await statusAt(port, CATALOG)).to.equal(418)
  })

  it('the members of discovery replace values, for web hosts too', async () => {
    const repository = {
      url: 'https://git.example/acme/notes',
      source: 'github',
      subfolder: 'server',
      id: undefined,
    }
    const adapter = adapterFor({ resource: RESOURCE })
    const { origin } = await serve(adapter, {
      discovery: {
        name: 'org.acme/pad',
        description: 'A pad',
        repository,
        identifier: 'urn:air:acme.org:mcp:paper',
      },
    })
    const card = await jsonAt(`${origin}/tools/mcp${CARD}`)
    expect(problemsOfCard(card)).to.deep.equal([])
    expect(card).to.deep.include({
      name: 'org.acme/pad',
      description: 'A pad',
      title: 'Notes',
      repository: { url: 'https://git.example/acme/notes', source: 'github', subfolder: 'server' },
    })
    const { entries } = await jsonAt(origin + CATALOG)
    expect(entries[0].identifier).to.equal('urn:air:acme.org:mcp:paper')
    expect(await (await adapter.discovery.card(new Request(`https://x${CARD}`))).json()).to.deep.equal(card)
  })

  it('a name of discovery is the source of the identifier', async () => {
    const { origin } = await serve(adapterFor({ resource: RESOURCE }), {
      discovery: { name: 'org.acme/pad' },
    })
    const { entries } = await jsonAt(origin + CATALOG)
    expect(entries[0].identifier).to.equal('urn:air:mcp.example.com:mcp:pad')
  })

  it('a route of the application in front wins', async () => {
    const own: RequestHandler = (req, res, next) =>
      req.path === CATALOG ? void res.json({ own: true }) : next()
    const { origin } = await serve(adapterFor({ resource: RESOURCE }), {}, own)
    expect(await jsonAt(origin + CATALOG)).to.deep.equal({ own: true })
  })

  it('the path option counts for both', async () => {
    const { origin } = await serve(adapterFor(), { path: '/notes' })
    const card = await jsonAt(`${origin}/notes${CARD}`)
    expect(card.remotes[0].url).to.equal(`${origin}/notes`)
    const { entries } = await jsonAt(origin + CATALOG)
    expect(entries[0].url).to.equal(`${origin}/notes${CARD}`)
  })

  it('the type of discovery is checked', () => {
    expectTypeOf<McpServerOptions['discovery']>().toEqualTypeOf<false | McpDiscoveryOptions | undefined>()
    expectTypeOf<McpAdapter['discovery']['card']>().toEqualTypeOf<(request: Request) => Response>()
    // @ts-expect-error only false turns it off
    expect(() => mcpServer(adapterFor(), { discovery: true })).to.throw()
    const repository = { url: 'https://a.example' }
    // @ts-expect-error a repository has a source
    expect(() => mcpServer(adapterFor(), { discovery: { repository } })).to.throw()
    // @ts-expect-error adapters are expected
    expect(() => aiCatalog([{}])).to.throw()
  })
})
