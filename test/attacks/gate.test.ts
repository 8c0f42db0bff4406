import { expect } from 'chai'
import express from 'express'
import { mcpAuth } from '../../src/express/mcp-auth.ts'
import { protectedResourceRouter } from '../../src/express/protected-resource-router.ts'
import { KitMcpRouter } from '../../src/mcp/router/router.ts'
import { createMcpAdapter } from '../../src/mcp/server.ts'
import type { OAuthOptions } from '../../src/oauth/options.ts'
import { introspectionVerifier } from '../../src/oauth/verifiers/introspection.ts'
import { jwtVerifier } from '../../src/oauth/verifiers/jwt.ts'
import { attackTable } from '../support/attacks/attack-table.ts'
import { expectConfigError } from '../support/config-error.ts'
import { gatedApp, oauthOptions } from '../support/gate-app.ts'
import { listen } from '../support/listen.ts'
import { rawRequest } from '../support/raw-http.ts'

const HOST = 'Host: mcp.example.com'

describe('attacks on the gate', () => {
  describe('client addresses', () => {
    const rateLimit = { points: 1, durationSeconds: 60 }

    /** The answers to refused requests from one socket address, one for each `X-Forwarded-For` that Express believes. */
    async function forwarded(...addresses: readonly string[]): Promise<number[]> {
      const app = express()
        .set('trust proxy', true)
        .use(gatedApp(oauthOptions({ rateLimit })))
      const { port } = await listen(app)
      const statuses: number[] = []
      for (const address of addresses) {
        const headers = [HOST, `X-Forwarded-For: ${address}`]
        statuses.push((await rawRequest(port, { headers })).status)
      }
      return statuses
    }

    const NO_ADDRESSES = [
      ...['unknown', '_hidden', 'localhost', '"', '%', '[', '[]', '[::1', '::gg', '1.2.3', '1.2.3.4.5'],
      ...['999.1.1.1', '1.2.3.4/8', '0x7f000001', '1.2.3.4:port', 'x'.repeat(10_000), '1'.repeat(10_000)],
    ]
    const rotation: readonly (readonly [
      what: string,
      addresses: readonly string[],
      statuses: readonly number[],
    ])[] = [
      ['addresses of one IPv6 /64', ['2001:db8::1', '2001:DB8:0:0:1:2:3:4'], [401, 429]],
      ['one IPv6 address with and without a zone and a port', ['fe80::1%eth0', '[fe80::2%1]:80'], [401, 429]],
      [
        'one IPv4 address, also mapped to IPv6',
        ['192.0.2.1', '::ffff:192.0.2.1', '::ffff:c000:201'],
        [401, 429, 429],
      ],
      ['one IPv4 address with many ports', ['192.0.2.1:1', '192.0.2.1:2'], [401, 429]],
      ['addresses of two IPv6 networks', ['2001:db8:0:1::1', '2001:db8:0:2::1'], [401, 401]],
    ]
    attackTable('client addresses', [
      ...NO_ADDRESSES.map((address) => ({
        attack: `another text for an address at each request, such as ${address.slice(0, 20)}`,
        outcome: 'the address of the socket is limited',
        run: async () => {
          expect(await forwarded(address, `${address}x`, `${address}, 192.0.2.1`)).to.deep.equal([
            401, 429, 429,
          ])
        },
      })),
      ...rotation.map(([attack, addresses, statuses]) => ({
        attack,
        outcome: statuses.join(', '),
        run: async () => {
          expect(await forwarded(...addresses)).to.deep.equal(statuses)
        },
      })),
      {
        attack: 'an address that is text, which another framework left on req.ip',
        outcome: 'the address of the socket is limited',
        run: async () => {
          const gate = mcpAuth(oauthOptions({ rateLimit }))
          let requests = 0
          const { port } = await listen((req, res) => {
            Object.assign(req, { ip: requests++ % 2 === 0 ? `client ${requests}` : requests })
            gate(req, res)
          })
          const statuses: number[] = []
          for (let times = 0; times < 4; times++)
            statuses.push((await rawRequest(port, { headers: [HOST] })).status)
          expect(statuses).to.deep.equal([401, 429, 429, 429])
        },
      },
      {
        attack: 'texts and addresses of one /64 for the clientAddress of the web-standard handler',
        outcome: 'each is limited',
        run: async () => {
          const clientAddress = (request: Request) => request.headers.get('x-real-ip') ?? undefined
          const oauth = oauthOptions({ rateLimit, clientAddress })
          const { server } = createMcpAdapter({ router: KitMcpRouter.create(), oauth })
          const ask = async (address: string) =>
            (await server(new Request('https://mcp.example.com/mcp', { headers: { 'x-real-ip': address } })))
              .status
          expect([await ask('evil'), await ask('evil-2'), await ask('1, 2')]).to.deep.equal([401, 429, 429])
          expect([await ask('2001:db8::1'), await ask('2001:db8::2')]).to.deep.equal([401, 429])
        },
      },
    ])
  })

  describe('metadata documents', () => {
    const PATH = '/.well-known/oauth-protected-resource'
    const PUBLIC = 'public, max-age=3600'
    type Changes = Partial<OAuthOptions>
    const FIXED: Changes = { resource: 'https://mcp.example.com/mcp' }
    const cases: readonly (readonly [
      what: string,
      changes: Changes,
      target: string,
      cacheControl: string,
    ])[] = [
      ['a document derived from Host', {}, PATH, 'no-store'],
      ['a document derived from Host, in the form with a path', {}, `${PATH}/mcp`, 'no-store'],
      ['a document derived from X-Forwarded-Host', { trustProxy: true }, PATH, 'no-store'],
      [
        'a document of a resource that a function names',
        { resource: () => 'https://mcp.example.com/mcp' },
        PATH,
        'no-store',
      ],
      ['a document where the function names none', { resource: () => undefined }, PATH, 'no-store'],
      ['a document of a fixed resource', FIXED, PATH, PUBLIC],
      ['a document of a fixed resource, in the form with a path', FIXED, `${PATH}/mcp`, PUBLIC],
    ]

    attackTable(
      'caches of metadata documents',
      cases.map(([attack, changes, target, cacheControl]) => ({
        attack,
        outcome: cacheControl,
        run: async () => {
          const oauth = oauthOptions(changes)
          const serve = protectedResourceRouter(oauth)
          const { port } = await listen((req, res) => serve(req, res))
          const headers = [HOST, 'X-Forwarded-Host: evil.example']
          for (const method of ['GET', 'HEAD']) {
            const whole = await rawRequest(port, { method, target, headers })
            expect([whole.status, whole.header('cache-control')]).to.deep.equal([200, cacheControl])
            const match = `If-None-Match: ${whole.header('etag')}`
            const unchanged = await rawRequest(port, { method, target, headers: [...headers, match] })
            expect([unchanged.status, unchanged.header('cache-control')]).to.deep.equal([304, cacheControl])
          }
          const { auth } = createMcpAdapter({ router: KitMcpRouter.create(), oauth })
          const response = await auth.resource(new Request(`https://evil.example${target}`))
          expect([response.status, response.headers.get('cache-control')]).to.deep.equal([200, cacheControl])
        },
      })),
    )
  })

  describe('issuers', () => {
    const audience = 'https://mcp.example.com/mcp'
    const takers: Readonly<Record<string, readonly [option: string, build: (issuer: string) => unknown]>> = {
      'the gate': ['issuer', (issuer) => mcpAuth(oauthOptions({ issuer }))],
      'the list of the gate': [
        'authorizationServers',
        (issuer) => mcpAuth(oauthOptions({ authorizationServers: ['https://auth.example.com', issuer] })),
      ],
      jwtVerifier: ['issuer', (issuer) => jwtVerifier({ issuer, audience })],
      'the list of jwtVerifier': [
        'issuers',
        (issuer) => jwtVerifier({ issuers: ['https://auth.example.com', issuer], audience }),
      ],
      introspectionVerifier: [
        'issuer',
        (issuer) =>
          introspectionVerifier({
            ...{ endpoint: 'https://auth.example.com/introspect', clientId: 'mcp', clientSecret: 'secret' },
            ...{ issuer, audience },
          }),
      ],
    }
    attackTable(
      'issuers with a query or a fragment',
      Object.entries(takers).flatMap(([taker, [option, build]]) =>
        ['?', '?a=b', '/tenant?', '?#', '#', '/#x?y'].map((suffix) => ({
          attack: `${taker}: https://auth.example.com${suffix}`,
          outcome: `a configuration error that names ${option}`,
          run: () => {
            const code = 'MCP_CONFIG_INVALID_OPTION'
            const message = suffix.includes('#') ? /must not carry a fragment/ : /must not carry a query/
            expectConfigError(() => build(`https://auth.example.com${suffix}`), { code, option, message })
            expect(() => build('https://auth.example.com/tenant')).not.to.throw()
          },
        })),
      ),
    )
  })
})
