import { expect } from 'chai'
import express from 'express'
import { protectedResourceRouter } from '../../src/express/protected-resource-router.ts'
import { createMcpAdapter, jwtVerifier, KitMcpRouter, mcpAuth, type OAuthOptions } from '../../src/index.ts'
import { introspectionVerifier } from '../../src/oauth/verifiers/introspection.ts'
import { look, startTarget } from '../support/cli/doctor-target.ts'
import { expectConfigError } from '../support/config-error.ts'
import { gatedApp, oauthOptions } from '../support/gate-app.ts'
import { listen } from '../support/listen.ts'
import { rawRequest } from '../support/raw-http.ts'

const HOST = 'Host: mcp.example.com'

describe('attacks on the gate', () => {
  describe('client addresses', () => {
    const rateLimit = { points: 1, durationSeconds: 60 }

    /** Returns the responses to rejected requests from one socket address, one per `X-Forwarded-For` that Express trusts. */
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
    for (const address of NO_ADDRESSES)
      it(`client addresses: a different string for the address in each request, such as ${address.slice(0, 20)}: the address of the socket is limited`, async () => {
        expect(await forwarded(address, `${address}x`, `${address}, 192.0.2.1`)).to.deep.equal([
          401, 429, 429,
        ])
      })

    for (const [attack, addresses, statuses] of rotation)
      it(`client addresses: ${attack}: ${statuses.join(', ')}`, async () => {
        expect(await forwarded(...addresses)).to.deep.equal(statuses)
      })

    it('client addresses: an invalid address that another framework sets as req.ip: the address of the socket is limited', async () => {
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
    })

    it('client addresses: invalid addresses, and addresses of one /64, as clientAddress of the web-standard handler: each is limited', async () => {
      const clientAddress = (request: Request) => request.headers.get('x-real-ip') ?? undefined
      const oauth = oauthOptions({ rateLimit, clientAddress })
      const { server } = createMcpAdapter({ router: KitMcpRouter.create(), oauth })
      const ask = async (address: string) =>
        (await server(new Request('https://mcp.example.com/mcp', { headers: { 'x-real-ip': address } })))
          .status
      expect([await ask('evil'), await ask('evil-2'), await ask('1, 2')]).to.deep.equal([401, 429, 429])
      expect([await ask('2001:db8::1'), await ask('2001:db8::2')]).to.deep.equal([401, 429])
    })
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

    for (const [attack, changes, target, cacheControl] of cases)
      it(`caches of metadata documents: ${attack}: ${cacheControl}`, async () => {
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
      })
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
    for (const [taker, [option, build]] of Object.entries(takers))
      for (const suffix of ['?', '?a=b', '/tenant?', '?#', '#', '/#x?y'])
        it(`issuers with a query or a fragment: ${taker}: https://auth.example.com${suffix}: a configuration error that names ${option}`, () => {
          const code = 'MCP_CONFIG_INVALID_OPTION'
          const message = suffix.includes('#') ? /must not contain a fragment/ : /must not contain a query/
          expectConfigError(() => build(`https://auth.example.com${suffix}`), { code, option, message })
          expect(() => build('https://auth.example.com/tenant')).not.to.throw()
        })
  })

  describe("secrets of the doctor's user", () => {
    const SECRET = 'hunter2hunter2'

    interface Lure {
      /** Changes to the metadata of the examined server. */
      readonly resource?: (document: Record<string, unknown>, evil: string) => void
      /** Changes to the metadata of the authorization server that it names. */
      readonly server?: (document: Record<string, unknown>, evil: string) => void
      /** The `--issuer` option of the user, who knows the genuine authorization server. */
      readonly issuer?: (genuine: string) => string | undefined
      /** If it is missing, the user has a registered client, but no secret. */
      readonly secret?: false
    }

    /** Signs in at a server with changed metadata. Returns everything that the attacker has received. */
    async function lured({ resource, server, issuer = (genuine) => genuine, secret }: Lure) {
      const received: string[] = []
      const evil = await listen((req, res) => {
        const chunks: Buffer[] = []
        req.on('data', (chunk) => chunks.push(chunk))
        req.on('end', () => {
          received.push(`${req.url} ${JSON.stringify(req.headers)} ${Buffer.concat(chunks)}`)
          if (req.url?.startsWith('/.well-known/')) {
            const [issuer, code_challenge_methods_supported] = [evil.origin, ['S256']]
            const endpoints = { authorization_endpoint: `${issuer}/login`, token_endpoint: `${issuer}/token` }
            res.end(JSON.stringify({ issuer, ...endpoints, code_challenge_methods_supported }))
            return
          }
          res.writeHead(307, { location: `${evil.origin}/again` }).end()
        })
      })
      const target = await startTarget({
        alter: (answer, { path }) => {
          if (!path.startsWith('/.well-known/')) return
          const document = JSON.parse(answer.body)
          resource?.(document, evil.origin)
          answer.body = JSON.stringify(document)
        },
        issuer: (document) => server?.(document, evil.origin),
      })
      const visits: Promise<unknown>[] = []
      const report = await look(target.url, {
        login: {
          redirectPort: 0,
          clientId: 'me',
          issuer: issuer(target.issuer),
          ...(secret !== false && { clientSecret: SECRET }),
        },
        print: (text) => {
          const asked = new URL(/https?:\/\/\S+/.exec(text)?.[0] ?? '').searchParams
          const answer = new URLSearchParams({ code: 'the-code', state: asked.get('state') ?? '' })
          visits.push(fetch(`${asked.get('redirect_uri')}?${answer}`))
        },
      })
      await Promise.all(visits)
      const login = report.checks.find(({ id }) => id === 'token.login')
      return {
        received: received.join('\n'),
        login,
        visitCount: visits.length,
        printed: JSON.stringify(report),
      }
    }

    const named = (document: Record<string, unknown>, evil: string): void => {
      document.authorization_servers = [evil]
    }
    const lures: Readonly<Record<string, Lure>> = {
      'an authorization server of its own': { resource: named },
      'an authorization server of its own before the genuine one': {
        resource: (document, evil) => {
          document.authorization_servers = [evil, ...(document.authorization_servers as string[])]
        },
        issuer: () => 'https://auth.example.com',
      },
      'an authorization server of its own, for a user without --issuer': {
        resource: named,
        issuer: () => undefined,
      },
      'the genuine authorization server, for a user without --issuer': { issuer: () => undefined },
      'an authorization server that begins like the genuine one': {
        resource: (document) => {
          document.authorization_servers = [`${document.authorization_servers}.evil.example`]
        },
      },
      'an authorization server whose metadata has another issuer': {
        server: (document, evil) => {
          document.issuer = evil
          document.token_endpoint = `${evil}/token`
        },
      },
      'a resource elsewhere, whose token it would get': {
        resource: (document) => {
          document.resource = 'https://bank.example/mcp'
        },
      },
      'a resource elsewhere, for a user without a secret': {
        resource: (document) => {
          document.resource = 'https://bank.example/mcp'
        },
        secret: false,
      },
      'a resource elsewhere, for a user without a secret and --issuer': {
        resource: (document, evil) => {
          document.resource = `${evil}/mcp`
        },
        secret: false,
        issuer: () => undefined,
      },
    }
    for (const [what, lure] of Object.entries(lures))
      it(`secrets of the doctor's user: the examined server names ${what}: the doctor prints no sign-in URL, and sends no secret`, async () => {
        const { received, login, visitCount, printed } = await lured(lure)
        expect(visitCount).to.equal(0)
        expect(login?.status).to.be.oneOf(['fail', 'skip'])
        for (const text of [received, printed]) expect(text).not.to.contain(SECRET)
        // The check of CORS sends a token request with nothing but its grant type, and the checks of flaws send an
        // authorization request of a client that does not exist.
        const others = received.split('\n').filter((text) => !text.includes('client_id=mcp-gatekit-doctor-'))
        expect(others.join('\n')).not.to.match(
          /the-code|authorization":|code_verifier|client_id|client_secret|redirect_uri/,
        )
      })

    it('secrets are sent to the authorization server of --issuer, but not to a URL to which it redirects', async () => {
      for (const spelling of [(genuine: string) => genuine, (genuine: string) => `${genuine}/`]) {
        const { received, visitCount, login } = await lured({
          issuer: spelling,
          server: (document, evil) => {
            document.token_endpoint = `${evil}/token`
          },
        })
        expect(visitCount).to.equal(1)
        expect(login?.status).to.equal('fail')
        const basic = Buffer.from(`me:${SECRET}`).toString('base64')
        expect(received).to.contain(`Basic ${basic}`).and.to.contain('the-code')
        expect(received).not.to.contain('/again')
      }
    })
  })
})
