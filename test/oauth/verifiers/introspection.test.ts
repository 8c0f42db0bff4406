import { once } from 'node:events'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { type AddressInfo, createServer } from 'node:net'
import { mock } from 'node:test'
import { inspect } from 'node:util'
import { expect } from 'chai'
import { expectTypeOf } from 'expect-type'
import type { IntrospectionUser, IntrospectionVerifierOptions } from '../../../src/index.ts'
import { VerifierUnavailableError } from '../../../src/oauth/errors.ts'
import { verificationOf } from '../../../src/oauth/inputs.ts'
import type { VerifyToken } from '../../../src/oauth/options.ts'
import { introspectionVerifier } from '../../../src/oauth/verifiers/introspection.ts'
import { expectConfigError } from '../../support/config-error.ts'
import { listen, stopListening } from '../../support/listen.ts'
import { AUDIENCE, ISSUER, nowSeconds } from '../../support/tokens.ts'
import { verifyInput } from '../../support/verify-input.ts'

const SECRET = 'not a real: secret/+&'
const TOKEN = 'an-opaque-token'

interface Question {
  readonly method: string | undefined
  readonly headers: IncomingMessage['headers']
  readonly body: URLSearchParams
}

/** An introspection endpoint that sends a fixed response, or calls a function. */
async function endpointWith(answer: unknown | ((req: IncomingMessage, res: ServerResponse) => void)) {
  const asked: Question[] = []
  const { origin, server } = await listen(async (req, res) => {
    const chunks: Buffer[] = []
    for await (const chunk of req) chunks.push(chunk)
    const { method, headers } = req
    asked.push({ method, headers, body: new URLSearchParams(Buffer.concat(chunks).toString()) })
    if (typeof answer === 'function') return answer(req, res)
    res.setHeader('Content-Type', 'application/json')
    res.end(JSON.stringify(answer))
  })
  return { endpoint: `${origin}/introspect`, asked, server }
}

const active = (changes: object = {}): object => ({
  active: true,
  aud: AUDIENCE,
  sub: 'ada',
  client_id: 'cli',
  scope: 'mcp:read mcp:write',
  exp: nowSeconds() + 300,
  token_type: 'Bearer',
  ...changes,
})

const optionsFor = (endpoint: string): IntrospectionVerifierOptions => ({
  endpoint,
  clientId: 'mcp server',
  clientSecret: SECRET,
  audience: AUDIENCE,
})

/** Returns the result of the verifier with `options` for a response. */
async function verify(
  answer: unknown,
  options: Partial<IntrospectionVerifierOptions<any>> = {},
  input = verifyInput(TOKEN),
) {
  const { endpoint } = await endpointWith(answer)
  const given = { ...optionsFor(endpoint), ...options }
  if (options.resource !== undefined) delete (given as { audience?: unknown }).audience
  return await introspectionVerifier(given)(input)
}

async function outageOf(verifier: VerifyToken<unknown, any>): Promise<VerifierUnavailableError> {
  let given: unknown
  try {
    given = await verifier(verifyInput(TOKEN))
  } catch (error) {
    expect(error, inspect(error)).to.be.instanceOf(VerifierUnavailableError)
    for (const secret of [SECRET, TOKEN, `'ada'`, '"ada"']) {
      expect(inspect(error, { depth: null, showHidden: true })).not.to.include(secret)
    }
    return error as VerifierUnavailableError
  }
  throw new Error(`not unavailable but ${inspect(given)}`)
}

