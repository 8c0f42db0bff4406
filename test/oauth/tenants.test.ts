import { expect } from 'chai'
import express, { type RequestHandler } from 'express'
import { protectedResourceRouter } from '../../src/express/protected-resource-router.ts'
import { jwtVerifier, KitMcpRouter, mcpAuth, mcpHandler, mcpServer } from '../../src/index.ts'
import { createMcpAdapter } from '../../src/mcp/adapter.ts'
import type { VerifyTokenInput } from '../../src/oauth/gate-values.ts'
import { type OAuthOptions, resolveOAuthOptions } from '../../src/oauth/options.ts'
import { createTestIssuer } from '../../src/testing/test-issuer.ts'
import { parseChallenge } from '../support/challenge.ts'
import { gatedApp, oauthOptions } from '../support/gate-app.ts'
import { listen } from '../support/listen.ts'
import { rawRequest } from '../support/raw-http.ts'

const ROOT = '/.well-known/oauth-protected-resource'

/** Tenants by host: `a.example.com` is the resource `https://a.example.com/mcp`. */
const byHost = (request: Request) => `https://${new URL(request.url).hostname}/mcp`

/** Tenants by path: `/a/mcp` and everything below is the resource `https://mcp.example.com/a/mcp`. */
const byPath = (request: Request) => {
  const tenant = /^\/([a-z]+)\/mcp/.exec(new URL(request.url).pathname)?.[1]
  return tenant === undefined ? undefined : `https://mcp.example.com/${tenant}/mcp`
}

/** An application with a gate at every path, and the documents of its resources. */
function tenantsApp(oauth: OAuthOptions) {
  const router = protectedResourceRouter(oauth) as RequestHandler
  return express()
    .use(router)
    .use(gatedApp(oauth, { path: '/' }))
}

