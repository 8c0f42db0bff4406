import { createServer, type RequestListener } from 'node:http'
import { inspect } from 'node:util'
import { expect } from 'chai'
import { decodeJwt, generateKeyPair } from 'jose'
import { PrivateKeyJwt } from 'oauth4webapi'
import { listen, stop } from '../../examples/listen.ts'
import { AuthInfo, createMcpAdapter, jwtVerifier, KitToolError } from '../../src/index.ts'
import { toolsFromOpenApi } from '../../src/openapi/index.ts'
import {
  UpstreamConsentError,
  type UpstreamTokenOptions,
  UpstreamUnavailableError,
  upstreamToken,
} from '../../src/upstream/index.ts'
import { freePort } from '../support/free-port.ts'
import { CLAIMS, type Entra, startEntra } from '../support/upstream/entra.ts'
import {
  API,
  EXCHANGE,
  type ExchangeServer,
  formOf,
  MCP,
  startExchangeServer,
} from '../support/upstream/exchange-server.ts'

const HOUR = 3_600
const nowSeconds = (): number => Math.floor(Date.now() / 1000)

/** Returns the `auth` of a request. */
function authOf(
  token: string,
  {
    user = 'ada',
    clientId = 'desktop',
    scopes = ['mcp:read'],
    expiresAt = nowSeconds() + HOUR,
  }: { user?: string; clientId?: string; scopes?: string[]; expiresAt?: number | undefined } = {},
): AuthInfo {
  return AuthInfo.of(
    token,
    { clientId, scopes, expiresAt, resource: undefined, user: { id: user }, extra: {} },
    'iss:https://auth.example.com',
  )
}

/** A JWT without a valid signature, for the stand-in that does not verify it. */
function tokenOf(sub: string, claims: object = {}): string {
  const part = (value: object) => Buffer.from(JSON.stringify(value)).toString('base64url')
  return `${part({ alg: 'RS256' })}.${part({ sub, ...claims })}.signature`
}

async function errorOf(promise: Promise<unknown>): Promise<any> {
  try {
    await promise
  } catch (error) {
    return error
  }
  throw new Error('The promise did not reject.')
}

/** A token endpoint whose responses a test decides. */
interface FakeEndpoint {
  readonly url: string
  readonly forms: URLSearchParams[]
  readonly headers: Record<string, unknown>[]
  respond: (form: URLSearchParams, count: number) => { status?: number; body: unknown; headers?: object }
}