describe('introspectionVerifier()', () => {
  describe('requests', () => {
    it('introspectionVerifier() sends a form by POST with its credentials, and only if there is a token', async () => {
      const { endpoint, asked } = await endpointWith(active())
      const verifier = introspectionVerifier(optionsFor(endpoint))
      expect(await verifier(verifyInput(undefined))).to.equal(undefined)
      expect(await verifier(verifyInput(''))).to.equal(undefined)
      expect(asked).to.deep.equal([])
      expect(await verifier(verifyInput('a+token/with=='))).to.include({ valid: true })
      const [{ method, headers, body }] = asked as [Question]
      expect(method).to.equal('POST')
      expect(headers['content-type']).to.match(/^application\/x-www-form-urlencoded/)
      expect(headers.accept).to.equal('application/json')
      expect([...body]).to.have.deep.members([
        ['token', 'a+token/with=='],
        ['token_type_hint', 'access_token'],
      ])
      // RFC 6749 §2.3.1: form encoding, and then base64.
      const [scheme, credentials] = (headers.authorization as string).split(' ')
      const [id, secret] = Buffer.from(credentials as string, 'base64')
        .toString()
        .split(':')
      const decode = (text: string | undefined) => new URLSearchParams(`x=${text}`).get('x')
      expect([scheme, decode(id), decode(secret)]).to.deep.equal(['Basic', 'mcp server', SECRET])
    })

    it('introspectionVerifier() sends its credentials in the body with client_secret_post', async () => {
      const { endpoint, asked } = await endpointWith(active())
      const clientAuthentication = 'client_secret_post'
      await introspectionVerifier({ ...optionsFor(endpoint), clientAuthentication })(verifyInput(TOKEN))
      const [{ headers, body }] = asked as [Question]
      expect(headers.authorization).to.equal(undefined)
      expect(body.get('client_id')).to.equal('mcp server')
      expect(body.get('client_secret')).to.equal(SECRET)
    })

    it('introspectionVerifier() sends a request for every token', async () => {
      const { endpoint, asked } = await endpointWith(active())
      const verifier = introspectionVerifier(optionsFor(endpoint))
      await verifier(verifyInput(TOKEN))
      await verifier(verifyInput(TOKEN))
      expect(asked).to.have.length(2)
    })
  })

  describe('results', () => {
    it('an active token has its user, scopes, client, expiry, resource, and other members in the result', async () => {
      const answer = active({ username: 'Ada', tenant: 'acme', roles: ['admin'], iss: ISSUER })
      expect(await verify(answer)).to.deep.equal({
        valid: true,
        user: { id: 'ada', claims: answer },
        scopes: ['mcp:read', 'mcp:write'],
        clientId: 'cli',
        expiresAt: (answer as { exp: number }).exp,
        resource: AUDIENCE,
        extra: { tenant: 'acme', roles: ['admin'] },
      })
    })

    it('the user id is sub, or else username, or else client_id, and null counts as absent', async () => {
      for (const [changes, id] of [
        [{ username: 'Ada' }, 'ada'],
        [{ sub: undefined, username: 'Ada' }, 'Ada'],
        [{ sub: null, username: null }, 'cli'],
        [{ sub: undefined, client_id: undefined }, undefined],
      ] as const) {
        expect((await verify(active(changes)))?.user.id).to.equal(id)
      }
    })

    it('the user of an active token is the result of mapUser, direct or as a promise', async () => {
      expect((await verify(active(), { mapUser: ({ sub }) => ({ name: sub }) }))?.user).to.deep.equal({
        name: 'ada',
      })
      expect((await verify(active(), { mapUser: async () => 7 }))?.user).to.equal(7)
    })

    it('a response without expiry, client, and scopes has none in the result', async () => {
      const nothing = { exp: undefined, client_id: null, scope: null }
      expect(await verify(active(nothing)))
        .to.include({ valid: true })
        .and.not.to.have.any.keys('expiresAt', 'clientId')
      expect((await verify(active(nothing)))?.scopes).to.deep.equal([])
    })

    it('a response with several audiences has the resource of the gate in the result', async () => {
      const other = 'https://other.example.com/mcp'
      const audience = [AUDIENCE, other, 'client-id']
      const answer = active({ aud: [other, 'client-id', AUDIENCE] })
      expect(await verify(answer, { audience })).to.include({ resource: AUDIENCE })
      expect(await verify(answer, { audience }, verifyInput(TOKEN, 'https://third.example.com'))).to.include({
        resource: other,
      })
      expect(await verify(active({ aud: 'client-id' }), { audience }))
        .to.include({ valid: true })
        .and.not.to.have.property('resource')
    })

    it('a response has no resource in the result if aud is not checked', async () => {
      expect(await verify(active({ aud: undefined }), { audience: false }))
        .to.include({ valid: true })
        .and.not.to.have.property('resource')
    })
  })

  const accepted: readonly (readonly [what: string, answer: object, options?: object])[] = [
    ['an nbf by a clock that runs ahead', active({ nbf: nowSeconds() + 30 })],
    ['an nbf that is null', active({ nbf: null })],
    ['an aud among others', active({ aud: ['x', AUDIENCE] })],
    ['resource in the place of audience', active(), { resource: AUDIENCE }],
    ['token_type in any case, or none', active({ token_type: 'bearer' })],
    [
      'a server that says what kind of token it is',
      active({ token_type: 'access_token', token_use: 'access_token' }),
    ],
    ['the expected issuer', active({ iss: ISSUER }), { issuer: ISSUER }],
    ['claims that are required', active({ tenant: 'acme' }), { requiredClaims: ['tenant', 'sub'] }],
    ['an empty cnf', active({ cnf: {} })],
  ]
  for (const [what, answer, options] of accepted) {
    it(`introspectionVerifier() accepts ${what}`, async () =>
      expect(await verify(answer, options)).to.include({ valid: true }))
  }

  const refused: readonly (readonly [what: string, answer: object, note: string, options?: object])[] = [
    ['a token that is not active', { active: false }, 'not_active'],
    ['a token that is not active, whatever else is said', active({ active: false }), 'not_active'],
    ['another audience', active({ aud: 'https://other.example.com/mcp' }), 'wrong_resource'],
    ['no audience', active({ aud: undefined }), 'wrong_resource'],
    ['an audience that is null', active({ aud: null }), 'wrong_resource'],
    ['no audience of several', active({ aud: [] }), 'wrong_resource'],
    ['an audience that is an object', active({ aud: { 0: AUDIENCE } }), 'wrong_resource'],
    ['the audience with a slash', active({ aud: `${AUDIENCE}/` }), 'wrong_resource'],
    ['another audience than resource', active({ aud: 'x' }), 'wrong_resource', { resource: AUDIENCE }],
    ['an active token that has expired', active({ exp: nowSeconds() - 1 }), 'expired'],
    ['an active token that is good only later', active({ nbf: nowSeconds() + 500 }), 'not_active'],
    ['an nbf that is not a number', active({ nbf: 'soon' }), 'not_active'],
    ['an expired token for another audience', active({ exp: 0, aud: 'x' }), 'expired'],
    ['another issuer', active({ iss: 'https://evil.example.com' }), 'issuer', { issuer: ISSUER }],
    ['no issuer, where one is expected', active(), 'issuer', { issuer: ISSUER }],
    ['a token without a claim that is required', active(), 'type', { requiredClaims: ['tenant'] }],
    [
      'a required claim that is a member of Object.prototype',
      active(),
      'type',
      { requiredClaims: ['constructor'] },
    ],
    ['a token bound to a DPoP key', active({ cnf: { jkt: 'x' } }), 'key_bound'],
    ['a token bound to a certificate', active({ cnf: { 'x5t#S256': 'x' } }), 'key_bound'],
    ['a token of type DPoP', active({ token_type: 'DPoP' }), 'key_bound'],
    ['a refresh token', active({ token_type: 'refresh_token' }), 'type'],
    ['a refresh token, by its use', active({ token_type: undefined, token_use: 'refresh_token' }), 'type'],
    ['a token of an unknown type', active({ token_type: 'mac' }), 'type'],
    ['a token of a type that is not a string', active({ token_type: ['Bearer'] }), 'type'],
  ]
  for (const [what, answer, note, options] of refused) {
    it(`introspectionVerifier() rejects ${what}: ${note}`, async () => {
      const input = verifyInput(TOKEN)
      expect(await verify(answer, options, input)).to.equal(undefined)
      expect(verificationOf(input).refusal).to.equal(note)
    })
  }

  it('introspectionVerifier() accepts an nbf of up to 60 seconds from now', async () => {
    const now = nowSeconds()
    mock.timers.enable({ apis: ['Date'], now: now * 1_000 })
    try {
      expect(await verify(active({ nbf: now + 60 }))).to.include({ valid: true })
      expect(await verify(active({ nbf: now + 60.001 }))).to.equal(undefined)
    } finally {
      mock.timers.reset()
    }
  })

  describe('outages', () => {
    const error = (status: number, body: object, headers: Record<string, string> = {}) =>
      ((_, res) => {
        res.writeHead(status, { 'Content-Type': 'application/json', ...headers })
        res.end(JSON.stringify(body))
      }) as (req: IncomingMessage, res: ServerResponse) => void
    const said = (text: string, type = 'application/json') =>
      ((_, res) => {
        res.setHeader('Content-Type', type)
        res.end(text)
      }) as (req: IncomingMessage, res: ServerResponse) => void

    const broken: readonly (readonly [
      what: string,
      answer: unknown,
      message: RegExp,
      retryAfter?: number,
    ])[] = [
      ['refuses the client: 401', error(401, { error: 'invalid_client' }), /responded with 401/],
      [
        'refuses the client with a challenge',
        error(401, { error: 'invalid_client' }, { 'www-authenticate': 'Basic realm="x"' }),
        /responded with 401/,
      ],
      [
        'refuses the client: 400 invalid_client',
        error(400, { error: 'invalid_client' }),
        /responded with 400/,
      ],
      ['forbids: 403', error(403, {}), /responded with 403/],
      ['sends only active, with 401', error(401, active()), /responded with 401/],
      ['responds with 404', error(404, {}), /responded with 404/],
      ['is overloaded: 429', error(429, {}, { 'retry-after': '17' }), /responded with 429/, 17],
      ['fails: 500', error(500, {}), /responded with 500/],
      ['is down: 503', error(503, {}, { 'retry-after': '120' }), /responded with 503/, 120],
      ['is down for an hour', error(503, {}, { 'retry-after': '3600' }), /responded with 503/, 3600],
      ['is down for an hour and a second', error(503, {}, { 'retry-after': '3601' }), /responded with 503/],
      ['is down for a year', error(503, {}, { 'retry-after': '31536000' }), /responded with 503/],
      [
        'is down until a date in the past',
        error(503, {}, { 'retry-after': 'Wed, 21 Oct 2026 07:28:00 GMT' }),
        /responded with 503/,
      ],
      ['responds with 204', error(204, {}), /responded with 204/],
      ['redirects', error(307, {}, { location: 'http://127.0.0.1:1/' }), /responded with 307/],
      ['responds with 201', error(201, active()), /responded with 201/],
      ['disconnects', (req: IncomingMessage) => req.socket.destroy(), /could not be reached/],
      [
        'stops in the middle',
        (_: unknown, res: ServerResponse) => {
          res.writeHead(200, { 'content-type': 'application/json', 'content-length': '1000' })
          res.write('{"active":', () => res.destroy())
        },
        /could not be reached/,
      ],
      ['sends nothing in time', () => undefined, /could not be reached/],
      [
        'sends one byte at a time',
        (_: unknown, res: ServerResponse) => {
          const timer = setInterval(() => res.write(' '), 20)
          res.once('close', () => clearInterval(timer))
        },
        /could not be reached/,
      ],
      [
        'sends too much',
        said(`{"active":true,"padding":"${'x'.repeat(1_100_000)}"}`),
        /could not be reached/,
      ],
      ['does not send JSON', said('<html>'), /not valid introspection JSON/],
      ['does not send a JSON object', said('[{"active":true}]'), /not valid introspection JSON/],
      ['sends an empty body', said(''), /not valid introspection JSON/],
      ['sends a JWT', said('a.b.c', 'application/token-introspection+jwt'), /not valid introspection JSON/],
      ['sends no active', { sub: 'ada', aud: AUDIENCE }, /not valid introspection JSON/],
      ['sends active: "true"', active({ active: 'true' }), /not valid introspection JSON/],
      ['sends active: 1', active({ active: 1 }), /not valid introspection JSON/],
      ['sends an exp that is a string', active({ exp: '9999999999' }), /not valid introspection JSON/],
      [
        'sends an infinite exp',
        said(JSON.stringify(active({ exp: 5 })).replace('"exp":5', '"exp":1e999')),
        /not valid introspection JSON/,
      ],
      ['sends a sub that is an object', active({ sub: { ada: 1 } }), /not valid introspection JSON/],
      ['sends a client_id that is a number', active({ client_id: 5 }), /not valid introspection JSON/],
      ['sends a username that is a list', active({ username: ['ada'] }), /not valid introspection JSON/],
    ]
    for (const [what, answer, message, retryAfter = 5] of broken) {
      it(`introspectionVerifier() is unavailable if the endpoint ${what}`, async () => {
        const { endpoint, asked } = await endpointWith(answer)
        // Only an endpoint that does not respond may take longer.
        const timeoutMs = /reached/.test(message.source) ? 300 : 10_000
        const outage = await outageOf(introspectionVerifier({ ...optionsFor(endpoint), timeoutMs }))
        expect(outage.message).to.match(message).and.include(endpoint)
        expect(outage.retryAfterSeconds).to.equal(retryAfter)
        expect(asked).to.have.length(1)
      })
    }

    it('an outage of introspectionVerifier() contains neither the credentials nor the token if the endpoint sends them back', async () => {
      const credentials = `${new URLSearchParams([['', 'mcp server']]).toString().slice(1)}:${new URLSearchParams([['', SECRET]]).toString().slice(1)}`
      for (const clientAuthentication of ['client_secret_basic', 'client_secret_post'] as const)
        for (const prefix of ['', 'HTTP/1.1 200 OK\r\n', 'HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n']) {
          const received: Buffer[] = []
          const server = createServer((socket) => {
            socket.on('error', () => undefined)
            socket.on('data', (chunk) => {
              received.push(chunk)
              socket.end(Buffer.concat([Buffer.from(prefix), ...received]))
            })
          }).listen(0, '127.0.0.1')
          await once(server, 'listening')
          const endpoint = `http://127.0.0.1:${(server.address() as AddressInfo).port}/introspect`
          const outage = await outageOf(
            introspectionVerifier({ ...optionsFor(endpoint), clientAuthentication }),
          )
          server.close()
          const printed = inspect(outage, { depth: 9, showHidden: true })
          for (const secret of [
            TOKEN,
            SECRET,
            credentials,
            Buffer.from(credentials).toString('base64'),
            'Basic ',
          ])
            expect(printed).to.not.include(secret)
        }
    })

    it('introspectionVerifier() is unavailable if the endpoint cannot be reached', async () => {
      const { endpoint, server } = await endpointWith(active())
      await stopListening(server)
      const outage = await outageOf(introspectionVerifier(optionsFor(endpoint)))
      expect(inspect(outage.cause)).to.include('ECONNREFUSED')
    })
  })

  it('introspectionVerifier() has the user of mapUser in its type', () => {
    const options = {
      endpoint: 'https://auth.example.com/i',
      clientId: 'a',
      clientSecret: 'b',
      audience: 'c',
    }
    expectTypeOf(introspectionVerifier(options)).toEqualTypeOf<VerifyToken<unknown, IntrospectionUser>>()
    const mapped = introspectionVerifier({ ...options, mapUser: async ({ sub }) => ({ sub }) })
    expectTypeOf(mapped).toEqualTypeOf<VerifyToken<unknown, { sub: string | undefined }>>()
  })

  describe('wrong options', () => {
    const base = optionsFor('https://auth.example.com/introspect')
    it('introspectionVerifier() throws for resource together with audience: false', () =>
      expectConfigError(
        () => introspectionVerifier({ ...base, audience: false, resource: AUDIENCE } as never),
        {
          code: 'MCP_CONFIG_INVALID_OPTION',
          option: 'resource',
          message: /together with audience: false/,
        },
      ))

    it('introspectionVerifier() accepts http with allowInsecureHttp', () => {
      introspectionVerifier({ ...base, endpoint: 'http://auth.internal/i', allowInsecureHttp: true })
      introspectionVerifier({ ...base, endpoint: 'http://localhost:8080/i' })
    })
  })
})