describe('resource as a function of the request', () => {
  const issuer = createTestIssuer()
  const audience = ['a', 'b'].flatMap((tenant) => [
    `https://${tenant}.example.com/mcp`,
    `https://mcp.example.com/${tenant}/mcp`,
  ])
  const verifyToken = jwtVerifier({ ...issuer.verifierOptions, audience })
  const options = (resource: NonNullable<OAuthOptions['resource']>) =>
    oauthOptions({ issuer: issuer.issuer, verifyToken, resource })

  const ways = [
    {
      name: 'host',
      resource: byHost,
      where: (tenant: string) => [`Host: ${tenant}.example.com`, '/mcp'] as const,
    },
    { name: 'path', resource: byPath, where: (tenant: string) => ['Host: any', `/${tenant}/mcp`] as const },
  ]
  for (const { name, resource, where } of ways) {
    describe(`by ${name}`, () => {
      const uri = (tenant: string) =>
        name === 'host' ? `https://${tenant}.example.com/mcp` : `https://mcp.example.com/${tenant}/mcp`

      it(`a token is accepted only at the resource that it was issued for, with tenants by ${name}`, async () => {
        const { port } = await listen(tenantsApp(options(resource)))
        const token = await issuer.issueToken({ audience: uri('a') })
        for (const [tenant, status] of [
          ['a', 200],
          ['b', 401],
        ] as const) {
          const [host, target] = where(tenant)
          const response = await rawRequest(port, {
            headers: [host, `Authorization: Bearer ${token}`],
            target,
          })
          expect(response.status, tenant).to.equal(status)
          if (status === 401)
            expect(response.body).to.include('The access token was issued for another resource')
        }
      })

      it(`a challenge names the document of the resource, which is served there, with tenants by ${name}`, async () => {
        const { port } = await listen(tenantsApp(options(resource)))
        for (const tenant of ['a', 'b', 'a']) {
          const [host, target] = where(tenant)
          const refused = await rawRequest(port, { headers: [host], target })
          const { resource_metadata: url = '' } = parseChallenge(refused.header('www-authenticate') ?? '')
          const { origin, pathname } = new URL(uri(tenant))
          expect(url).to.equal(`${origin}${ROOT}${pathname}`)
          const document = await rawRequest(port, { headers: [host], target: new URL(url).pathname })
          expect(document.status).to.equal(200)
          expect(JSON.parse(document.body).resource).to.equal(uri(tenant))
          const etag = document.header('etag')
          const again = await rawRequest(port, {
            headers: [host, `If-None-Match: ${etag}`],
            target: new URL(url).pathname,
          })
          expect(again.status).to.equal(304)
        }
      })
    })
  }

  it('the document of tenants by host has the root form, and other paths are passed on', async () => {
    const app = express()
      .use(protectedResourceRouter(options(byHost)) as RequestHandler)
      .use((_, res) => void res.status(299).end())
    const { port } = await listen(app)
    const get = (target: string) => rawRequest(port, { headers: ['Host: a.example.com'], target })
    expect(JSON.parse((await get(ROOT)).body).resource).to.equal('https://a.example.com/mcp')
    expect(await get(`${ROOT}/mcp`)).to.include({ status: 200 })
    for (const path of ['/other', '/mcp/x', '/mcp/'])
      expect(await get(ROOT + path)).to.include({ status: 299 })
  })

  it('a function as resource gets the URL of the resource and the headers of the request', async () => {
    const asked: (readonly [string, string | null])[] = []
    const resource = (request: Request) => {
      asked.push([request.url, request.headers.get('x-tenant')])
      return undefined
    }
    const { port } = await listen(tenantsApp(options(resource)))
    for (const target of [ROOT, `${ROOT}/a/mcp?x=y`, '/a/mcp?x=y']) {
      await rawRequest(port, { headers: ['Host: mcp.example.com', 'X-Tenant: a'], target })
    }
    expect(asked.slice(0, 3)).to.deep.equal([
      ['http://mcp.example.com/', 'a'],
      ['http://mcp.example.com/a/mcp', 'a'],
      ['http://mcp.example.com/a/mcp?x=y', 'a'],
    ])
  })

  it('the resource of a function is known to a verifier that gets a copy of the input', async () => {
    const copies: ((input: VerifyTokenInput) => VerifyTokenInput)[] = [
      (input) => ({ ...input }),
      ({ request, bearerToken, context }) => ({ request, bearerToken, context }),
    ]
    const token = await issuer.issueToken({ audience: [...audience] })
    const expired = await issuer.issueToken({ audience: [...audience], expiresIn: -60 })
    for (const copy of copies) {
      const oauth = {
        ...options(byHost),
        verifyToken: async (input: VerifyTokenInput) => verifyToken(copy(input)),
      }
      const { port } = await listen(tenantsApp(oauth))
      for (const tenant of ['a', 'b']) {
        const headers = [`Host: ${tenant}.example.com`]
        const ask = (one: string) =>
          rawRequest(port, { headers: [...headers, `Authorization: Bearer ${one}`], target: '/mcp' })
        expect(await ask(token)).to.include({ status: 200 })
        expect(JSON.parse((await ask(expired)).body).error_description).to.equal(
          'The access token has expired',
        )
      }
    }
  })

  it('a function as resource that returns undefined selects the URL of the request', async () => {
    const { port } = await listen(tenantsApp(options(() => undefined)))
    const headers = ['Host: mcp.example.com']
    const { body } = await rawRequest(port, { headers, target: `${ROOT}/a/mcp` })
    expect(JSON.parse(body).resource).to.equal('http://mcp.example.com/a/mcp')
    const refused = await rawRequest(port, { headers, target: '/a/mcp' })
    expect(parseChallenge(refused.header('www-authenticate') ?? '').resource_metadata).to.equal(
      `http://mcp.example.com${ROOT}/a/mcp`,
    )
    const good = await issuer.issueToken({ audience: audience[0] as string })
    expect(
      await rawRequest(port, { headers: [...headers, `Authorization: Bearer ${good}`], target: '/a/mcp' }),
    ).to.include({ status: 200 })
  })

  it('a function as resource that throws or returns an invalid URI gets a 500 without details', async () => {
    for (const resource of [
      () => {
        throw new Error('secret of a tenant')
      },
      () => '/mcp',
      () => 'http://mcp.example.com/mcp',
      () => null as never,
      () => 5 as never,
      () => 'https://mcp.example.com/a"b\u00e9',
      async () => 'https://mcp.example.com/mcp',
      () => Promise.reject(new Error('secret of a tenant')),
    ]) {
      const { port } = await listen(tenantsApp(options(resource as () => string)))
      const token = await issuer.issueToken({ audience: audience[0] as string })
      for (const target of ['/mcp', ROOT]) {
        for (const authorization of [[], [`Authorization: Bearer ${token}`]]) {
          const response = await rawRequest(port, { headers: ['Host: a', ...authorization], target })
          expect(response.status).to.equal(500)
          expect(response.body).to.equal('{"error":"server_error"}')
          expect(response.header('www-authenticate')).to.equal(undefined)
        }
      }
    }
  })

  it('the resource of a function is checked by adapters in both handlers, and named in a 403', async () => {
    const router = KitMcpRouter.create()
    const oauth: OAuthOptions = { ...options(byHost), scopes: ['mcp:read'] }
    const adapter = createMcpAdapter({ router, oauth })
    const token = await issuer.issueToken({ audience: 'https://a.example.com/mcp' })
    const headers = { authorization: `Bearer ${token}`, accept: 'text/event-stream' }
    const { port } = await listen(
      express().use('/mcp', mcpAuth(adapter) as RequestHandler, mcpHandler(adapter) as RequestHandler),
    )
    for (const [tenant, status, error] of [
      ['a', 403, 'insufficient_scope'],
      ['b', 401, 'invalid_token'],
    ] as const) {
      const web = await adapter.server(new Request(`https://${tenant}.example.com/mcp`, { headers }))
      const node = await rawRequest(port, {
        headers: [`Host: ${tenant}.example.com`, `Authorization: Bearer ${token}`],
      })
      for (const [got, challenge] of [
        [web.status, web.headers.get('www-authenticate')],
        [node.status, node.header('www-authenticate')],
      ] as const) {
        expect(got).to.equal(status)
        expect(parseChallenge(challenge ?? '')).to.include({
          error,
          resource_metadata: `https://${tenant}.example.com${ROOT}`,
        })
      }
    }
    for (const [path, status] of [
      [ROOT, 200],
      [`${ROOT}/mcp`, 200],
      [`${ROOT}/other`, 404],
      ['/mounted/elsewhere', 200],
    ] as const) {
      const document = await adapter.auth.resource(new Request(`https://a.example.com${path}`))
      expect(document.status, path).to.equal(status)
      if (status === 200) expect(await document.json()).to.include({ resource: 'https://a.example.com/mcp' })
    }
  })

  it('a function as resource is called for every request, with any number of resources', async () => {
    const { resourceOf } = resolveOAuthOptions(options((request) => request.headers.get('x') as string))
    const of = (uri: string) => resourceOf?.(new Request('http://localhost', { headers: { x: uri } }))
    for (let tenant = 0; tenant < 3_000; tenant++) {
      const uri = `https://mcp.example.com/${tenant}`
      expect(of(uri)).to.equal(uri)
    }
    expect(() => of('nothing')).to.throw(/resource must be an absolute URL/)
  })

  it('a function as resource that throws only for the challenge leaves out the document', async () => {
    let times = 0
    const resource = () => {
      times++
      if (times > 1) throw new Error('no longer')
      return undefined
    }
    const { port } = await listen(gatedApp(options(resource)))
    const response = await rawRequest(port, { headers: ['Host: a'] })
    expect(response.status).to.equal(401)
    expect(parseChallenge(response.header('www-authenticate') ?? '')).not.to.have.property(
      'resource_metadata',
    )
  })
})

