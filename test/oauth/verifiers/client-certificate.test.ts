import { createHash, X509Certificate } from 'node:crypto'
import { once } from 'node:events'
import { connect as connectHttp2, createSecureServer } from 'node:http2'
import {
  Agent,
  createServer,
  request as httpsRequest,
  type RequestOptions,
  type ServerOptions,
} from 'node:https'
import type { AddressInfo } from 'node:net'
import type { TLSSocket } from 'node:tls'
import { expect } from 'chai'
import express from 'express'
import { cachedVerifier, firstMatch, jwtVerifier, KitMcpRouter, mcpAuth } from '../../../src/index.ts'
import { createMcpAdapter } from '../../../src/mcp/adapter.ts'
import type { VerifyToken } from '../../../src/oauth/options.ts'
import { introspectionVerifier } from '../../../src/oauth/verifiers/introspection.ts'
import { createAuthority, type IssuedCertificate } from '../../support/certificates.ts'
import { gatedApp, oauthOptions } from '../../support/gate-app.ts'
import { listen } from '../../support/listen.ts'
import {
  AUDIENCE,
  createSigningKey,
  ISSUER,
  nowSeconds,
  type SigningKey,
  signToken,
} from '../../support/tokens.ts'

type Source = 'tls' | ((request: Request) => X509Certificate | Buffer | string | undefined)

/** For values that do not compile. */
type Wrong = any

const authority = createAuthority()
const server = authority.issue('server')
const ada = authority.issue('ada')
const eve = authority.issue('eve')

const rawOf = ({ cert }: IssuedCertificate): Buffer => new X509Certificate(cert).raw
const thumbprintOf = (certificate: IssuedCertificate): string =>
  createHash('sha256').update(rawOf(certificate)).digest('base64url')

const BOUND = { 'x5t#S256': thumbprintOf(ada) }

const closers: (() => void)[] = []

const serverOptions = {
  ...server,
  ca: authority.cert,
  requestCert: true,
  rejectUnauthorized: false,
  maxVersion: 'TLSv1.3',
} as const

/** Serves the gate over TLS, and asks clients for a certificate. */
async function overTls(verifyToken: VerifyToken, options: ServerOptions = {}): Promise<number> {
  const started = createServer({ ...serverOptions, ...options }, gatedApp({ issuer: ISSUER, verifyToken }))
  started.listen(0, '127.0.0.1')
  await once(started, 'listening')
  closers.push(() => {
    started.close()
    started.closeAllConnections()
  })
  return (started.address() as AddressInfo).port
}

/** Sends the token with the certificate of a client, on a connection of its own. */
async function statusOf(
  port: number,
  token: string,
  client?: IssuedCertificate,
  options: RequestOptions = {},
  onSecure: (socket: TLSSocket) => void = () => undefined,
): Promise<number> {
  const request = httpsRequest({
    host: '127.0.0.1',
    port,
    path: '/mcp',
    agent: false,
    ca: authority.cert,
    ...client,
    ...options,
    headers: { authorization: `Bearer ${token}` },
  })
  request.once('socket', (socket) => socket.once('secureConnect', () => onSecure(socket as TLSSocket)))
  request.end()
  const [response] = await once(request, 'response')
  response.resume()
  await once(response, 'end')
  return response.statusCode
}

/** A verifier of this package, and a way to make a token with a `cnf`. */
interface Kind {
  readonly name: string
  make(clientCertificate: Source | undefined): Promise<{
    readonly verifier: VerifyToken
    /** Returns a token with these claims. */
    token(claims: object): Promise<string>
    /** The number of verifications, if they can be counted. */
    readonly count: () => number
  }>
}

/** The claims of opaque tokens. */
const known = new Map<string, object>()

let key: SigningKey
const KINDS: readonly Kind[] = [
  {
    name: 'jwtVerifier()',
    async make(clientCertificate) {
      let count = 0
      const verifier = jwtVerifier({
        issuer: ISSUER,
        audience: AUDIENCE,
        publicKey: key.jwk,
        clientCertificate,
        mapUser: (claims) => {
          count++
          return claims.sub
        },
      })
      return { verifier, token: (claims) => signToken(key, { ...claims }), count: () => count }
    },
  },
  {
    name: 'introspectionVerifier()',
    async make(clientCertificate) {
      let count = 0
      const { origin } = await listen(
        express().use(express.urlencoded({ extended: false }), (req, res) => {
          count++
          res.json({ active: true, aud: AUDIENCE, exp: nowSeconds() + 300, ...known.get(req.body.token) })
        }),
      )
      const verifier = introspectionVerifier({
        endpoint: origin,
        clientId: 'mcp',
        clientSecret: 'S',
        audience: AUDIENCE,
        clientCertificate,
      })
      const token = async (claims: object): Promise<string> => {
        known.set(`token${known.size}`, claims)
        return `token${known.size - 1}`
      }
      return { verifier, token, count: () => count }
    },
  },
]

