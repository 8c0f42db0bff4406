import type { IncomingMessage, ServerResponse } from 'node:http'
import { expect } from 'chai'
import { expectTypeOf } from 'expect-type'
import { jwtVerifier, VerifierUnavailableError } from '../../../src/index.ts'
import type { OAuthOptions, VerifyToken } from '../../../src/oauth/options.ts'
import type { JwtUser, JwtVerifierOptions } from '../../../src/oauth/verifiers/jwt-options.ts'
import { parseChallenge } from '../../support/challenge.ts'
import { fakeTime } from '../../support/fake-time.ts'
import { gatedApp, oauthOptions } from '../../support/gate-app.ts'
import { listen } from '../../support/listen.ts'
import { rawRequest } from '../../support/raw-http.ts'
import { AUDIENCE, createSigningKey, type SigningKey, signToken, verifyInput } from '../../support/tokens.ts'
import { until } from '../../support/until.ts'

type Ask = Extract<JwtVerifierOptions['issuers'], (iss: string) => unknown>
type Way = (req: IncomingMessage, res: ServerResponse, issuer: string) => unknown

const TENANT = 'https://a.example.com'

describe('issuers as a function', () => {
  const { fetch } = globalThis
  let key: SigningKey
  let other: SigningKey
  /** The questions to the function, and the requests, in order. */
  let log: string[]
  let way: Way

  before(async () => {
    ;[key, other] = await Promise.all([createSigningKey('ES256', 'one'), createSigningKey('ES256', 'other')])
  })

  /** Requests to https go to a server on loopback, which learns the issuer from a header. */
  beforeEach(async () => {
    log = []
    way = documents
    const { origin } = await listen((req, res) => {
      const issuer = String(req.headers['x-issuer'])
      log.push(`${issuer}${req.url}`)
      way(req, res, issuer)
    })
    globalThis.fetch = async (input, init) => {
      const url = new URL(String(input))
      if (url.protocol !== 'https:') return await fetch(input, init)
      const headers = { ...Object.fromEntries(new Headers(init?.headers)), 'x-issuer': url.origin }
      return await fetch(`${origin}${url.pathname}`, { ...init, headers })
    }
  })
  afterEach(() => {
    globalThis.fetch = fetch
  })

  /** Responds like an authorization server whose only key is `key`. */
  const documents: Way = (req, res, issuer) => respond(req, res, issuer, { keys: [key.jwk] })

  function respond(req: IncomingMessage, res: ServerResponse, issuer: string, set: object): void {
    const isMetadata = req.url?.startsWith('/.well-known/oauth-authorization-server') === true
    res.setHeader('Content-Type', 'application/json')
    res.end(JSON.stringify(isMetadata ? { issuer, jwks_uri: `${issuer}/jwks` } : set))
  }

  function verifierFor(ask: Ask, options: Partial<JwtVerifierOptions> = {}): VerifyToken {
    const issuers: Ask = (iss) => {
      log.push(`? ${iss}`)
      return ask(iss)
    }
    return jwtVerifier({ issuers, audience: AUDIENCE, ...options })
  }

  async function outcome(verifier: VerifyToken, token: string): Promise<string> {
    try {
      return (await verifier(verifyInput(token)))?.valid === true ? 'accepted' : 'refused'
    } catch (error) {
      expect(error).to.be.instanceOf(VerifierUnavailableError)
      return 'unavailable'
    }
  }

  const requests = () => log.filter((line) => !line.startsWith('?'))
  const tenant = (index: number) => `https://t${index}.example.com`

  it('a token of an issuer that the function accepts is accepted, and nothing is fetched before it is asked', async () => {
    const verifier = verifierFor(async (iss) => iss === TENANT)
    const token = await signToken(key, { iss: TENANT })
    expect(await outcome(verifier, token)).to.equal('accepted')
    expect(log).to.deep.equal([
      `? ${TENANT}`,
      `${TENANT}/.well-known/oauth-authorization-server`,
      `${TENANT}/jwks`,
    ])
    expect(await outcome(verifier, token)).to.equal('accepted')
    expect(log.slice(3)).to.deep.equal([`? ${TENANT}`])
  })

  it('a token of an issuer that the function no longer accepts is rejected, although its keys are known', async () => {
    let accepts = true
    const verifier = verifierFor(() => accepts)
    const token = await signToken(key, { iss: TENANT })
    expect(await outcome(verifier, token)).to.equal('accepted')
    accepts = false
    expect(await outcome(verifier, token)).to.equal('refused')
  })

  for (const [iss, named] of [
    [`${TENANT}/`, TENANT],
    [TENANT, `${TENANT}/`],
  ] as const)
    it(`a token of ${iss} is rejected if the metadata names ${named}`, async () => {
      way = (req, res) => respond(req, res, named, { keys: [key.jwk] })
      const verifier = verifierFor(() => true)
      for (let round = 0; round < 2; round++)
        expect(await outcome(verifier, await signToken(key, { iss }))).to.equal('refused')
      expect(await outcome(verifier, await signToken(key, { iss: named }))).to.equal('accepted')
      expect(await outcome(verifier, await signToken(key, { iss }))).to.equal('refused')
    })

  const noes: readonly (readonly [what: string, ask: () => unknown])[] = [
    ['false', () => false],
    ['a promise of false', async () => false],
    ['undefined', () => undefined],
    ['1', () => 1],
    ['the string true', async () => 'true'],
    ['an object', () => ({})],
  ]
  for (const [what, ask] of noes) {
    it(`a token is rejected, and nothing is fetched, if the function returns ${what}`, async () => {
      const token = await signToken(key, { iss: TENANT })
      expect(await outcome(verifierFor(ask as Ask), token)).to.equal('refused')
      expect(log).to.deep.equal([`? ${TENANT}`])
    })
  }

  const failures: readonly (readonly [what: string, ask: () => unknown])[] = [
    [
      'throws',
      () => {
        throw new Error('secret')
      },
    ],
    ['rejects', async () => Promise.reject(new Error('secret'))],
    [
      'throws VerifierUnavailableError',
      () => {
        throw new VerifierUnavailableError('secret', { retryAfterSeconds: 7 })
      },
    ],
    [
      'returns a thenable that throws',
      () => ({
        // biome-ignore lint/suspicious/noThenProperty: a thenable is tested
        then() {
          throw new Error('secret')
        },
      }),
    ],
  ]
  for (const [what, ask] of failures) {
    it(`the response is 503 without the reason if the function ${what}`, async () => {
      const verifyToken = verifierFor(ask as Ask)
      const { port } = await listen(gatedApp(oauthOptions({ resource: AUDIENCE, verifyToken })))
      const token = await signToken(key, { iss: TENANT })
      const response = await rawRequest(port, { headers: ['Host: a', `Authorization: Bearer ${token}`] })
      expect(response.status).to.equal(503)
      expect(response.header('retry-after')).to.equal(what.includes('Unavailable') ? '7' : '5')
      expect(response.body).not.to.include('secret')
      expect(requests()).to.deep.equal([])
    })
  }

  it('a function that never settles is unavailable after 5 s, without a gate too', async () => {
    const token = await signToken(key, { iss: TENANT })
    const time = fakeTime()
    try {
      const asked = outcome(
        verifierFor(() => new Promise(() => undefined)),
        token,
      )
      await until(() => log.length === 1)
      time.advance(5_000)
      expect(await asked).to.equal('unavailable')
    } finally {
      time.restore()
    }
  })

  const asked: readonly string[] = [
    TENANT,
    `${TENANT}/`,
    `${TENANT}/tenant/v2.0`,
    `${TENANT}:8443`,
    'https://127.0.0.1:8443/a@b',
    `${TENANT}/${'x'.repeat(1_024 - TENANT.length - 1)}`,
  ]
  for (const iss of asked) {
    it(`the function is asked about ${iss.slice(0, 40)}, of ${iss.length} characters`, async () => {
      expect(
        await outcome(
          verifierFor(() => false),
          await signToken(key, { iss }),
        ),
      ).to.equal('refused')
      expect(log).to.deep.equal([`? ${iss}`])
    })
  }

  const unasked: readonly (readonly [what: string, iss: unknown])[] = [
    ['absent', undefined],
    ['a number', 5],
    ['a list', [TENANT]],
    ['not a URL', 'a.example.com'],
    ['empty', ''],
    ['http', 'http://a.example.com'],
    ['http on loopback', 'http://127.0.0.1'],
    ['of another scheme', 'file:///etc/passwd'],
    ['longer than 1,024 characters', `${TENANT}/${'x'.repeat(1_024 - TENANT.length)}`],
    ['with a user', 'https://user@a.example.com'],
    ['with a password', 'https://:secret@a.example.com'],
    ['with empty credentials', 'https://@a.example.com'],
    ['with a query', `${TENANT}/?tenant=1`],
    ['with an empty query', `${TENANT}?`],
    ['with a fragment', `${TENANT}/#a`],
    ['with an empty fragment', `${TENANT}#`],
    ['with a backslash', 'https://evil.example\\.a.example.com'],
    ['with a tab', 'https://a.\texample.com'],
    ['with a space', `${TENANT} `],
    ['with an upper-case host', 'https://A.example.com'],
    ['with the default port', `${TENANT}:443`],
    ['with dot segments', `${TENANT}/x/../y`],
    ['without slashes', 'https:a.example.com'],
  ]
  for (const [what, iss] of unasked) {
    it(`a token is rejected without asking the function if iss is ${what}`, async () => {
      const verifyToken = verifierFor(() => true)
      const { port } = await listen(gatedApp(oauthOptions({ resource: AUDIENCE, verifyToken })))
      const token = await signToken(key, { iss })
      const response = await rawRequest(port, { headers: ['Host: a', `Authorization: Bearer ${token}`] })
      expect(response.status).to.equal(401)
      expect(parseChallenge(response.header('www-authenticate') ?? '').error).to.equal('invalid_token')
      expect(log).to.deep.equal([])
    })
  }

  const keysOf = (count: number) => ({
    keys: [key.jwk, ...Array.from({ length: count - 1 }, (_, index) => ({ ...other.jwk, kid: `k${index}` }))],
  })
  const padded = (bytes: number, of: object) => {
    const text = JSON.stringify({ ...of, padding: '' })
    return JSON.stringify({ ...of, padding: 'x'.repeat(bytes - Buffer.byteLength(text)) })
  }
  const sizes: readonly (readonly [what: string, expected: string, way: Way])[] = [
    ['100 keys', 'accepted', (req, res, issuer) => respond(req, res, issuer, keysOf(100))],
    ['101 keys', 'unavailable', (req, res, issuer) => respond(req, res, issuer, keysOf(101))],
    [
      'a key set of 64 KiB',
      'accepted',
      (req, res, issuer) =>
        req.url === '/jwks' ? res.end(padded(65_536, keysOf(1))) : documents(req, res, issuer),
    ],
    [
      'a key set of more than 64 KiB',
      'unavailable',
      (req, res, issuer) =>
        req.url === '/jwks' ? res.end(padded(65_537, keysOf(1))) : documents(req, res, issuer),
    ],
    [
      'metadata of more than 64 KiB',
      'unavailable',
      (_, res, issuer) => {
        res.setHeader('Content-Type', 'application/json')
        res.end(padded(65_537, { issuer, jwks_uri: `${issuer}/jwks` }))
      },
    ],
    [
      'a redirect to its keys',
      'unavailable',
      (req, res, issuer) =>
        req.url === '/jwks'
          ? res.writeHead(302, { location: `${issuer}/moved` }).end()
          : documents(req, res, issuer),
    ],
    [
      'a redirect to its metadata',
      'unavailable',
      (_, res, issuer) => res.writeHead(302, { location: `${issuer}/moved` }).end(),
    ],
    ['null as its key set', 'unavailable', (req, res, issuer) => respond(req, res, issuer, null as never)],
  ]
  for (const [what, expected, sizedWay] of sizes) {
    it(`a token of an issuer with ${what} is ${expected}`, async () => {
      way = sizedWay
      const token = await signToken(key, { iss: TENANT })
      expect(
        await outcome(
          verifierFor(() => true),
          token,
        ),
      ).to.equal(expected)
      expect(log).not.to.include(`${TENANT}/moved`)
    })
  }

  it('while keys cannot be fetched, each issuer is asked at most once in a second', async () => {
    way = (_, res) => res.writeHead(503).end()
    const verifier = verifierFor(() => true)
    const tokens = await Promise.all([1, 2, 3].map((index) => signToken(key, { iss: tenant(index) })))
    for (let times = 0; times < 5; times++)
      for (const token of tokens) expect(await outcome(verifier, token)).to.equal('unavailable')
    expect(requests()).to.deep.equal(
      [1, 2, 3].map((index) => `${tenant(index)}/.well-known/oauth-authorization-server`),
    )
    const failed = performance.now()
    way = documents
    await until(async () => (await outcome(verifier, tokens[0] as string)) === 'accepted', 10)
    expect(performance.now() - failed).to.be.within(800, 2_500)
  })

  it('keys of the 100 issuers that were used last are kept', async () => {
    const verifier = verifierFor(() => true)
    const tokens = await Promise.all(
      Array.from({ length: 101 }, (_, index) => signToken(key, { iss: tenant(index) })),
    )
    const use = async (index: number) => {
      expect(await outcome(verifier, tokens[index] as string)).to.equal('accepted')
    }
    for (let index = 0; index < 100; index++) await use(index)
    await use(0)
    expect(requests()).to.have.length(200)
    await use(100)
    expect(requests()).to.have.length(202)
    await use(0)
    await use(2)
    expect(requests()).to.have.length(202)
    await use(1)
    expect(requests()).to.have.length(204)
  })

  it('invented issuers that the function accepts do not replace the keys of real ones', async () => {
    const verifier = verifierFor(() => true)
    const token = await signToken(key, { iss: TENANT })
    expect(await outcome(verifier, token)).to.equal('accepted')
    way = (_, res) => res.writeHead(503).end()
    const invented = await Promise.all(
      Array.from({ length: 150 }, (_, index) => signToken(key, { iss: tenant(index) })),
    )
    for (const one of invented) expect(await outcome(verifier, one)).to.equal('unavailable')
    log = []
    expect(await outcome(verifier, token)).to.equal('accepted')
    expect(requests()).to.deep.equal([])
  })

  it('an issuer whose keys could not be fetched again is asked at most once in a second, also if it was replaced', async () => {
    const verifier = verifierFor(() => true, { jwksCacheSeconds: 0 })
    const token = await signToken(key, { iss: TENANT })
    expect(await outcome(verifier, token)).to.equal('accepted')
    way = (req, res, issuer) => (issuer === TENANT ? res.writeHead(503).end() : documents(req, res, issuer))
    const others = await Promise.all(
      Array.from({ length: 100 }, (_, index) => signToken(key, { iss: tenant(index) })),
    )
    for (const one of others.slice(0, 99)) expect(await outcome(verifier, one)).to.equal('accepted')
    log = []
    // Used before the others, so that it is the one that is replaced.
    for (const one of others.slice(0, 99)) expect(await outcome(verifier, one)).to.equal('accepted')
    const requestsTo = () => requests().filter((line) => line.startsWith(TENANT))
    const before = requestsTo().length
    // All of this happens within the second.
    const time = fakeTime()
    try {
      expect(await outcome(verifier, token)).to.equal('accepted')
      expect(requestsTo()).to.have.length(before + 1)
      await Promise.all(others.map((one) => outcome(verifier, one)))
      expect(await outcome(verifier, token)).to.equal('accepted')
      expect(requestsTo()).to.have.length(before + 1)
    } finally {
      time.restore()
    }
  })

  it('keys of at most 1,000 issuers are fetched at the same time', async () => {
    let fetched = 0
    const ends: (() => void)[] = []
    globalThis.fetch = () => {
      fetched++
      return new Promise((_, reject) => ends.push(() => reject(new Error('ended'))))
    }
    const verifier = verifierFor(() => true)
    const tokens = await Promise.all(
      Array.from({ length: 1_001 }, (_, index) => signToken(key, { iss: tenant(index) })),
    )
    const outcomes = tokens.slice(0, 1_000).map((token) => outcome(verifier, token))
    await until(() => fetched === 1_000)
    expect(await outcome(verifier, tokens[1_000] as string)).to.equal('unavailable')
    expect(fetched).to.equal(1_000)
    for (const end of ends) end()
    expect(new Set(await Promise.all(outcomes))).to.deep.equal(new Set(['unavailable']))
  })

  it('the type of the function is checked', () => {
    const options = { audience: AUDIENCE }
    expectTypeOf(jwtVerifier({ ...options, issuers: (iss) => iss === TENANT })).toEqualTypeOf<
      VerifyToken<unknown, JwtUser>
    >()
    jwtVerifier({ ...options, issuers: async () => true })
    // @ts-expect-error only booleans decide
    jwtVerifier({ ...options, issuers: () => 'yes' })
    // @ts-expect-error an iss is a string
    jwtVerifier({ ...options, issuers: (iss: number) => iss === 1 })
    expectTypeOf<OAuthOptions['authorizationServers']>()
      .extract<(request: Request) => unknown>()
      .returns.toEqualTypeOf<readonly string[] | undefined>()
  })
})