describe('authorizationServers as a function of the request', () => {
  const servers = (request: Request) => {
    const [tenant] = new URL(request.url).hostname.split('.')
    return tenant === 'mcp' ? undefined : [`https://${tenant}.login.example.org`]
  }
  const MCP = 'https://mcp.example.com/mcp'
  const documents: readonly (readonly [what: string, oauth: Partial<OAuthOptions>, target: string])[] = [
    ['a fixed resource', { resource: MCP }, ROOT],
    ['the suffixed form of a fixed resource', { resource: MCP }, `${ROOT}/mcp`],
    ['a resource by request', { resource: byHost }, ROOT],
    ['the suffixed form of a resource by request', { resource: byHost }, `${ROOT}/mcp`],
    ['the URL of the request', {}, `${ROOT}/mcp`],
  ]
  for (const [what, oauth, target] of documents) {
    it(`the document of ${what} names the servers of the host, and is not stored`, async () => {
      const app = tenantsApp(oauthOptions({ ...oauth, authorizationServers: servers }))
      const { port } = await listen(app)
      for (const [host, expected] of [
        ['a.example.com', 'https://a.login.example.org'],
        ['b.example.com', 'https://b.login.example.org'],
        ['a.example.com', 'https://a.login.example.org'],
        ['mcp.example.com', 'https://auth.example.com'],
      ] as const) {
        const response = await rawRequest(port, { headers: [`Host: ${host}`], target })
        expect(response.status).to.equal(200)
        expect(response.header('cache-control')).to.equal('no-store')
        expect(JSON.parse(response.body).authorization_servers).to.deep.equal([expected])
        const etag = response.header('etag')
        const again = await rawRequest(port, {
          headers: [`Host: ${host}`, `If-None-Match: ${etag}`],
          target,
        })
        expect(again.status).to.equal(304)
      }
    })
  }

  it('a function for authorizationServers gets the URL that the document describes and the headers', async () => {
    const asked: (readonly [string, string | null])[] = []
    const authorizationServers = (request: Request) => {
      asked.push([request.url, request.headers.get('x-tenant')])
      return undefined
    }
    const headers = ['Host: a.example.com', 'X-Tenant: a']
    for (const resource of [MCP, undefined]) {
      const { port } = await listen(tenantsApp(oauthOptions({ resource, authorizationServers })))
      await rawRequest(port, { headers, target: `${ROOT}/mcp?x=y` })
      // Nothing but the document needs the list.
      await rawRequest(port, { headers, target: '/mcp' })
    }
    expect(asked).to.deep.equal([
      ['http://a.example.com/mcp', 'a'],
      ['http://a.example.com/mcp', 'a'],
    ])
  })

  it('a function for authorizationServers that throws or returns an invalid list gets a 500 without details', async () => {
    for (const authorizationServers of [
      () => {
        throw new Error('secret of a tenant')
      },
      () => [],
      () => null,
      () => 'https://auth.example.com',
      () => ['http://auth.example.com'],
      () => ['https://auth.example.com', 5],
      () => ['https://auth.example.com?x'],
      async () => ['https://auth.example.com'],
      () => Promise.reject(new Error('secret of a tenant')),
    ]) {
      const oauth = oauthOptions({ resource: MCP, authorizationServers: authorizationServers as never })
      const { port } = await listen(tenantsApp(oauth))
      const response = await rawRequest(port, { headers: ['Host: a'], target: ROOT })
      expect(response.status).to.equal(500)
      expect(response.body).to.equal('{"error":"server_error"}')
      const refused = await rawRequest(port, { headers: ['Host: a'], target: '/mcp' })
      expect(refused.status).to.equal(401)
    }
  })

  it('the document of a function for authorizationServers is the same in both handlers', async () => {
    const router = KitMcpRouter.create()
    const oauth = oauthOptions({ resource: MCP, authorizationServers: servers })
    const adapter = createMcpAdapter({ router, oauth })
    const { port } = await listen(express().use(mcpServer(adapter) as RequestHandler))
    const web = await adapter.auth.resource(new Request(`https://a.example.com${ROOT}/mcp`))
    const node = await rawRequest(port, { headers: ['Host: a.example.com'], target: `${ROOT}/mcp` })
    expect(await web.json()).to.deep.equal(JSON.parse(node.body))
    expect(JSON.parse(node.body).authorization_servers).to.deep.equal(['https://a.login.example.org'])
  })

  it('a request without a valid host gets no document from a function for authorizationServers', async () => {
    const oauth = oauthOptions({ resource: MCP, authorizationServers: servers })
    const { port } = await listen(tenantsApp(oauth))
    const response = await rawRequest(port, { headers: ['Host: a b'], target: ROOT })
    expect(response.status).to.equal(404)
  })

  it('a copy of the metadata excludes a function for authorizationServers', () => {
    const oauth = oauthOptions({ resource: MCP, authorizationServers: servers })
    expect(() => protectedResourceRouter(oauth, { authorizationServerMetadata: true })).to.throw(
      /^authorizationServerMetadata must not be set if authorizationServers is a function\. Remove the option, or set/,
    )
  })
})

