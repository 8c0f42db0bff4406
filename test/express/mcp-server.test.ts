import { createRequire } from 'node:module'
import { expect } from 'chai'
import connect from 'connect'
import express from 'express'
import { z } from 'zod'
import type { NodeMiddleware } from '../../src/base/http/node-middleware.ts'
import { createMcpAdapter, KitMcpRouter, mcpServer, type OAuthOptions } from '../../src/index.ts'
import { oauthOptions } from '../support/gate-app.ts'
import { listen } from '../support/listen.ts'

const express4: typeof express = createRequire(import.meta.url)('express4')

const WELL_KNOWN = '/.well-known/oauth-protected-resource'

const router = KitMcpRouter.create().tool(
  'echo',
  { description: 'Repeats its argument', input: z.object({ text: z.string() }) },
  ({ text }) => text,
)

const adapterFor = (oauth?: Partial<OAuthOptions>) =>
  createMcpAdapter({ router, ...(oauth !== undefined && { oauth: oauthOptions(oauth) }) })

/** Each host gets the middleware and reports the requests that pass on with status 418. */
const HOSTS: Readonly<Record<string, (middleware: NodeMiddleware) => Parameters<typeof listen>[0]>> = {
  'Express 5': (middleware) => express().use(middleware, (_req, res) => void res.sendStatus(418)),
  'Express 4': (middleware) => express4().use(middleware as never, (_req, res) => void res.sendStatus(418)),
  Connect: (middleware) =>
    connect()
      .use(middleware as never)
      .use((_req, res) => void res.writeHead(418).end()),
  'node:http': (middleware) => (req, res) => middleware(req, res, () => void res.writeHead(418).end()),
}

function callEcho(url: string, headers: Record<string, string> = {}): Promise<Response> {
  return fetch(url, {
    method: 'POST',
    headers: {
      'content-type': 'application/json',
      accept: 'application/json, text/event-stream',
      ...headers,
    },
    body: JSON.stringify({
      jsonrpc: '2.0',
      id: 1,
      method: 'tools/call',
      params: { name: 'echo', arguments: { text: 'hello' } },
    }),
  })
}

const AUTHORIZED = { authorization: 'Bearer good' }

