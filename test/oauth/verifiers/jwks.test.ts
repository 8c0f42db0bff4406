import type { IncomingMessage, ServerResponse } from 'node:http'
import { expect } from 'chai'
import { type JwtVerifierOptions, jwtVerifier, type VerifyToken } from '../../../src/index.ts'
import { VerifierUnavailableError } from '../../../src/oauth/errors.ts'
import {
  AUDIENCE,
  createSigningKey,
  ISSUER,
  type SigningKey,
  signToken,
  startKeyServer,
  verifyInput,
} from '../../support/tokens.ts'
import { until } from '../../support/until.ts'

describe('the keys of jwtVerifier()', () => {
  let first: SigningKey
  let second: SigningKey
  let third: SigningKey

  before(async () => {
    ;[first, second, third] = await Promise.all([
      createSigningKey('RS256', 'first'),
      createSigningKey('ES256', 'second'),
      createSigningKey('EdDSA', 'third'),
    ])
  })

  const verifierFor = (options: Partial<JwtVerifierOptions>): VerifyToken =>
    jwtVerifier({ issuer: ISSUER, audience: AUDIENCE, ...options })

  async function outcome(
    verifier: VerifyToken,
    token: string,
  ): Promise<'accepted' | 'refused' | 'unavailable'> {
    try {
      return (await verifier(verifyInput(token)))?.valid === true ? 'accepted' : 'refused'
    } catch (error) {
      expect(error).to.be.instanceOf(VerifierUnavailableError)
      return 'unavailable'
    }
  }

  it('keys are fetched when first needed, once for concurrent requests, and cached', async () => {
    const { jwksUri, asked } = await startKeyServer([first, second, third])
    const verifier = verifierFor({ jwksUri })
    expect(asked).to.deep.equal([])
    const tokens = await Promise.all([first, second, third].map((key) => signToken(key)))
    const outcomes = await Promise.all(
      [...tokens, ...tokens, ...tokens].map((token) => outcome(verifier, token)),
    )
    expect(outcomes).to.deep.equal(Array(9).fill('accepted'))
    expect(asked).to.deep.equal(['/jwks'])
  })

  it('keys are not fetched for a request without a token, or with one that is not a JWT', async () => {
    const { jwksUri, asked } = await startKeyServer([first])
    const verifier = verifierFor({ jwksUri })
    expect(await outcome(verifier, 'opaque')).to.equal('refused')
    expect(await verifier(verifyInput(undefined))).to.equal(undefined)
    expect(asked).to.deep.equal([])
  })

  it('keys are found with the metadata of RFC 8414', async () => {
    const server = await startKeyServer([first], (origin) => ({
      '/.well-known/oauth-authorization-server': { issuer: origin, jwks_uri: `${origin}/jwks` },
    }))
    const verifier = verifierFor({ issuer: server.origin })
    expect(await outcome(verifier, await signToken(first, { iss: server.origin }))).to.equal('accepted')
    expect(server.asked).to.deep.equal(['/.well-known/oauth-authorization-server', '/jwks'])
  })

  it('keys are found with OpenID Connect Discovery, also for an issuer with a path', async () => {
    const server = await startKeyServer([first], (origin) => ({
      '/tenant/.well-known/openid-configuration': { issuer: `${origin}/tenant`, jwks_uri: `${origin}/jwks` },
    }))
    const iss = `${server.origin}/tenant`
    expect(await outcome(verifierFor({ issuer: iss }), await signToken(first, { iss }))).to.equal('accepted')
    expect(server.asked).to.deep.equal([
      '/.well-known/oauth-authorization-server/tenant',
      '/tenant/.well-known/openid-configuration',
      '/jwks',
    ])
  })

  it('keys are found with the OpenID metadata at the location of RFC 8414 §5', async () => {
    const server = await startKeyServer([first], (origin) => ({
      '/.well-known/openid-configuration/tenant': { issuer: `${origin}/tenant`, jwks_uri: `${origin}/jwks` },
    }))
    const iss = `${server.origin}/tenant`
    expect(await outcome(verifierFor({ issuer: iss }), await signToken(first, { iss }))).to.equal('accepted')
    expect(server.asked.slice(2)).to.deep.equal(['/.well-known/openid-configuration/tenant', '/jwks'])
  })

  const wrongMetadata: readonly (readonly [what: string, document: (origin: string) => unknown])[] = [
    [
      'names another issuer',
      (origin) => ({ issuer: 'https://evil.example.com', jwks_uri: `${origin}/jwks` }),
    ],
    ['has no jwks_uri', (origin) => ({ issuer: origin })],
    [
      'has a jwks_uri on http elsewhere',
      (origin) => ({ issuer: origin, jwks_uri: 'http://evil.example.com/jwks' }),
    ],
    ['is not an object', () => ['nothing']],
  ]
  for (const [what, document] of wrongMetadata) {
    it(`keys are unavailable if the metadata ${what}`, async () => {
      const server = await startKeyServer([first], (origin) => ({
        '/.well-known/oauth-authorization-server': document(origin),
      }))
      const token = await signToken(first, { iss: server.origin })
      expect(await outcome(verifierFor({ issuer: server.origin }), token)).to.equal('unavailable')
      expect(server.asked).not.to.include('/jwks')
    })
  }

  it('keys are not fetched from this machine if a remote issuer names it', async () => {
    const server = await startKeyServer([first])
    const issuer = 'https://issuer.invalid'
    const document = { issuer, jwks_uri: server.jwksUri }
    const { fetch } = globalThis
    globalThis.fetch = async (url, init) =>
      String(url).startsWith(issuer) ? Response.json(document) : await fetch(url, init)
    try {
      expect(await outcome(verifierFor({ issuer }), await signToken(first, { iss: issuer }))).to.equal(
        'unavailable',
      )
      expect(server.asked).to.deep.equal([])
      const allowed = verifierFor({ issuer, allowInsecureHttp: true })
      expect(await outcome(allowed, await signToken(first, { iss: issuer }))).to.equal('accepted')
    } finally {
      globalThis.fetch = fetch
    }
  })

  it('a key set may have thousands of keys of any type, with any content type', async () => {
    const crowd = Array.from({ length: 4_000 }, (_, index) => ({
      kty: 'RSA',
      kid: `crowd-${index}`,
      n: 'AQAB',
      e: 'AQAB',
    }))
    const odd = [
      { kty: 'AKP', alg: 'ML-DSA-44', kid: 'pq', pub: 'x' },
      { kty: 'oct', kid: 'oct', k: 'c2VjcmV0' },
      { kty: 'unheard-of' },
    ]
    const server = await startKeyServer([first])
    server.answer((_, res) => {
      res.setHeader('Content-Type', 'text/plain')
      res.end(JSON.stringify({ keys: [...odd, ...crowd, first.jwk, ...crowd.slice(0, 500)] }))
    })
    const verifier = verifierFor({ jwksUri: server.jwksUri })
    expect(await outcome(verifier, await signToken(first))).to.equal('accepted')
    for (const kid of ['crowd-7', 'crowd-3999', 'oct', 'pq', 'unheard-of'])
      expect(await outcome(verifier, await signToken(first, {}, { kid }))).to.equal('refused')
  })

  it('metadata is fetched again after discovery failed', async () => {
    const server = await startKeyServer([first], (origin) => ({
      '/.well-known/oauth-authorization-server': { issuer: origin, jwks_uri: `${origin}/jwks` },
    }))
    const verifier = verifierFor({ issuer: server.origin })
    const token = await signToken(first, { iss: server.origin })
    server.answer((_, res) => res.writeHead(503).end())
    expect(await outcome(verifier, token)).to.equal('unavailable')
    server.answer()
    await until(async () => (await outcome(verifier, token)) === 'accepted', 10)
  })

  it('keys are found at a later location of the metadata if the server fails at earlier ones', async () => {
    const server = await startKeyServer([first])
    const verifier = verifierFor({ issuer: server.origin })
    const token = await signToken(first, { iss: server.origin })
    server.answer((_, res) => res.writeHead(500).end())
    expect(await outcome(verifier, token)).to.equal('unavailable')
    expect(server.asked).to.deep.equal(['/.well-known/oauth-authorization-server'])
    server.answer((req, res) => {
      if (req.url === '/.well-known/oauth-authorization-server') return res.writeHead(500).end()
      const documents: Readonly<Record<string, unknown>> = {
        '/.well-known/openid-configuration': { issuer: server.origin, jwks_uri: server.jwksUri },
        '/jwks': { keys: [first.jwk] },
      }
      res.setHeader('Content-Type', 'application/json')
      return res.end(JSON.stringify(documents[req.url ?? '']))
    })
    await until(async () => (await outcome(verifier, token)) === 'accepted', 10)
    expect(server.asked.slice(1)).to.deep.equal(['/.well-known/openid-configuration', '/jwks'])
  })

  it('keys of an issuer verify only tokens of that issuer', async () => {
    const documents = (origin: string) => ({
      '/.well-known/oauth-authorization-server': { issuer: origin, jwks_uri: `${origin}/jwks` },
    })
    const [one, other] = [await startKeyServer([first], documents), await startKeyServer([second], documents)]
    const verifier = jwtVerifier({ issuers: [one.origin, other.origin], audience: AUDIENCE })
    expect(await outcome(verifier, await signToken(first, { iss: one.origin }))).to.equal('accepted')
    expect(other.asked).to.deep.equal([])
    expect(await outcome(verifier, await signToken(second, { iss: other.origin }))).to.equal('accepted')
    expect(await outcome(verifier, await signToken(first, { iss: other.origin, sub: 'eve' }))).to.equal(
      'refused',
    )
    expect(await outcome(verifier, await signToken(third, { iss: 'https://evil.example.com' }))).to.equal(
      'refused',
    )
    one.answer((_, res) => res.writeHead(500).end())
    expect(await outcome(verifier, await signToken(second, { iss: other.origin }))).to.equal('accepted')
  })

  describe('rotation', () => {
    it('keys are fetched again for an unknown kid, and replaced keys are rejected', async () => {
      const server = await startKeyServer([first])
      const verifier = verifierFor({ jwksUri: server.jwksUri, jwksCooldownSeconds: 0 })
      expect(await outcome(verifier, await signToken(first))).to.equal('accepted')
      server.serve(second)
      expect(await outcome(verifier, await signToken(second))).to.equal('accepted')
      expect(server.asked).to.have.length(2)
      expect(await outcome(verifier, await signToken(first))).to.equal('refused')
    })

    it('keys are not fetched repeatedly for kids that do not exist', async () => {
      const server = await startKeyServer([first])
      const verifier = verifierFor({ jwksUri: server.jwksUri })
      expect(await outcome(verifier, await signToken(first))).to.equal('accepted')
      for (let round = 0; round < 20; round++) {
        const token = await signToken(first, {}, { kid: `unheard-of-${round}` })
        expect(await outcome(verifier, token)).to.equal('refused')
      }
      expect(server.asked).to.have.length.at.most(2)
      expect(await outcome(verifier, await signToken(first))).to.equal('accepted')
    })

    it('a new key with the kid of an old one replaces it', async () => {
      const server = await startKeyServer([first])
      const verifier = verifierFor({ jwksUri: server.jwksUri, jwksCacheSeconds: 0 })
      expect(await outcome(verifier, await signToken(first))).to.equal('accepted')
      const twin = await createSigningKey('RS256', 'first')
      server.serve(twin, first)
      expect(await outcome(verifier, await signToken(first))).to.equal('accepted')
      expect(await outcome(verifier, await signToken(twin))).to.equal('accepted')
    })

    it('keys are fetched at the first token with a new kid, however new the cached ones are', async () => {
      const server = await startKeyServer([first])
      const verifier = verifierFor({ jwksUri: server.jwksUri })
      expect(await outcome(verifier, await signToken(first))).to.equal('accepted')
      server.serve(first, second)
      expect(await outcome(verifier, await signToken(second))).to.equal('accepted')
    })

    it('keys are fetched again when the cache has expired', async () => {
      const server = await startKeyServer([first])
      const verifier = verifierFor({ jwksUri: server.jwksUri, jwksCacheSeconds: 0 })
      expect(await outcome(verifier, await signToken(first))).to.equal('accepted')
      server.serve({ ...second, jwk: { ...second.jwk, kid: 'first' } })
      expect(await outcome(verifier, await signToken(first))).to.equal('refused')
      expect(server.asked).to.have.length.within(2, 3)
    })

    for (const [what, kid] of [
      ['the kid of a cached key', 'first'],
      ['no kid', undefined],
      ['an unknown kid', 'third'],
    ] as const)
      it(`a token with ${what} that no cached key verifies causes one fetch in 30 s, and is verified again`, async () => {
        const server = await startKeyServer([first])
        const verifier = verifierFor({ jwksUri: server.jwksUri })
        expect(await outcome(verifier, await signToken(first))).to.equal('accepted')
        const replaced = await createSigningKey('RS256', kid ?? 'other')
        const stranger = await createSigningKey('RS256', kid ?? 'stranger')
        server.serve(replaced)
        const [token, forged] = await Promise.all([
          signToken(replaced, {}, { kid }),
          signToken(stranger, {}, { kid }),
        ])
        const outcomes = await Promise.all([token, forged, token].map((one) => outcome(verifier, one)))
        expect(outcomes).to.deep.equal(['accepted', 'refused', 'accepted'])
        server.serve(stranger)
        for (let round = 0; round < 5; round++)
          expect(await outcome(verifier, forged), 'within 30 s').to.equal('refused')
        expect(server.asked).to.have.length(2)
      })

    it('a forged token is rejected, not postponed, while newer keys cannot be fetched', async () => {
      const server = await startKeyServer([first])
      const verifier = verifierFor({ jwksUri: server.jwksUri, jwksCooldownSeconds: 0 })
      expect(await outcome(verifier, await signToken(first))).to.equal('accepted')
      const forged = await signToken(await createSigningKey('RS256', 'first'))
      server.answer((_, res) => res.destroy())
      for (let round = 0; round < 3; round++) expect(await outcome(verifier, forged)).to.equal('refused')
      expect(await outcome(verifier, await signToken(first))).to.equal('accepted')
    })
  })

  for (const [what, changes, header] of [
    ['another issuer', { iss: 'https://evil.example' }, {}],
    ['an algorithm that is not accepted', {}, { alg: 'HS256' }],
  ] as const) {
    it(`keys are not fetched for a token of ${what}`, async () => {
      const server = await startKeyServer([first])
      const token = await signToken(first, changes)
      const [, ...rest] = token.split('.')
      const forged = [
        Buffer.from(JSON.stringify({ alg: first.alg, kid: first.kid, ...header })).toString('base64url'),
        ...rest,
      ].join('.')
      expect(await outcome(verifierFor({ jwksUri: server.jwksUri }), forged)).to.equal('refused')
      expect(server.asked).to.deep.equal([])
    })
  }

  describe('outages', () => {
    const broken: readonly (readonly [
      what: string,
      way: (req: IncomingMessage, res: ServerResponse) => void,
    ])[] = [
      ['responds with 500', (_, res) => res.writeHead(500).end('{"keys":[]}')],
      ['responds with 404', (_, res) => res.writeHead(404).end()],
      ['responds with 204', (_, res) => res.writeHead(204).end()],
      ['disconnects', (req) => req.socket.destroy()],
      ['does not send JSON', (_, res) => res.end('<html>')],
      ['does not send a key set', (_, res) => res.end('{"keys":{}}')],
      [
        'redirects',
        (req, res) =>
          req.url === '/jwks' ? res.writeHead(302, { location: '/moved' }).end() : res.end('{"keys":[]}'),
      ],
      ['sends 10 MB', (_, res) => res.end(`{"keys":[],"padding":"${'x'.repeat(10_000_000)}"}`)],
      ['sends without end', (_, res) => pourForEver(res)],
      [
        'stops in the middle',
        (_, res) => {
          res.writeHead(200, { 'content-length': '1000' })
          res.write('{"keys":', () => res.destroy())
        },
      ],
    ]
    for (const [what, way] of broken) {
      it(`keys are unavailable if their endpoint ${what}, and are not fetched again within a second`, async () => {
        const server = await startKeyServer([first])
        server.answer(way)
        const verifier = verifierFor({ jwksUri: server.jwksUri })
        const token = await signToken(first)
        for (let times = 0; times < 5; times++) expect(await outcome(verifier, token)).to.equal('unavailable')
        expect(server.asked).to.deep.equal(['/jwks'])
      })
    }

    it('keys are fetched again one second after a failure', async () => {
      await Promise.all(
        broken.map(async ([what, way]) => {
          const server = await startKeyServer([first])
          server.answer(way)
          const verifier = verifierFor({ jwksUri: server.jwksUri })
          const token = await signToken(first)
          expect(await outcome(verifier, token), what).to.equal('unavailable')
          const failed = performance.now()
          server.answer()
          await until(async () => (await outcome(verifier, token)) === 'accepted', 10)
          expect(performance.now() - failed, what).to.be.within(950, 2_500)
          expect(server.asked, what).to.have.length(2)
        }),
      )
    })

    it('keys are unavailable if their endpoint sends nothing, or one byte at a time, for five seconds', async function () {
      this.timeout(10_000)
      const [silent, dripping] = [await startKeyServer([first]), await startKeyServer([first])]
      silent.answer(() => undefined)
      dripping.answer((_, res) => drip(res))
      const token = await signToken(first)
      const started = performance.now()
      const outcomes = await Promise.all(
        [silent, dripping].map(({ jwksUri }) => outcome(verifierFor({ jwksUri }), token)),
      )
      expect(outcomes).to.deep.equal(['unavailable', 'unavailable'])
      expect(performance.now() - started).to.be.within(4_500, 8_000)
    })

    it('cached keys stay in use while their endpoint is down, even after the cache has expired', async () => {
      for (const jwksCacheSeconds of [600, 0]) {
        const server = await startKeyServer([first])
        const verifier = verifierFor({ jwksUri: server.jwksUri, jwksCacheSeconds })
        expect(await outcome(verifier, await signToken(first))).to.equal('accepted')
        server.answer((_, res) => res.destroy())
        for (let round = 0; round < 3; round++) {
          expect(await outcome(verifier, await signToken(first))).to.equal('accepted')
        }
      }
    })

    it('cached keys stay in use while their endpoint hangs: one token waits shortly, the others do not', async () => {
      const server = await startKeyServer([first])
      const verifier = verifierFor({ jwksUri: server.jwksUri, jwksCacheSeconds: 0 })
      const token = await signToken(first)
      expect(await outcome(verifier, token)).to.equal('accepted')
      server.answer(() => undefined)
      const started = performance.now()
      expect(await outcome(verifier, token)).to.equal('accepted')
      const waited = performance.now()
      for (let round = 0; round < 20; round++) expect(await outcome(verifier, token)).to.equal('accepted')
      expect(waited - started).to.be.within(400, 3_000)
      expect(performance.now() - waited).to.be.below(waited - started)
      expect(server.asked).to.have.length(2)
    })

    it('keys are unavailable for an unknown kid while their endpoint is down, however new they are', async () => {
      for (const jwksCooldownSeconds of [30, 0]) {
        const server = await startKeyServer([first])
        const verifier = verifierFor({ jwksUri: server.jwksUri, jwksCooldownSeconds })
        expect(await outcome(verifier, await signToken(first))).to.equal('accepted')
        server.answer((_, res) => res.destroy())
        for (let round = 0; round < 3; round++) {
          expect(await outcome(verifier, await signToken(second))).to.equal('unavailable')
        }
        expect(await outcome(verifier, await signToken(first))).to.equal('accepted')
      }
    })

    it('keys are not fetched for every token with an old or unknown kid while their endpoint is down', async () => {
      const server = await startKeyServer([first])
      const verifier = verifierFor({ jwksUri: server.jwksUri, jwksCacheSeconds: 0 })
      expect(await outcome(verifier, await signToken(first))).to.equal('accepted')
      server.answer((_, res) => res.writeHead(500).end())
      for (let round = 0; round < 20; round++) {
        expect(await outcome(verifier, await signToken(round % 2 === 0 ? first : second))).to.equal(
          round % 2 === 0 ? 'accepted' : 'unavailable',
        )
      }
      expect(server.asked).to.have.length.below(10)
    })

    it('keys are fetched a second after a failure, even without a cooldown', async () => {
      const server = await startKeyServer([first])
      const verifier = verifierFor({ jwksUri: server.jwksUri, jwksCooldownSeconds: 0 })
      expect(await outcome(verifier, await signToken(first))).to.equal('accepted')
      server.answer((_, res) => res.writeHead(500).end())
      for (let times = 0; times < 5; times++)
        expect(await outcome(verifier, await signToken(second))).to.equal('unavailable')
      expect(server.asked).to.have.length(2)
      server.answer()
      server.serve(first, second)
      const token = await signToken(second)
      await until(async () => (await outcome(verifier, token)) === 'accepted', 10)
      expect(server.asked).to.have.length(3)
    })

    it('an error of fetching keys has its cause, and nothing of the token', async () => {
      const server = await startKeyServer([first])
      server.answer((_, res) => res.destroy())
      const token = await signToken(first)
      let thrown: unknown
      try {
        await verifierFor({ jwksUri: server.jwksUri })(verifyInput(token))
      } catch (error) {
        thrown = error
      }
      expect(thrown).to.be.instanceOf(VerifierUnavailableError)
      const { message, cause, retryAfterSeconds } = thrown as VerifierUnavailableError
      expect(message).to.include(ISSUER).and.not.include(token)
      expect(cause).to.be.instanceOf(Error)
      expect(retryAfterSeconds).to.equal(5)
    })
  })
})

/** Writes until the client disconnects. */
function pourForEver(res: ServerResponse): void {
  const chunk = 'x'.repeat(65_536)
  const pour = (): void => {
    while (!res.destroyed && res.write(chunk));
  }
  res.on('drain', pour)
  pour()
}

/** Writes one byte at a time, with pauses. */
function drip(res: ServerResponse): void {
  const timer = setInterval(() => res.write(' '), 100)
  res.once('close', () => clearInterval(timer))
}