describe('signedMetadata', () => {
  const RESOURCE = 'https://mcp.example.com/mcp'
  const jwt = (claims: object) =>
    [{ alg: 'ES256' }, claims, {}]
      .map((part) => Buffer.from(JSON.stringify(part)).toString('base64url'))
      .join('.')

  it('signedMetadata is part of the document', async () => {
    const signedMetadata = jwt({ iss: 'https://signer.example.com', resource: RESOURCE })
    const { origin } = await listen(tenantsApp(oauthOptions({ resource: RESOURCE, signedMetadata })))
    expect(await (await fetch(`${origin}${ROOT}`)).json()).to.deep.equal({
      resource: RESOURCE,
      authorization_servers: ['https://auth.example.com'],
      bearer_methods_supported: ['header'],
      signed_metadata: signedMetadata,
    })
  })

  const iss = 'https://signer.example.com'
  for (const [what, signedMetadata, resource] of [
    ['not a JWT', 'signed', RESOURCE],
    ['of unreadable claims', 'a.b.c', RESOURCE],
    ['without iss', jwt({ resource: RESOURCE }), RESOURCE],
    ['about another resource', jwt({ iss, resource: `${RESOURCE}/` }), RESOURCE],
    ['about no resource', jwt({ iss }), RESOURCE],
    ['given without a resource', jwt({ iss, resource: RESOURCE }), undefined],
    ['given with a function for a resource', jwt({ iss, resource: RESOURCE }), () => RESOURCE],
    ['a function', () => jwt({ iss, resource: RESOURCE }), RESOURCE],
  ] as const) {
    it(`signedMetadata throws if it is ${what}`, () => {
      expect(() => mcpAuth(oauthOptions({ signedMetadata: signedMetadata as string, resource }))).to.throw(
        /^signedMetadata must be a JWT/,
      )
    })
  }
})