describe('clientCertificate', () => {
  afterEach(async () => {
    for (const close of closers.splice(0)) close()
    await new Promise(setImmediate)
    expect(rejections).to.deep.equal([])
  })

  const rejections: unknown[] = []
  const note = (reason: unknown): void => void rejections.push(reason)
  before(async () => {
    process.on('unhandledRejection', note)
    key = await createSigningKey('RS256', 'a')
  })
  after(() => process.off('unhandledRejection', note))

  for (const { name, make } of KINDS) {
    describe(`clientCertificate of ${name}`, () => {
      const rows: readonly (readonly [
        what: string,
        claims: object,
        client: IssuedCertificate | undefined,
        status: 200 | 401,
      ])[] = [
        ['a bound token with its certificate', { cnf: BOUND }, ada, 200],
        ['a bound token with the certificate of another client', { cnf: BOUND }, eve, 401],
        ['a bound token without a certificate', { cnf: BOUND }, undefined, 401],
        ['a token that is not bound, with a certificate', {}, ada, 200],
        ['a token that is not bound, without a certificate', {}, undefined, 200],
        ['a token with an empty cnf', { cnf: {} }, ada, 200],
        ['a token that is also bound to a key', { cnf: { ...BOUND, jkt: 'a' } }, ada, 401],
        ['a token that is bound to a key', { cnf: { jkt: BOUND['x5t#S256'] } }, ada, 401],
        ['a token with an unknown binding', { cnf: { own: BOUND['x5t#S256'] } }, ada, 401],
        ['a bound token with an unknown member', { cnf: { ...BOUND, own: 1 } }, ada, 200],
        ['a thumbprint that is empty', { cnf: { 'x5t#S256': '' } }, undefined, 401],
        ['a thumbprint that is null', { cnf: { 'x5t#S256': null } }, undefined, 401],
        ['a thumbprint in a list', { cnf: { 'x5t#S256': [BOUND['x5t#S256']] } }, ada, 401],
        [
          'a thumbprint in hex',
          { cnf: { 'x5t#S256': createHash('sha256').update(rawOf(ada)).digest('hex') } },
          ada,
          401,
        ],
        ['a thumbprint with padding', { cnf: { 'x5t#S256': `${BOUND['x5t#S256']}=` } }, ada, 401],
      ]
      for (const [what, claims, client, status] of rows) {
        it(`${name} with clientCertificate tls ${status === 200 ? 'accepts' : 'rejects'} ${what}`, async () => {
          const { verifier, token } = await make('tls')
          expect(await statusOf(await overTls(verifier), await token(claims), client)).to.equal(status)
        })
      }

      it(`${name} without clientCertificate rejects a bound token with its certificate`, async () => {
        const { verifier, token } = await make(undefined)
        expect(await statusOf(await overTls(verifier), await token({ cnf: BOUND }), ada)).to.equal(401)
      })

      it(`${name} with clientCertificate tls accepts a bound token with its certificate only over TLS 1.2`, async () => {
        const { verifier, token } = await make('tls')
        const [port, bound] = [await overTls(verifier), await token({ cnf: BOUND })]
        expect(await statusOf(port, bound, ada, { maxVersion: 'TLSv1.2' })).to.equal(200)
        expect(await statusOf(port, bound, eve, { maxVersion: 'TLSv1.2' })).to.equal(401)
      })

      it(`${name} with clientCertificate tls accepts a bound token on a resumed TLS session`, async () => {
        const { verifier, token } = await make('tls')
        const [port, bound] = [await overTls(verifier), await token({ cnf: BOUND })]
        const agent = new Agent({ maxVersion: 'TLSv1.2' })
        const reused: boolean[] = []
        for (let round = 0; round < 2; round++) {
          const onSecure = (socket: TLSSocket): void => void reused.push(socket.isSessionReused())
          expect(await statusOf(port, bound, ada, { agent }, onSecure)).to.equal(200)
        }
        expect(reused).to.deep.equal([false, true])
        agent.destroy()
      })

      it(`${name} with clientCertificate tls rejects a bound token over http`, async () => {
        const { verifier, token } = await make('tls')
        const { origin } = await listen(gatedApp({ issuer: ISSUER, verifyToken: verifier }))
        const headers = { authorization: `Bearer ${await token({ cnf: BOUND })}` }
        expect((await fetch(`${origin}/mcp`, { headers })).status).to.equal(401)
      })

      it(`${name} with clientCertificate tls rejects a bound token at the web-standard handler`, async () => {
        const { verifier, token } = await make('tls')
        const { server: handler } = createMcpAdapter({
          router: KitMcpRouter.create(),
          oauth: { issuer: ISSUER, verifyToken: verifier },
        })
        const headers = { authorization: `Bearer ${await token({ cnf: BOUND })}` }
        expect((await handler(new Request('https://localhost/mcp', { headers }))).status).to.equal(401)
      })

      const sources: readonly (readonly [what: string, source: Source, status: 200 | 401])[] = [
        ['an X509Certificate', () => new X509Certificate(ada.cert), 200],
        ['DER', () => rawOf(ada), 200],
        ['PEM', () => ada.cert, 200],
        ['PEM of a request header', ({ headers }) => decodeURIComponent(headers.get('x-cert') ?? ''), 200],
        ['another certificate', () => eve.cert, 401],
        ['the other certificate first', () => eve.cert + ada.cert, 401],
        ['undefined', () => undefined, 401],
        ['null', (() => null) as Wrong, 401],
        ['an empty string', () => '', 401],
        ['a string that is not PEM', () => 'x'.repeat(1_000), 401],
        ['the thumbprint', () => BOUND['x5t#S256'], 401],
        ['bytes that are not DER', () => Buffer.alloc(1_000, 0x30), 401],
        ['cut DER', () => rawOf(ada).subarray(0, -1), 401],
        ['a key', () => ada.key, 401],
        ['an object with raw', (() => ({ raw: rawOf(ada) })) as Wrong, 401],
        ['true', (() => true) as Wrong, 401],
        ['a promise of the certificate', (async () => ada.cert) as Wrong, 401],
        ['a promise that rejects', (async () => Promise.reject(new Error('a'))) as Wrong, 401],
        [
          'an error',
          () => {
            throw new Error('secret')
          },
          401,
        ],
      ]
      for (const [what, source, status] of sources) {
        const outcome = status === 200 ? 'accepts' : 'rejects'
        it(`${name} with a function as clientCertificate that returns ${what} ${outcome} a bound token`, async () => {
          const { verifier, token } = await make(source)
          const { origin } = await listen(gatedApp({ issuer: ISSUER, verifyToken: verifier }))
          const headers = {
            authorization: `Bearer ${await token({ cnf: BOUND })}`,
            'x-cert': encodeURIComponent(ada.cert),
          }
          expect((await fetch(`${origin}/mcp`, { headers })).status).to.equal(status)
        })
      }

      it(`cachedVerifier(${name}) accepts a bound token with its certificate only, and verifies it once`, async () => {
        const { verifier, token, count } = await make('tls')
        const [port, bound] = [await overTls(cachedVerifier(verifier)), await token({ cnf: BOUND })]
        for (let round = 0; round < 3; round++) {
          expect(await statusOf(port, bound, ada)).to.equal(200)
          if (round === 0) expect(count()).to.equal(1)
        }
        expect(count()).to.equal(1)
        for (const client of [eve, undefined]) expect(await statusOf(port, bound, client)).to.equal(401)
        expect(await statusOf(port, bound, ada)).to.equal(200)
      })

      it(`cachedVerifier(${name}) verifies a token that is bound to no certificate once for all clients`, async () => {
        const { verifier, token, count } = await make('tls')
        const [port, unbound] = [await overTls(cachedVerifier(verifier)), await token({})]
        for (const client of [ada, eve, undefined])
          expect(await statusOf(port, unbound, client)).to.equal(200)
        expect(count()).to.equal(1)
      })

      it(`cachedVerifier(firstMatch(${name})) verifies a bound token with its certificate once`, async () => {
        const { verifier, token, count } = await make('tls')
        const cached = cachedVerifier(firstMatch(async () => undefined, verifier))
        const [port, bound] = [await overTls(cached), await token({ cnf: BOUND })]
        for (let round = 0; round < 3; round++) expect(await statusOf(port, bound, ada)).to.equal(200)
        expect(count()).to.equal(1)
        expect(await statusOf(port, bound, eve)).to.equal(401)
      })

      it(`cachedVerifier(${name}) does not let a request with another certificate join a verification`, async () => {
        const { verifier, token } = await make('tls')
        const port = await overTls(cachedVerifier(verifier))
        for (let round = 0; round < 3; round++) {
          const bound = await token({ cnf: BOUND, jti: String(round) })
          const clients = [undefined, ada, eve, ada, undefined, eve]
          const statuses = await Promise.all(clients.map((client) => statusOf(port, bound, client)))
          expect(statuses).to.deep.equal([401, 200, 401, 200, 401, 401])
        }
      })

      it(`cachedVerifier() of a function that calls ${name} accepts a bound token with its certificate only`, async () => {
        const { verifier, token } = await make('tls')
        const port = await overTls(cachedVerifier(async (input) => await verifier({ ...input })))
        const bound = await token({ cnf: BOUND })
        for (const [client, status] of [
          [ada, 200],
          [eve, 401],
          [undefined, 401],
          [ada, 200],
        ] as const)
          expect(await statusOf(port, bound, client)).to.equal(status)
      })

      it(`firstMatch() of a verifier without clientCertificate and ${name} accepts a bound token with its certificate only`, async () => {
        const [without, { verifier, token }] = [await make(undefined), await make('tls')]
        for (const wrapped of [
          firstMatch(without.verifier, verifier),
          cachedVerifier(firstMatch(without.verifier, verifier)),
          firstMatch(cachedVerifier(without.verifier), cachedVerifier(verifier)),
        ]) {
          const [port, bound] = [await overTls(wrapped), await token({ cnf: BOUND })]
          for (const [client, status] of [
            [ada, 200],
            [eve, 401],
            [undefined, 401],
            [ada, 200],
          ] as const)
            expect(await statusOf(port, bound, client)).to.equal(status)
        }
      })
    })
  }

  describe('clientCertificate: other verifiers and HTTP/2', () => {
    it('a server that requires certificates of its authority accepts a bound token with its certificate only', async () => {
      const { verifier, token } = await (KINDS[0] as Kind).make('tls')
      const port = await overTls(verifier, { rejectUnauthorized: true })
      const bound = await token({ cnf: BOUND })
      expect(await statusOf(port, bound, ada)).to.equal(200)
      expect(await statusOf(port, bound, eve)).to.equal(401)
      const stranger = createAuthority('stranger').issue('ada')
      const refused = await statusOf(port, bound, stranger).catch(
        (error: NodeJS.ErrnoException) => error.code,
      )
      expect(refused).to.be.a('string')
    })

    it('a bound token that a verifier of the application accepts is rejected', async () => {
      for (const cnf of [BOUND, { 'x5t#S256': undefined }, { 'x5t#S256': '' }]) {
        const port = await overTls(() => ({ valid: true, cnf }))
        expect(await statusOf(port, 'good', ada)).to.equal(401)
      }
    })

    it('a token of the Bearer scheme that introspection calls a DPoP token is rejected with its certificate', async () => {
      const { verifier, token } = await (KINDS[1] as Kind).make('tls')
      const bound = await token({ cnf: BOUND, token_type: 'DPoP' })
      expect(await statusOf(await overTls(verifier), bound, ada)).to.equal(401)
    })

    it('a bound token is accepted with its certificate over HTTP/2 only', async () => {
      const { verifier, token } = await (KINDS[0] as Kind).make('tls')
      const gate = mcpAuth(oauthOptions({ verifyToken: verifier }))
      const started = createSecureServer(serverOptions, (req, res) =>
        gate(req as Wrong, res as Wrong, () => res.end('passed')),
      )
      started.listen(0, '127.0.0.1')
      await once(started, 'listening')
      closers.push(() => started.close())
      const bound = await token({ cnf: BOUND })
      for (const [client, status] of [
        [ada, 200],
        [eve, 401],
        [undefined, 401],
      ] as const) {
        const session = connectHttp2(`https://127.0.0.1:${(started.address() as AddressInfo).port}`, {
          ca: authority.cert,
          ...client,
        })
        const stream = session.request({ ':path': '/mcp', authorization: `Bearer ${bound}` })
        const [headers] = await once(stream, 'response')
        expect(headers[':status']).to.equal(status)
        session.destroy()
      }
    })
  })
})