describe('mcpServer()', () => {
  for (const [host, serve] of Object.entries(HOSTS)) {
    describe(`on ${host}`, () => {
      it(`mcpServer() serves MCP at the path of resource on ${host}`, async () => {
        const { origin } = await listen(
          serve(mcpServer(adapterFor({ resource: 'https://mcp.example.com/tools/mcp' }))),
        )
        const response = await callEcho(`${origin}/tools/mcp`, AUTHORIZED)
        expect(response.status).to.equal(200)
        expect(await response.text()).to.include('hello')
        expect((await callEcho(`${origin}/tools/mcp/`, AUTHORIZED)).status).to.equal(200)
      })

      it(`mcpServer() challenges requests without a token with the metadata URL that it serves on ${host}`, async () => {
        const { origin } = await listen(
          serve(mcpServer(adapterFor({ resource: 'https://mcp.example.com/tools/mcp' }))),
        )
        const refused = await callEcho(`${origin}/tools/mcp`)
        expect(refused.status).to.equal(401)
        expect(refused.headers.get('www-authenticate')).to.include(
          `resource_metadata="https://mcp.example.com${WELL_KNOWN}/tools/mcp"`,
        )
        for (const path of [WELL_KNOWN, `${WELL_KNOWN}/tools/mcp`]) {
          const document = await fetch(origin + path)
          expect(document.status).to.equal(200)
          expect(await document.json()).to.include({ resource: 'https://mcp.example.com/tools/mcp' })
        }
      })

      it(`mcpServer() passes requests for other paths on to the next middleware on ${host}`, async () => {
        const { origin } = await listen(
          serve(mcpServer(adapterFor({ resource: 'https://mcp.example.com/mcp' }))),
        )
        for (const path of ['/', '/mcp/more', '/mcpx', '/MCP', `${WELL_KNOWN}/other`]) {
          expect((await callEcho(origin + path, AUTHORIZED)).status, path).to.equal(418)
        }
      })
    })
  }

  it('mcpServer() responds to preflights of the endpoint and of the document', async () => {
    const { origin } = await listen(
      express().use(mcpServer(adapterFor({ resource: 'https://mcp.example.com/mcp' }))),
    )
    for (const path of ['/mcp', WELL_KNOWN]) {
      const response = await fetch(origin + path, {
        method: 'OPTIONS',
        headers: { origin: 'http://localhost:5173', 'access-control-request-method': 'POST' },
      })
      expect(response.status).to.equal(204)
      expect(response.headers.get('access-control-allow-origin')).to.equal('*')
    }
  })

  it('with allowedOrigins, exactly the matching origin may read responses of the endpoint, and every origin the document', async () => {
    const app = 'https://app.example.com'
    const adapter = createMcpAdapter({
      router,
      oauth: oauthOptions({ resource: 'https://mcp.example.com/mcp' }),
      allowedOrigins: [app, 'https://other.example.com'],
    })
    const { origin } = await listen(express().use(mcpServer(adapter)))
    for (const [path, from, allowed, status] of [
      ['/mcp', app, app, 401],
      ['/mcp', 'https://evil.example', null, 403],
      ['/mcp', undefined, null, 401],
      [WELL_KNOWN, 'https://evil.example', '*', 200],
    ] as const) {
      const headers = from === undefined ? {} : { origin: from }
      const response = await fetch(origin + path, { headers })
      expect(response.status).to.equal(status)
      expect(response.headers.get('access-control-allow-origin'), `${path} ${from}`).to.equal(allowed)
      if (path === '/mcp') expect(response.headers.get('vary')).to.match(/\bOrigin\b/)
    }
    const preflight = await fetch(`${origin}/mcp`, {
      method: 'OPTIONS',
      headers: { origin: app, 'access-control-request-method': 'POST' },
    })
    expect(preflight.status).to.equal(204)
    expect(preflight.headers.get('access-control-allow-origin')).to.equal(app)
    expect(preflight.headers.get('vary')).to.match(/Origin, ?Access-Control-Request-Headers/i)
  })

  it('mcpServer({ cors }) takes the options of mcpCors for the endpoint', async () => {
    const adapter = adapterFor({ resource: 'https://mcp.example.com/mcp' })
    const cors = { origin: /\.example\.com$/, allowedHosts: ['127.0.0.1'] }
    const { origin } = await listen(express().use(mcpServer(adapter, { cors })))
    for (const [path, from, allowed] of [
      ['/mcp', 'http://a.example.com', 'http://a.example.com'],
      ['/mcp', 'http://localhost:5173', null],
      [WELL_KNOWN, 'http://localhost:5173', '*'],
    ] as const) {
      const response = await fetch(origin + path, { headers: { origin: from } })
      expect(response.headers.get('access-control-allow-origin'), `${path} ${from}`).to.equal(allowed)
    }
    expect(() => mcpServer(adapter, { cors: { origins: '*' } as never })).to.throw(
      /mcpCors.* no option 'origins'/,
    )
  })

  for (const [what, oauth, path, endpoint] of [
    ['OAuth is off', undefined, undefined, '/mcp'],
    ['OAuth is off and a path is given', undefined, '/tools', '/tools'],
    ['resource is derived from the request', {}, undefined, '/mcp'],
    ['resource is derived from the request and a path is given', {}, '/tools', '/tools'],
    ['resource is an origin', { resource: 'https://mcp.example.com' }, undefined, '/'],
    ['resource ends with a slash', { resource: 'https://mcp.example.com/mcp/' }, undefined, '/mcp'],
  ] as const) {
    it(`mcpServer() serves MCP at ${endpoint} if ${what}`, async () => {
      const middleware = mcpServer(adapterFor(oauth), { path })
      const { origin } = await listen(express().use(middleware))
      expect((await callEcho(origin + endpoint, AUTHORIZED)).status).to.equal(200)
      expect((await callEcho(`${origin}/elsewhere`, AUTHORIZED)).status).to.equal(404)
      expect((await fetch(origin + WELL_KNOWN)).status).to.equal(oauth === undefined ? 404 : 200)
    })
  }

  it('mcpServer() resolves the option path against the path at which it is mounted', async () => {
    const { origin } = await listen(express().use('/api', mcpServer(adapterFor(), { path: '/mcp' })))
    expect((await callEcho(`${origin}/api/mcp`)).status).to.equal(200)
    expect((await callEcho(`${origin}/mcp`)).status).to.equal(404)
  })

  it('mcpServer() without later middleware responds with 404 to other paths', async () => {
    const middleware = mcpServer(adapterFor())
    const { origin } = await listen((req, res) => middleware(req, res))
    expect((await fetch(`${origin}/elsewhere`)).status).to.equal(404)
  })
})
