import { expect } from 'chai'
import express, { type RequestHandler } from 'express'
import request from 'supertest'
import { z } from 'zod'
import { protectedResourceRouter } from '../../src/express/protected-resource-router.ts'
import { createMcpAdapter, type GateTarget, KitMcpRouter, type OAuthOptions } from '../../src/index.ts'
import { oauthOptions } from '../support/gate-app.ts'
import { listen } from '../support/listen.ts'
import { rawRequest } from '../support/raw-http.ts'

const ROOT = '/.well-known/oauth-protected-resource'
const RESOURCE = 'https://mcp.example.com/api/mcp'

/** An application that serves the documents of these targets, and reports other requests. */
function appWith(...targets: readonly GateTarget[]) {
  const app = express()
  for (const target of targets) app.use(protectedResourceRouter(target) as RequestHandler)
  return app.use((_, res) => {
    res.status(299).end('passed on')
  })
}

const withHost = (path: string, target: GateTarget) =>
  request(appWith(target)).get(path).set('Host', 'mcp.example.com')

describe('protectedResourceRouter()', () => {
  describe('the document', () => {
    it('the document contains only what RFC 9728 and the options define', async () => {
      const { status, headers, text } = await withHost(ROOT, oauthOptions({ resource: RESOURCE }))
      expect(status).to.equal(200)
      expect(text).to.equal(
        `{"resource":"${RESOURCE}","authorization_servers":["https://auth.example.com"],"bearer_methods_supported":["header"]}`,
      )
      expect(headers).to.include({
        'content-type': 'application/json',
        'access-control-allow-origin': '*',
        'cache-control': 'public, max-age=3600',
        'content-length': String(text.length),
      })
      expect(headers.etag).to.match(/^"[\x21\x23-\x7E]+"$/)
    })

    it('the document contains every configured member', async () => {
      const options = oauthOptions({
        resource: RESOURCE,
        authorizationServers: ['https://one.example.com', 'https://two.example.com'],
        scopes: ['mcp:read'],
        resourceName: 'Notizbücher',
        resourceDocumentation: 'https://docs.example.com/notes',
      })
      const { body } = await withHost(ROOT, options)
      expect(body).to.deep.equal({
        resource: RESOURCE,
        authorization_servers: ['https://one.example.com', 'https://two.example.com'],
        scopes_supported: ['mcp:read'],
        bearer_methods_supported: ['header'],
        resource_name: 'Notizbücher',
        resource_documentation: 'https://docs.example.com/notes',
      })
    })

    const scopes: readonly (readonly [
      what: string,
      options: Partial<OAuthOptions>,
      expected: readonly string[] | undefined,
    ])[] = [
      ['the required scopes', { scopes: ['a', 'b'] }, ['a', 'b']],
      ['the scopes that are named instead', { scopes: ['a'], scopesSupported: ['b', 'c'] }, ['b', 'c']],
      ['no list when there is none', {}, undefined],
      ['no list when it is empty', { scopes: ['a'], scopesSupported: [] }, undefined],
      ['never offline_access', { scopesSupported: ['a', 'offline_access'] }, ['a']],
      ['no list when only offline_access is named', { scopesSupported: ['offline_access'] }, undefined],
    ]
    for (const [what, options, expected] of scopes) {
      it(`scopes_supported of the document is ${what}`, async () => {
        const { body } = await withHost(ROOT, oauthOptions(options))
        expect(body.scopes_supported).to.deep.equal(expected)
        expect('scopes_supported' in body).to.equal(expected !== undefined)
      })
    }

    it('scopes_supported of the document contains every scope of the router of an adapter', async () => {
      const input = z.object({})
      const router = KitMcpRouter.create()
        .tool('write', { description: 'Writes', input, scopes: ['mcp:write', 'mcp:read'] }, () => '')
        .tool('erase', { description: 'Erases', input, scopes: ['mcp:erase'] }, () => '')
      const adapter = createMcpAdapter({ router, oauth: oauthOptions({ scopes: ['mcp:read'] }) })
      const { body } = await withHost(ROOT, adapter)
      expect(body.scopes_supported).to.have.members(['mcp:read', 'mcp:write', 'mcp:erase'])
      expect(body.scopes_supported).to.have.length(3)
    })

    it('HEAD for the document gets the same head and no body', async () => {
      const { port } = await listen(appWith(oauthOptions({ resource: RESOURCE })))
      const headers = ['Host: mcp.example.com', 'Connection: close']
      const get = await rawRequest(port, { target: ROOT, headers })
      const head = await rawRequest(port, { method: 'HEAD', target: ROOT, headers })
      expect(head.status).to.equal(200)
      expect(head.body).to.equal('')
      for (const name of [
        'content-type',
        'content-length',
        'etag',
        'cache-control',
        'access-control-allow-origin',
      ]) {
        expect(head.header(name), name).to.equal(get.header(name))
        expect(head.header(name), name).not.to.equal(undefined)
      }
    })

    it('a preflight for the document gets a response', async () => {
      const response = await request(appWith(oauthOptions())).options(ROOT).set({
        Origin: 'https://app.example',
        'Access-Control-Request-Method': 'GET',
        'Access-Control-Request-Headers': 'mcp-protocol-version',
      })
      expect(response.status).to.equal(204)
      expect(response.headers).to.include({ 'access-control-allow-origin': '*' })
      expect(response.headers['access-control-allow-methods']?.split(',')).to.include('GET')
      expect(response.headers['access-control-allow-headers']?.toLowerCase().split(',')).to.include(
        'mcp-protocol-version',
      )
    })

    it('every other method for the document gets a 405 with Allow', async () => {
      const app = appWith(oauthOptions())
      for (const method of ['post', 'put', 'delete', 'patch'] as const) {
        const { status, headers } = await request(app)[method](ROOT)
        expect(status).to.equal(405)
        expect(headers.allow?.split(', ')).to.have.members(['GET', 'HEAD', 'OPTIONS'])
        expect(headers['access-control-allow-origin']).to.equal('*')
      }
    })
  })

  describe('the resource of the document', () => {
    const cases: readonly (readonly [
      what: string,
      resource: string | undefined,
      path: string,
      expected: string,
    ])[] = [
      ['the configured one, in the root form', RESOURCE, ROOT, RESOURCE],
      ['the configured one, in the suffixed form', RESOURCE, `${ROOT}/api/mcp`, RESOURCE],
      ['the configured one as it is written', 'https://mcp.example.com', ROOT, 'https://mcp.example.com'],
      ['the configured one with its slash', 'https://mcp.example.com/', ROOT, 'https://mcp.example.com/'],
      ['the origin without a slash, in the root form', undefined, ROOT, 'http://mcp.example.com'],
      [
        'the URL that clients use, in the suffixed form',
        undefined,
        `${ROOT}/api/mcp`,
        'http://mcp.example.com/api/mcp',
      ],
      ['that URL without the query', undefined, `${ROOT}/mcp?a=b`, 'http://mcp.example.com/mcp'],
    ]
    for (const [what, resource, path, expected] of cases) {
      it(`the resource of the document is ${what}`, async () => {
        const { status, body } = await withHost(path, oauthOptions({ resource }))
        expect(status).to.equal(200)
        expect(body.resource).to.equal(expected)
      })
    }

    it('the resource of the document uses forwarded headers only if the proxy is trusted', async () => {
      const forwarded = { 'X-Forwarded-Proto': 'https', 'X-Forwarded-Host': 'public.example.com' }
      const trusting = express()
        .set('trust proxy', true)
        .use(protectedResourceRouter(oauthOptions()) as RequestHandler)
      const { body: trusted } = await request(trusting).get(`${ROOT}/mcp`).set(forwarded)
      expect(trusted.resource).to.equal('https://public.example.com/mcp')
      const { body: plain } = await withHost(`${ROOT}/mcp`, oauthOptions()).set(forwarded)
      expect(plain.resource).to.equal('http://mcp.example.com/mcp')
    })

    it('a request for the document without a valid host gets a 404', async () => {
      const { port } = await listen(appWith(oauthOptions()))
      for (const headers of [[], ['Host: a"b']]) {
        const version = headers.length === 0 ? '1.0' : '1.1'
        expect(await rawRequest(port, { target: ROOT, headers, version })).to.include({ status: 404 })
      }
    })
  })

  describe('paths', () => {
    const paths: readonly (readonly [resource: string | undefined, path: string, own: boolean])[] = [
      [RESOURCE, ROOT, true],
      [RESOURCE, `${ROOT}/api/mcp`, true],
      [RESOURCE, `${ROOT}/api/mcp/`, false],
      [RESOURCE, `${ROOT}/api`, false],
      [RESOURCE, `${ROOT}/api/mcp/x`, false],
      [RESOURCE, `${ROOT}/other`, false],
      [RESOURCE, `${ROOT}/`, false],
      [RESOURCE, `${ROOT}x`, false],
      [RESOURCE, '/api/mcp', false],
      [RESOURCE, '/', false],
      ['https://mcp.example.com', `${ROOT}/api`, false],
      [undefined, `${ROOT}/anything/at/all`, true],
      [undefined, `${ROOT}x`, false],
      [undefined, '/.well-known/oauth-authorization-server', false],
    ]
    for (const [resource, path, own] of paths) {
      it(`the path ${path} is ${own ? 'served' : 'passed on'} for ${resource ?? 'a resource that is not configured'}`, async () => {
        const app = appWith(oauthOptions({ resource }))
        for (const method of ['get', 'post', 'options'] as const) {
          const { status } = await request(app)[method](path).set('Host', 'mcp.example.com')
          if (own) expect(status).to.equal({ get: 200, post: 405, options: 204 }[method])
          else expect(status).to.equal(299)
        }
      })
    }

    it('the default path is passed on if resourceMetadataPath is set', async () => {
      const app = appWith(oauthOptions({ resourceMetadataPath: '/meta', resource: RESOURCE }))
      await request(app).get('/meta').expect(200)
      await request(app).get('/meta/api/mcp').expect(200)
      await request(app).get(ROOT).expect(299)
    })

    it('several resources can be served in one application', async () => {
      const resources = ['https://mcp.example.com/one', 'https://mcp.example.com/two']
      const app = appWith(...resources.map((resource) => oauthOptions({ resource })))
      for (const resource of resources) {
        const { body } = await request(app)
          .get(`${ROOT}${new URL(resource).pathname}`)
          .expect(200)
        expect(body.resource).to.equal(resource)
      }
      await request(app).get(`${ROOT}/three`).expect(299)
    })
  })

  describe('revalidation', () => {
    it('a request with the entity tag of the document gets a 304, also with a weak tag and in a list', async () => {
      const app = appWith(oauthOptions({ resource: RESOURCE }))
      const { headers } = await request(app).get(ROOT)
      const etag = headers.etag as string
      for (const ifNoneMatch of [etag, `W/${etag}`, `"other", ${etag}`, '*']) {
        for (const method of ['get', 'head'] as const) {
          const response = await request(app)[method](ROOT).set('If-None-Match', ifNoneMatch)
          expect(response.status, ifNoneMatch).to.equal(304)
          expect(response.text ?? '').to.equal('')
          expect(response.headers).to.include({
            etag,
            'cache-control': 'public, max-age=3600',
            'access-control-allow-origin': '*',
          })
          expect(response.headers).not.to.have.property('content-type')
        }
      }
      for (const ifNoneMatch of ['"other"', etag.slice(1, -1), 'W/"other"']) {
        await request(app).get(ROOT).set('If-None-Match', ifNoneMatch).expect(200)
      }
    })

    it('a conditional request of fetch(), which adds no-cache, gets a 304', async () => {
      const { origin } = await listen(appWith(oauthOptions({ resource: RESOURCE })))
      const first = await fetch(`${origin}${ROOT}`)
      const etag = first.headers.get('etag') ?? ''
      await first.text()
      const second = await fetch(`${origin}${ROOT}`, { headers: { 'If-None-Match': etag } })
      expect(second.status).to.equal(304)
    })

    it('another document has another entity tag', async () => {
      const tagOf = async (options: OAuthOptions, host = 'mcp.example.com') =>
        (await request(appWith(options)).get(ROOT).set('Host', host)).headers.etag
      const tags = await Promise.all([
        tagOf(oauthOptions()),
        tagOf(oauthOptions(), 'other.example.com'),
        tagOf(oauthOptions({ scopes: ['a'] })),
      ])
      expect(new Set(tags)).to.have.property('size', 3)
      expect(await tagOf(oauthOptions())).to.equal(tags[0])
    })
  })

  describe('environments', () => {
    it('protectedResourceRouter() works on a plain server, with and without later middleware', async () => {
      const router = protectedResourceRouter(oauthOptions({ resource: RESOURCE }))
      const { origin } = await listen((req, res) => router(req, res, () => res.writeHead(299).end()))
      expect(await (await fetch(`${origin}${ROOT}`)).json()).to.include({ resource: RESOURCE })
      expect((await fetch(`${origin}/mcp`)).status).to.equal(299)
      const alone = await listen((req, res) => {
        router(req, res)
        if (!res.headersSent) res.writeHead(298).end()
      })
      expect((await fetch(`${alone.origin}/mcp`)).status).to.equal(298)
    })

    it('protectedResourceRouter() takes the OAuth options of an adapter with anonymous and securitySchemes', async () => {
      const oauth = oauthOptions({ resource: RESOURCE, anonymous: true, securitySchemes: true })
      await request(appWith(oauth)).get(`${ROOT}/api/mcp`).expect(200)
    })

    it('protectedResourceRouter() works inside a router of Express', async () => {
      const app = express().use(
        express.Router().use(protectedResourceRouter(oauthOptions({ resource: RESOURCE })) as RequestHandler),
      )
      await request(app).get(`${ROOT}/api/mcp`).expect(200)
    })
  })
})