describe('upstreamToken', () => {
  const closing: (() => Promise<unknown>)[] = []
  afterEach(async () => {
    for (const close of closing.splice(0).reverse()) await close()
  })

  async function serve(listener: RequestListener): Promise<string> {
    const http = createServer(listener)
    const port = await listen(http, 0)
    closing.push(() => stop(http))
    return `http://127.0.0.1:${port}`
  }

  async function fakeEndpoint(): Promise<FakeEndpoint> {
    const fake: FakeEndpoint = {
      url: '',
      forms: [],
      headers: [],
      respond: (_form, count) => ({
        body: { access_token: `upstream-${count}`, token_type: 'Bearer', expires_in: HOUR },
      }),
    }
    const origin = await serve(async (req, res) => {
      const form = await formOf(req)
      fake.forms.push(form)
      fake.headers.push(req.headers)
      const { status = 200, body, headers = {} } = fake.respond(form, fake.forms.length)
      res.writeHead(status, { 'Content-Type': 'application/json', ...headers })
      res.end(typeof body === 'string' ? body : JSON.stringify(body))
    })
    return Object.assign(fake, { url: `${origin}/token` })
  }

  const exchangeAt = (tokenEndpoint: string, more: Partial<UpstreamTokenOptions> = {}) =>
    upstreamToken({
      tokenEndpoint,
      clientId: 'mcp-server',
      clientSecret: 's3cret value',
      style: 'token-exchange',
      ...more,
    })

  describe('with an authorization server that supports RFC 8693', () => {
    let server: ExchangeServer
    beforeEach(async () => {
      server = await startExchangeServer()
      closing.push(server.close)
    })
    const optionsFor = (more: Partial<UpstreamTokenOptions> = {}): UpstreamTokenOptions => ({
      issuer: server.issuer,
      clientId: server.clientId,
      clientSecret: server.clientSecret,
      style: 'token-exchange',
      audience: API,
      ...more,
    })

    it('a token of the user is exchanged for one of the API that names the same user', async () => {
      const { token, expiresAt } = await upstreamToken(optionsFor({ scope: 'events:write' })).for(
        authOf(await server.issue('ada')),
      )
      expect(decodeJwt(token)).to.include({ aud: API, sub: 'ada', scope: 'events:write', iss: server.issuer })
      expect(expiresAt).to.be.within(nowSeconds() + 595, nowSeconds() + 601)
      const [form] = server.exchanges
      expect(form?.get('requested_token_type')).to.equal('urn:ietf:params:oauth:token-type:access_token')
    })

    it('a token that the authorization server rejects is an UpstreamConsentError with the scopes to ask for', async () => {
      const tokens = upstreamToken(optionsFor({ scope: ['events:read', 'events:write'] }))
      const error = await errorOf(tokens.for(authOf(tokenOf('ada'))))
      expect(UpstreamConsentError.is(error)).to.equal(true)
      expect(error).to.deep.include({ error: 'invalid_grant', scopes: ['events:read', 'events:write'] })
      expect(KitToolError.is(error)).to.equal(true)
    })

    it('an audience that the authorization server does not know is an error without the token and the secret', async () => {
      const incoming = await server.issue('ada')
      const error = await errorOf(
        upstreamToken(optionsFor({ audience: 'https://other.example.com' })).for(authOf(incoming)),
      )
      expect(error.message).to.contain('invalid_target')
      expect(KitToolError.is(error)).to.equal(false)
      const everything = [error, error.cause].map((one) => `${one} ${one?.stack} ${JSON.stringify(one)}`)
      expect(everything.join()).to.not.contain(incoming).and.not.contain(server.clientSecret)
    })

    it('toolsFromOpenApi calls a protected API with the token of the user, and never with that of the client', async () => {
      const received: (string | undefined)[] = []
      const api = await serve(async (req, res) => {
        received.push(req.headers.authorization)
        const verify = jwtVerifier({ issuer: server.issuer, audience: API })
        const bearerToken = req.headers.authorization?.replace('Bearer ', '')
        const verified = await verify({ bearerToken, context: {} } as never)
        res.writeHead(verified === undefined ? 401 : 200, { 'Content-Type': 'application/json' })
        res.end(JSON.stringify({ user: (verified?.user as { id?: string } | undefined)?.id }))
      })
      const schema = { type: 'object', properties: { user: { type: 'string' } } }
      const responses = { 200: { description: 'ok', content: { 'application/json': { schema } } } }
      const router = await toolsFromOpenApi(
        {
          openapi: '3.1.0',
          info: { title: 'API', version: '1' },
          paths: { '/me': { get: { operationId: 'me', responses } } },
        },
        { baseUrl: api, headers: upstreamToken(optionsFor()).headers },
      )
      const verifyToken = jwtVerifier({ issuer: server.issuer, audience: MCP })
      const adapter = createMcpAdapter({
        router,
        oauth: { issuer: server.issuer, resource: MCP, verifyToken },
      })
      const incoming = await server.issue('grace')
      const response = await adapter.handler(
        new Request(MCP, {
          method: 'POST',
          headers: {
            authorization: `Bearer ${incoming}`,
            'content-type': 'application/json',
            accept: 'application/json, text/event-stream',
          },
          body: JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'tools/call', params: { name: 'me' } }),
        }),
      )
      expect(await response.text()).to.contain('grace')
      expect(received).to.have.length(1)
      expect(received[0]).to.not.contain(incoming)
    })
  })

  describe('with the on-behalf-of flow of Microsoft Entra ID', () => {
    let entra: Entra
    let tokens: ReturnType<typeof upstreamToken>
    beforeEach(async () => {
      entra = await startEntra('mcp-app', 'entra secret')
      closing.push(entra.close)
      tokens = upstreamToken({
        tokenEndpoint: entra.tokenEndpoint,
        clientId: 'mcp-app',
        clientSecret: 'entra secret',
        style: 'entra-obo',
        scope: 'https://graph.microsoft.com/User.Read',
      })
    })

    it('a token of a user who has consented is exchanged for one of the API', async () => {
      const { token, expiresAt } = await tokens.for(authOf(tokenOf('consented')))
      expect(token).to.equal('graph-token-of-consented')
      expect(expiresAt).to.be.within(nowSeconds() + 3_590, nowSeconds() + 3_600)
    })

    for (const [user, error, claims] of [
      ['needs-consent', 'invalid_grant', undefined],
      ['needs-mfa', 'interaction_required', CLAIMS],
      ['signed-out', 'invalid_grant', undefined],
    ] as const) {
      it(`the refusal of the user ${user} is an UpstreamConsentError with ${error}, without the token`, async () => {
        const incoming = tokenOf(user)
        const refused = await errorOf(tokens.for(authOf(incoming, { user })))
        expect(refused).to.be.instanceOf(UpstreamConsentError)
        expect({ error: refused.error, claims: refused.claims, scopes: refused.scopes }).to.deep.equal({
          error,
          claims,
          scopes: ['https://graph.microsoft.com/User.Read'],
        })
        expect(`${refused.stack} ${refused.cause?.stack}`).to.not.contain(incoming)
      })
    }
  })

  describe('the cache', () => {
    it('a token is requested once, for calls one after the other and at the same time', async () => {
      const fake = await fakeEndpoint()
      const tokens = exchangeAt(fake.url)
      const auth = authOf('incoming')
      const first = await Promise.all(Array.from({ length: 20 }, () => tokens.for(auth)))
      const later = await tokens.for(auth)
      expect(new Set([...first, later].map(({ token }) => token))).to.deep.equal(new Set(['upstream-1']))
      expect(fake.forms).to.have.length(1)
    })

    for (const [difference, other] of [
      ['user', { user: 'grace' }],
      ['client', { clientId: 'browser' }],
      ['granted scopes', { scopes: [] }],
    ] as const) {
      it(`requests that differ in the ${difference} get tokens of their own`, async () => {
        const fake = await fakeEndpoint()
        const tokens = exchangeAt(fake.url)
        const [one, two] = [
          await tokens.for(authOf('a')),
          await tokens.for(authOf('a', other as { user?: string })),
        ]
        expect(one?.token).to.not.equal(two?.token)
        expect(fake.forms.map((form) => form.get('subject_token'))).to.deep.equal(['a', 'a'])
      })
    }

    it('a new token of the same user with the same claims uses what the old one has obtained', async () => {
      const fake = await fakeEndpoint()
      const tokens = exchangeAt(fake.url)
      const passing = (at: number) => ({ exp: at + HOUR, iat: at, nbf: at, jti: String(at), auth_time: at })
      await tokens.for(authOf(tokenOf('ada', { org: { id: 'a', ...passing(1) }, ...passing(1) })))
      await tokens.for(authOf(tokenOf('ada', { ...passing(2), org: { ...passing(2), id: 'a' } })))
      expect(fake.forms).to.have.length(1)
    })

    for (const [claim, one, another] of [
      ['organization', { org_id: 'a' }, { org_id: 'b' }],
      ['strength of the sign-in', { acr: 'mfa' }, { acr: 'pwd' }],
      ['actor', { act: { sub: 'agent' } }, {}],
      [
        'authorization details',
        { authorization_details: [{ type: 'accounts', all: true }] },
        { authorization_details: [{ type: 'accounts', id: 42 }] },
      ],
      ['order of a list', { groups: ['a', 'b'] }, { groups: ['b', 'a'] }],
      [
        'large number that JSON parsers round',
        { org_id: 9_007_199_254_740_992 },
        { org_id: 9_007_199_254_740_992 },
      ],
    ] as const) {
      it(`two tokens of a user that differ in the ${claim} get tokens of their own, also at the same time and from the store`, async () => {
        const fake = await fakeEndpoint()
        const values = new Map<string, string>()
        const store = {
          get: async (key: string) => values.get(key),
          set: async (key: string, value: string) => void values.set(key, value),
          delete: async () => undefined,
        }
        const incoming = [tokenOf('ada', one), tokenOf('ada', { ...another, jti: 'other' })]
        for (let node = 0; node < 2; node++) {
          const tokens = exchangeAt(fake.url, { cache: { store } })
          const obtained = await Promise.all(incoming.map((token) => tokens.for(authOf(token))))
          expect(obtained[0]?.token).to.not.equal(obtained[1]?.token)
          for (const [index, token] of incoming.entries())
            if (!claim.includes('number'))
              expect((await tokens.for(authOf(token))).token).to.equal(obtained[index]?.token)
        }
        expect(fake.forms).to.have.length(claim.includes('number') ? 4 : 2)
      })
    }

    it('two opaque tokens of a user get tokens of their own, because their claims are not known', async () => {
      const fake = await fakeEndpoint()
      const tokens = exchangeAt(fake.url)
      for (const token of ['opaque-a', 'opaque-b', 'opaque-a', 'x.opaque.b', 'x.opaque.c'])
        await tokens.for(authOf(token))
      expect(fake.forms).to.have.length(4)
    })

    for (const [which, upstreamSeconds, incomingSeconds] of [
      ['the upstream token has expired', 1, HOUR],
      ['the incoming token has expired', HOUR, 1],
      ['the authorization server names no expiry', undefined, HOUR],
    ] as const) {
      it(`a token is requested again when ${which}`, async () => {
        const fake = await fakeEndpoint()
        fake.respond = (_form, count) => ({
          body: { access_token: `upstream-${count}`, token_type: 'bearer', expires_in: upstreamSeconds },
        })
        const tokens = exchangeAt(fake.url)
        const incoming = authOf(tokenOf('ada'), { expiresAt: nowSeconds() + incomingSeconds })
        const { expiresAt } = await tokens.for(incoming)
        if (upstreamSeconds === undefined) expect(expiresAt).to.equal(undefined)
        const until = Date.now() + 2_100
        const realNow = Date.now
        Date.now = () => until
        try {
          await tokens.for(authOf(tokenOf('ada', { jti: 'b' })))
        } finally {
          Date.now = realNow
        }
        expect(fake.forms).to.have.length(2)
      })
    }

    it('beyond maxEntries, the tokens that were not used for the longest time are requested again', async () => {
      const fake = await fakeEndpoint()
      const tokens = exchangeAt(fake.url, { cache: { maxEntries: 2 } })
      for (const user of ['a', 'b', 'c', 'c', 'b', 'a']) await tokens.for(authOf(user, { user }))
      expect(fake.forms.map((form) => form.get('subject_token'))).to.deep.equal(['a', 'b', 'c', 'a'])
    })

    it('a failed exchange is not cached', async () => {
      const fake = await fakeEndpoint()
      fake.respond = (_form, count) =>
        count === 1
          ? { status: 503, body: {}, headers: { 'Retry-After': '7' } }
          : { body: { access_token: 'fine', token_type: 'Bearer', expires_in: HOUR } }
      const tokens = exchangeAt(fake.url)
      const error = await errorOf(tokens.for(authOf('a')))
      expect(error).to.include({ name: 'UpstreamUnavailableError', retryAfterSeconds: 7 })
      expect((await tokens.for(authOf('a'))).token).to.equal('fine')
    })

    it('a valid token is exchanged although the exchange of an older token of the user fails meanwhile', async () => {
      const fake = await fakeEndpoint()
      const revoked = tokenOf('ada', { jti: 'revoked' })
      fake.respond = (form) =>
        form.get('subject_token') === revoked
          ? { status: 400, body: { error: 'invalid_grant' } }
          : { body: { access_token: 'fine', token_type: 'Bearer', expires_in: HOUR } }
      const tokens = exchangeAt(fake.url)
      const [old, current] = await Promise.allSettled([
        tokens.for(authOf(revoked)),
        tokens.for(authOf(tokenOf('ada', { jti: 'ok' }))),
      ])
      expect(old.status).to.equal('rejected')
      expect(current).to.deep.include({ status: 'fulfilled' })
    })
  })

  describe('the shared store', () => {
    function memoryStore() {
      const values = new Map<string, { value: string; ttlMs: number }>()
      return {
        values,
        get: async (key: string) => values.get(key)?.value,
        set: async (key: string, value: string, { ttlMs }: { ttlMs: number }) =>
          void values.set(key, { value, ttlMs }),
        delete: async (key: string) => void values.delete(key),
      }
    }

    it('two nodes share a token, which the store holds encrypted under a key that does not name the user', async () => {
      const fake = await fakeEndpoint()
      const store = memoryStore()
      const nodes = [exchangeAt(fake.url, { cache: { store } }), exchangeAt(fake.url, { cache: { store } })]
      const user = 'ada@example.com'
      for (const node of nodes)
        expect((await node.for(authOf('incoming-token', { user }))).token).to.equal('upstream-1')
      expect(fake.forms).to.have.length(1)
      expect(store.values.size).to.equal(1)
      const [[key, { value, ttlMs }]] = [...store.values] as [[string, { value: string; ttlMs: number }]]
      for (const secret of [user, 'incoming-token', 'upstream-1']) {
        expect(key + Buffer.from(value, 'base64url').toString('latin1') + value).to.not.contain(secret)
      }
      expect(ttlMs).to.be.within(HOUR * 900, HOUR * 1_000)
    })

    for (const [upstreamSeconds, incomingSeconds, keptSeconds] of [
      [60, HOUR, 54],
      [600, HOUR, 570],
      [HOUR, 2 * HOUR, HOUR - 30],
      [600, 100, 100],
    ] as const)
      it(`the store keeps a token of ${upstreamSeconds} s for ${keptSeconds} s if that of the client expires in ${incomingSeconds} s`, async () => {
        const fake = await fakeEndpoint()
        fake.respond = () => ({
          body: { access_token: 'fine', token_type: 'Bearer', expires_in: upstreamSeconds },
        })
        const store = memoryStore()
        const auth = authOf('incoming', { expiresAt: nowSeconds() + incomingSeconds })
        await exchangeAt(fake.url, { cache: { store } }).for(auth)
        const [{ ttlMs = 0 } = {}] = [...store.values.values()]
        expect(ttlMs).to.be.within((keptSeconds - 4) * 1_000, keptSeconds * 1_000)
      })

    for (const [trouble, broken] of [
      [
        'fails',
        { get: () => Promise.reject(new Error('down')), set: () => Promise.reject(new Error('down')) },
      ],
      [
        'throws',
        {
          get: () => {
            throw new Error('down')
          },
        },
      ],
      ['returns garbage', { get: async () => 'garbage' }],
      ['returns a number', { get: async () => 5 as never }],
      ['never answers', { get: () => new Promise<never>(() => {}) }],
    ] as const) {
      it(`a token is requested if the store ${trouble}`, async () => {
        const fake = await fakeEndpoint()
        const store = { ...memoryStore(), ...broken }
        const { token } = await exchangeAt(fake.url, { cache: { store } }).for(authOf('a'))
        expect(token).to.equal('upstream-1')
      })
    }

    it('a value that another secret encrypted, or that was moved to another user, is not used', async () => {
      const fake = await fakeEndpoint()
      const store = memoryStore()
      await exchangeAt(fake.url, { cache: { store } }).for(authOf('a'))
      const [value] = [...store.values.values()] as [{ value: string; ttlMs: number }]
      await exchangeAt(fake.url, { cache: { store, secret: 'another secret' } }).for(authOf('a'))
      await exchangeAt(fake.url, { cache: { store } }).for(authOf('b', { user: 'b' }))
      for (const key of store.values.keys()) store.values.set(key, value)
      await exchangeAt(fake.url, { cache: { store } }).for(authOf('b', { user: 'b' }))
      expect(fake.forms).to.have.length(4)
    })
  })

  describe('responses of the token endpoint', () => {
    const good = { access_token: 'fine', token_type: 'Bearer', expires_in: HOUR }
    for (const [what, response, expected] of [
      ['status 500', { status: 500, body: {} }, UpstreamUnavailableError],
      ['status 429', { status: 429, body: {} }, UpstreamUnavailableError],
      [
        'a redirect',
        { status: 302, body: {}, headers: { Location: 'http://127.0.0.1:1/' } },
        UpstreamUnavailableError,
      ],
      ['HTML', { body: '<html>', headers: { 'Content-Type': 'text/html' } }, UpstreamUnavailableError],
      ['JSON without a token', { body: { token_type: 'Bearer' } }, UpstreamUnavailableError],
      ['more than 1 MiB', { body: { ...good, more: 'x'.repeat(1_100_000) } }, UpstreamUnavailableError],
      ['a DPoP token', { body: { ...good, token_type: 'DPoP' } }, UpstreamUnavailableError],
      [
        'a refresh token as the issued type',
        { body: { ...good, issued_token_type: 'urn:ietf:params:oauth:token-type:refresh_token' } },
        UpstreamUnavailableError,
      ],
      ['a token with a line break', { body: { ...good, access_token: 'a\r\nb' } }, UpstreamUnavailableError],
      ['the incoming token', { body: { ...good, access_token: 'incoming' } }, UpstreamUnavailableError],
      [
        'temporarily_unavailable',
        { status: 400, body: { error: 'temporarily_unavailable' } },
        UpstreamUnavailableError,
      ],
      ['consent_required', { status: 400, body: { error: 'consent_required' } }, UpstreamConsentError],
      ['invalid_client', { status: 401, body: { error: 'invalid_client' } }, Error],
      ['a challenge', { status: 401, body: {}, headers: { 'WWW-Authenticate': 'Basic realm="x"' } }, Error],
      ['unauthorized_client', { status: 400, body: { error: 'unauthorized_client' } }, Error],
      [
        'an error that repeats the request',
        {
          status: 400,
          body: {
            error: 'bad s3cret value',
            error_description: 'subject_token=incoming&client_secret=s3cret+value or s3cret%20value',
          },
        },
        Error,
      ],
    ] as const) {
      it(`${what} is an ${expected.name} that does not contain the token or the secret`, async () => {
        const fake = await fakeEndpoint()
        fake.respond = () => response as never
        const error = await errorOf(exchangeAt(fake.url).for(authOf('incoming')))
        expect(error.constructor).to.equal(expected)
        const printed = [error, error.cause].map((one) => `${one?.stack} ${JSON.stringify(one)}`).join()
        expect(printed)
          .to.not.contain('s3cret')
          .and.not.match(/\bincoming\b/)
      })
    }

    for (const [what, response, message] of [
      ['status 408', { status: 408, body: {} }, 'the token endpoint responded with 408'],
      ['status 429', { status: 429, body: {} }, 'the token endpoint responded with 429'],
      ['status 500', { status: 500, body: {} }, 'the token endpoint responded with 500'],
      [
        'status 499 with an error',
        { status: 499, body: { error: 'unauthorized_client' } },
        'the token endpoint responded with "unauthorized_client"',
      ],
      [
        'an error with a description',
        { status: 400, body: { error: 'invalid_scope', error_description: 'x'.repeat(600) } },
        `the token endpoint responded with "invalid_scope": ${'x'.repeat(500)}`,
      ],
      [
        'a long error',
        { status: 400, body: { error: 'e'.repeat(200) } },
        `the token endpoint responded with "${'e'.repeat(100)}"`,
      ],
      [
        'a challenge',
        { status: 401, body: {}, headers: { 'WWW-Authenticate': 'Basic realm="x"' } },
        'the token endpoint rejected the credentials of this server',
      ],
      ['a DPoP token', { body: { ...good, token_type: 'DPoP' } }, 'the token is not a Bearer token'],
      [
        'a token of 65 537 characters',
        { body: { ...good, access_token: 'x'.repeat(65_537) } },
        'the token cannot be sent in a header',
      ],
    ] as const)
      it(`the error for ${what} says what the token endpoint responded`, async () => {
        const fake = await fakeEndpoint()
        fake.respond = () => response as never
        const error = await errorOf(exchangeAt(fake.url).for(authOf('incoming')))
        expect(UpstreamUnavailableError.is(error) ? error.cause : error)
          .to.be.instanceOf(Error)
          .with.property('message', message)
      })

    it('a token of 65 536 characters is accepted', async () => {
      const fake = await fakeEndpoint()
      fake.respond = () => ({ body: { ...good, access_token: 'x'.repeat(65_536) } })
      expect((await exchangeAt(fake.url).for(authOf('a'))).token).to.have.length(65_536)
    })

    const secret = 'very-secret client_s3cret!~*'
    const form = new URLSearchParams([['', secret]]).toString().slice(1)
    for (const [style, echo] of Object.entries<(header: string) => string>({
      'the header': (header) => header,
      'the header without padding': (header) => header.replaceAll('=', ''),
      'the header in base64url': (header) => Buffer.from(header.slice(6), 'base64').toString('base64url'),
      'the header, percent-encoded': (header) => encodeURIComponent(header),
      'the decoded credentials': (header) => Buffer.from(header.slice(6), 'base64').toString(),
      'the secret in a form': () => form,
      'the secret in Base64': () => Buffer.from(secret).toString('base64'),
      'the secret, percent-encoded in lower case': () =>
        [...Buffer.from(secret)].map((byte) => `%${byte.toString(16)}`).join(''),
    })) {
      it(`an error that repeats ${style} does not contain the secret in any form`, async () => {
        const fake = await fakeEndpoint()
        for (const error of ['invalid_request', 'invalid_grant', 'server_error']) {
          fake.respond = () => ({
            status: 400,
            body: {
              error,
              error_description: `bad ${echo(String(fake.headers.at(-1)?.authorization))} here`,
            },
          })
          const thrown = await errorOf(exchangeAt(fake.url, { clientSecret: secret }).for(authOf('incoming')))
          const printed = inspect(thrown, { depth: 9 })
          expect(printed).to.match(/bad .*\[secret\]/)
          for (const part of printed.split(/[^\w+/%-]+/))
            for (const text of [part, Buffer.from(part, 'base64').toString('latin1')])
              expect(
                text.replaceAll(/%([\da-f]{2})/gi, (_, hex) => Buffer.from(hex, 'hex').toString()),
              ).to.not.match(/s3cret|very.secret/)
        }
      })
    }

    it('timeoutMs may be a fraction', async () => {
      const origin = await serve(() => {})
      const error = await errorOf(exchangeAt(`${origin}/token`, { timeoutMs: 0.5 }).for(authOf('a')))
      expect(error).to.be.instanceOf(UpstreamUnavailableError)
    })

    it('an endpoint that does not respond in time is an UpstreamUnavailableError', async () => {
      const origin = await serve(() => {})
      const error = await errorOf(exchangeAt(`${origin}/token`, { timeoutMs: 50 }).for(authOf('a')))
      expect(error).to.be.instanceOf(UpstreamUnavailableError)
    })

    it('an endpoint that refuses connections is an UpstreamUnavailableError', async () => {
      const error = await errorOf(
        exchangeAt(`http://127.0.0.1:${await freePort()}/token`).for(authOf('incoming')),
      )
      expect(error).to.be.instanceOf(UpstreamUnavailableError)
      expect(error.message).to.equal(
        'The sign-in for the service behind this tool is unavailable. Try again in 5 seconds.',
      )
      expect(error.cause).to.deep.include({ name: 'Error', message: 'the request failed (ECONNREFUSED)' })
    })

    it('an issuer whose metadata names another issuer, or no token endpoint, is an UpstreamUnavailableError', async () => {
      for (const document of [{ issuer: 'https://evil.example' }, {}]) {
        const origin: string = await serve((_req, res) => {
          res.setHeader('Content-Type', 'application/json')
          res.end(JSON.stringify({ issuer: origin, ...document }))
        })
        const tokens = upstreamToken({
          issuer: origin,
          clientId: 'c',
          clientSecret: 's',
          style: 'token-exchange',
        })
        expect(await errorOf(tokens.for(authOf('a')))).to.be.instanceOf(UpstreamUnavailableError)
      }
    })
  })

  it('a request contains the parameters of RFC 8693 and the credentials in the Authorization header', async () => {
    const fake = await fakeEndpoint()
    await exchangeAt(fake.url, { audience: ['a', 'b'], resource: API, scope: ['x', 'y'] }).for(
      authOf('incoming'),
    )
    expect([...(fake.forms[0] as URLSearchParams)].sort()).to.deep.equal(
      [
        ['grant_type', EXCHANGE],
        ['subject_token', 'incoming'],
        ['subject_token_type', 'urn:ietf:params:oauth:token-type:access_token'],
        ['requested_token_type', 'urn:ietf:params:oauth:token-type:access_token'],
        ['audience', 'a'],
        ['audience', 'b'],
        ['resource', API],
        ['scope', 'x y'],
      ].sort(),
    )
    expect(fake.headers[0]?.authorization).to.match(/^Basic /)
  })

  for (const [scope, sent] of [
    [undefined, null],
    [[], null],
    ['', null],
    [' a  b ', 'a b'],
    [['b', 'a'], 'b a'],
  ] as const)
    it(`the scope ${JSON.stringify(scope)} is sent as ${JSON.stringify(sent)}`, async () => {
      const fake = await fakeEndpoint()
      await exchangeAt(fake.url, { scope: scope as unknown as string[] }).for(authOf('a'))
      expect(fake.forms[0]?.get('scope')).to.equal(sent)
    })

  describe('with the metadata of an issuer', () => {
    /** Serves metadata. Returns the tokens, and the number of requests for metadata. */
    async function issuerWith(metadata: object, options: Partial<UpstreamTokenOptions>) {
      const fake = await fakeEndpoint()
      let count = 0
      const issuer: string = await serve((_req, res) => {
        count++
        res.setHeader('Content-Type', 'application/json')
        res.end(JSON.stringify({ issuer, token_endpoint: fake.url, ...metadata }))
      })
      const tokens = upstreamToken({
        issuer,
        clientId: 'mcp-server',
        clientSecret: 's3cret value',
        style: 'token-exchange',
        ...options,
      })
      return { fake, tokens, fetches: () => count }
    }

    const obo = { style: 'entra-obo', scope: 'a' } as const
    const methods = (...names: string[]) => ({ token_endpoint_auth_methods_supported: names })
    for (const [what, metadata, options, isInBody] of [
      ['names no methods', {}, {}, false],
      ['names no methods, for Entra ID', {}, obo, true],
      ['supports client_secret_post only', methods('client_secret_post'), {}, true],
      ['supports client_secret_basic, for Entra ID', methods('client_secret_basic'), obo, false],
      ['supports both methods', methods('client_secret_post', 'client_secret_basic'), {}, false],
      ['supports neither method', methods('private_key_jwt'), {}, false],
    ] as const)
      it(`the secret is sent in the ${isInBody ? 'body' : 'header'} if the authorization server ${what}`, async () => {
        const { fake, tokens } = await issuerWith(metadata, options)
        await tokens.for(authOf('a'))
        const [[form, headers] = expect.fail()] = fake.forms.map(
          (one, index) => [one, fake.headers[index]] as const,
        )
        expect(form.get('client_secret')).to.equal(isInBody ? 's3cret value' : null)
        expect(headers?.authorization === undefined).to.equal(isInBody)
      })

    it('metadata is fetched once for requests at the same time and later', async () => {
      const { fake, tokens, fetches } = await issuerWith({}, {})
      await Promise.all(['a', 'b'].map((user) => tokens.for(authOf(user, { user }))))
      const before = fetches()
      await tokens.for(authOf('c', { user: 'c' }))
      expect([before, fetches(), fake.forms.length]).to.deep.equal([1, 1, 3])
    })

    it('metadata is used for an hour, and then fetched again', async () => {
      const { tokens, fetches } = await issuerWith({}, {})
      const { now } = performance
      const start = Math.ceil(now.call(performance))
      const fetched: number[] = []
      try {
        for (const ms of [0, 3_599_999, 3_600_000, 7_199_999, 7_200_000]) {
          performance.now = () => start + ms
          await tokens.for(authOf('a', { user: String(ms) }))
          // A refresh in the background ends before the time goes on.
          await new Promise((resolve) => setTimeout(resolve, 200))
          fetched.push(fetches())
        }
      } finally {
        performance.now = now
      }
      expect(fetched).to.deep.equal([1, 1, 2, 2, 3])
    })

    it('metadata that names a remote token endpoint with http is refused', async () => {
      const { tokens } = await issuerWith({ token_endpoint: 'http://auth.example.com/token' }, {})
      const error = await errorOf(tokens.for(authOf('a')))
      expect(error).to.be.instanceOf(UpstreamUnavailableError)
      expect(inspect(error.cause, { depth: 9 })).to.contain('token_endpoint is not https')
    })
  })

  for (const [given, seconds, words] of [
    [undefined, 5, '5 seconds'],
    [0, 0, '0 seconds'],
    [0.2, 1, '1 second'],
    [1, 1, '1 second'],
    [1.5, 2, '2 seconds'],
    [-1, 5, '5 seconds'],
    [Number.NaN, 5, '5 seconds'],
    [Number.POSITIVE_INFINITY, 5, '5 seconds'],
  ] as const)
    it(`an UpstreamUnavailableError with retryAfterSeconds ${given} asks to try again in ${words}`, () => {
      const error = new UpstreamUnavailableError(given === undefined ? {} : { retryAfterSeconds: given })
      expect(error.retryAfterSeconds).to.equal(seconds)
      expect(error.message).to.match(new RegExp(`Try again in ${words}\\.$`))
      expect('cause' in error).to.equal(false)
    })

  it('the functions is() distinguish the errors of this package', () => {
    const errors = [
      new UpstreamUnavailableError({ cause: 1 }),
      new UpstreamConsentError({ error: 'invalid_grant', scopes: [] }),
      new KitToolError('x'),
      new Error('UpstreamUnavailableError'),
    ]
    expect(errors.map((error) => UpstreamUnavailableError.is(error))).to.deep.equal([
      true,
      false,
      false,
      false,
    ])
    expect(errors.map((error) => UpstreamConsentError.is(error))).to.deep.equal([false, true, false, false])
    expect(errors[0]?.cause).to.equal(1)
  })

  it('an UpstreamConsentError names the scopes, if there are some', () => {
    const messages = [[], ['a'], ['a', 'b']].map(
      (scopes) => new UpstreamConsentError({ error: 'consent_required', scopes }).message,
    )
    expect(messages.map((message) => message.split(' at the service', 1)[0])).to.deep.equal([
      'This tool needs your consent',
      'This tool needs your consent for a',
      'This tool needs your consent for a, b',
    ])
  })

  it('clientAuthentication of oauth4webapi replaces the secret', async () => {
    const fake = await fakeEndpoint()
    const { privateKey } = await generateKeyPair('ES256')
    const tokens = upstreamToken({
      tokenEndpoint: fake.url,
      clientId: 'mcp-server',
      clientAuthentication: PrivateKeyJwt({ key: privateKey as never, kid: '1' }),
      style: 'token-exchange',
    })
    await tokens.for(authOf('incoming'))
    expect(fake.forms[0]?.get('client_assertion_type')).to.contain('jwt-bearer')
    expect(fake.headers[0]?.authorization).to.equal(undefined)
  })

  for (const [what, argument] of [
    ['undefined', undefined],
    ['a context without auth', {}],
    ['a copy of auth without its token', { ...authOf('a') }],
  ] as const) {
    it(`${what} is a tool error, and no request is sent`, async () => {
      const fake = await fakeEndpoint()
      const error = await errorOf(exchangeAt(fake.url).headers(argument as never))
      expect(error.message).to.equal('This tool requires a signed-in user.')
      expect(fake.forms).to.have.length(0)
    })
  }

  it('headers returns the Authorization header for an auth, and for a context', async () => {
    const fake = await fakeEndpoint()
    const tokens = exchangeAt(fake.url)
    const auth = authOf('a')
    for (const argument of [auth, { auth }])
      expect(await tokens.headers(argument)).to.deep.equal({ authorization: 'Bearer upstream-1' })
  })
})
