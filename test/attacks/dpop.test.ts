import { generateKeyPairSync } from 'node:crypto'
import type { IncomingMessage } from 'node:http'
import { expect } from 'chai'
import express, { type RequestHandler } from 'express'
import { calculateJwkThumbprint, type JWK, SignJWT, UnsecuredJWT } from 'jose'
import { protectedResourceRouter } from '../../src/express/protected-resource-router.ts'
import { cachedVerifier, jwtVerifier, mcpAuth, type OAuthOptions } from '../../src/index.ts'
import type { DpopMode, DpopOptions } from '../../src/oauth/dpop/options.ts'
import { introspectionVerifier } from '../../src/oauth/verifiers/introspection.ts'
import { createTestIssuer } from '../../src/testing/test-issuer.ts'
import { parseChallenges } from '../support/challenge.ts'
import { createProofKey, type ProofChanges, type ProofKey, proofFor } from '../support/dpop.ts'
import { gatedApp } from '../support/gate-app.ts'
import { listen } from '../support/listen.ts'
import { type RawResponse, rawRequest } from '../support/raw-http.ts'
import { nowSeconds } from '../support/tokens.ts'

const HOST = 'Host: mcp.example.com'
const URL_OF_ROUTE = 'http://mcp.example.com/mcp'
const METADATA = 'http://mcp.example.com/.well-known/oauth-protected-resource'
const ALGORITHMS = 'ES256 ES384 ES512 EdDSA PS256 PS384 PS512 RS256 RS384 RS512'
const issuer = createTestIssuer({ audience: 'https://mcp.example.com/mcp' })

function options(
  dpop: DpopMode | DpopOptions = 'allowed',
  changes: Partial<OAuthOptions> = {},
): OAuthOptions {
  return { issuer: issuer.issuer, verifyToken: jwtVerifier(issuer.verifierOptions), dpop, ...changes }
}

const NOT_VALID = ['The DPoP proof is invalid', 'invalid_dpop_proof'] as const
const NOT_BOUND = ['The access token is not bound to the key of the DPoP proof', 'invalid_token'] as const
const NO_ERROR = (description: string) => [description, undefined] as const

/** Expects the complete 401. */
function expectRefusal(
  response: RawResponse,
  [description, error]: readonly [description: string, error: string | undefined],
  algorithms = ALGORITHMS,
): void {
  const fault = error === undefined ? '' : `error="${error}", error_description="${description}", `
  expect(response.header('www-authenticate')).to.equal(
    `Bearer realm="mcp-server", error="invalid_token", resource_metadata="${METADATA}", error_description="${description}", DPoP ${fault}algs="${algorithms}"`,
  )
  expect(
    parseChallenges(response.header('www-authenticate') ?? '').map(({ scheme }) => scheme),
  ).to.deep.equal(['Bearer', 'DPoP'])
  expect(response.status).to.equal(401)
  expect(response.body).to.equal(`{"error":"invalid_token","error_description":"${description}"}`)
}

describe('DPoP', () => {
  let key: ProofKey
  let other: ProofKey
  let bound: string
  let unbound: string

  before(async () => {
    key = await createProofKey()
    other = await createProofKey()
    bound = await issuer.issueToken({ claims: { cnf: { jkt: key.thumbprint } } })
    unbound = await issuer.issueToken()
  })

  const proof = (changes: ProofChanges = {}, by = key, method = 'GET', url = URL_OF_ROUTE) =>
    proofFor(by, method, url, { token: bound, ...changes })

  async function send(headers: readonly string[], dpop: DpopMode | DpopOptions = 'allowed') {
    const { port } = await listen(gatedApp(options(dpop)))
    return await rawRequest(port, { headers: [HOST, ...headers] })
  }

  describe('accepted requests', () => {
    const good: readonly (readonly [what: string, headers: () => Promise<readonly string[]>])[] = [
      ['a token with its proof', async () => [`Authorization: DPoP ${bound}`, `DPoP: ${await proof()}`]],
      [
        'a scheme in any case, with extra spaces',
        async () => [`AUTHORIZATION: dpop   ${bound}`, `dpop: ${await proof()}`],
      ],
      [
        'a proof whose URL has a query, a fragment, and the default port',
        async () => [
          `Authorization: DPoP ${bound}`,
          `DPoP: ${await proof({}, key, 'GET', 'HTTP://MCP.example.com:80/%6Dcp?a#b')}`,
        ],
      ],
      [
        'a proof that is a minute old, or a minute ahead',
        async () => [
          `Authorization: DPoP ${bound}`,
          `DPoP: ${await proof({ claims: { iat: nowSeconds() + 60 } })}`,
        ],
      ],
    ]
    for (const [what, headers] of good) {
      it(`${what} is accepted`, async () => {
        for (const mode of ['allowed', 'required'] as const) {
          const response = await send(await headers(), mode)
          expect(response.status, response.body).to.equal(200)
          expect(JSON.parse(response.body).token).to.equal(bound)
        }
      })
    }

    it('proofs of every supported algorithm are accepted', async () => {
      const rsa = await createProofKey('RS256')
      for (const alg of ALGORITHMS.split(' ')) {
        const one = /^[PR]S/.test(alg) ? { ...rsa, alg } : await createProofKey(alg)
        const token = await issuer.issueToken({ claims: { cnf: { jkt: one.thumbprint } } })
        const signed = await proofFor(one, 'GET', URL_OF_ROUTE, { token })
        const response = await send([`Authorization: DPoP ${token}`, `DPoP: ${signed}`])
        expect(response.status, alg).to.equal(200)
      }
    })

    it('a Bearer token that is not bound to a key is accepted if DPoP is not required', async () => {
      expect(await send([`Authorization: Bearer ${unbound}`])).to.include({ status: 200 })
      // The token is not bound to a key, so its proof is ignored.
      expect(await send([`Authorization: Bearer ${unbound}`, 'DPoP: nonsense'])).to.include({ status: 200 })
    })
  })

  describe('rejected requests', () => {
    type Attack = readonly [
      what: string,
      headers: () => Promise<readonly string[]> | readonly string[],
      /** `NOT_VALID` unless the row says otherwise. */
      refusal?: readonly [description: string, error: string | undefined],
    ]
    /** Returns the headers of the bound token with this proof. */
    const bearing = (signed: string): readonly string[] => [`Authorization: DPoP ${bound}`, `DPoP: ${signed}`]
    /** The keys are made later, so changes that need them are functions. */
    const withProof =
      (changes: ProofChanges | (() => ProofChanges), by?: () => ProofKey, method?: string, url?: string) =>
      async () =>
        bearing(await proof(typeof changes === 'function' ? changes() : changes, by?.(), method, url))
    const claims = (what: string, ...changed: readonly Readonly<Record<string, unknown>>[]) =>
      changed.map((one): Attack => [`${what}: ${JSON.stringify(one) || 'none'}`, withProof({ claims: one })])
    const attacks: readonly Attack[] = [
      ['no proof', () => [`Authorization: DPoP ${bound}`]],
      ['an empty proof', () => [`Authorization: DPoP ${bound}`, 'DPoP:']],
      [
        'two proofs, both good',
        async () => [`Authorization: DPoP ${bound}`, `DPoP: ${await proof()}`, `DPoP: ${await proof()}`],
      ],
      [
        'two proofs in one header',
        async () => [`Authorization: DPoP ${bound}`, `DPoP: ${await proof()}, ${await proof()}`],
      ],
      ...['POST', 'get', '', 'HEAD'].map(
        (method): Attack => [`a proof for the method '${method}'`, withProof({}, undefined, method)],
      ),
      ...[
        'http://mcp.example.com/other',
        'http://mcp.example.com/mcp/',
        'http://mcp.example.com/MCP',
        'http://mcp.example.com',
        'https://mcp.example.com/mcp',
        'http://mcp.example.com:8080/mcp',
        'http://evil.example/mcp',
        'http://user@mcp.example.com/mcp',
        '/mcp',
        '',
      ].map((url): Attack => [`a proof for the URL '${url}'`, withProof({}, undefined, 'GET', url)]),
      ...claims('a wrong htm', { htm: undefined }, { htm: ['GET'] }),
      ...claims('a wrong htu', { htu: undefined }, { htu: [URL_OF_ROUTE] }, { htu: 5 }),
      ...claims('a wrong ath', { ath: undefined }, { ath: '' }, { ath: 'x'.repeat(43) }),
      ...claims('a wrong jti', { jti: undefined }, { jti: '' }, { jti: 5 }),
      ...claims('a wrong iat', { iat: undefined }, { iat: 'now' }),
      ['a proof made 302 s ago', withLateClaims(-302)],
      ['a proof made 302 s ahead', withLateClaims(302)],
      ['a proof that has expired by its own exp', withLateExpiry()],
      ['a proof for another token', withProof(() => ({ token: unbound }))],
      ['a proof by another key', withProof({}, () => other), NOT_BOUND],
      [
        'a proof by another key that names the right one',
        withProof(
          () => ({ header: { jwk: key.publicJwk } }),
          () => other,
        ),
      ],
      ['a private key in jwk', withProof(() => ({ header: { jwk: key.privateJwk } }))],
      [
        'a part of a private key in jwk',
        withProof(() => ({ header: { jwk: { ...key.publicJwk, dp: 'AAAA' } } })),
      ],
      ['no jwk', withProof({ header: { jwk: undefined } })],
      ['a kid for a jwk', withProof({ header: { jwk: undefined, kid: 'proof' } })],
      ['no typ', withProof({ header: { typ: undefined } })],
      ['the typ of an access token', withProof({ header: { typ: 'at+jwt' } })],
      ['the typ JWT', withProof({ header: { typ: 'JWT' } })],
      [
        'HS256, keyed with what is public',
        async () => {
          const secret = new TextEncoder().encode('a secret that everybody can read, of 32 bytes')
          const k = Buffer.from(secret).toString('base64url')
          const signed = await new SignJWT(await claimsOf(proof()))
            .setProtectedHeader({ typ: 'dpop+jwt', alg: 'HS256', jwk: { kty: 'oct', k } as object })
            .sign(secret)
          return bearing(signed)
        },
      ],
      [
        'alg none',
        async () => {
          const [, payload = ''] = new UnsecuredJWT(await claimsOf(proof())).encode().split('.')
          const header = { typ: 'dpop+jwt', alg: 'none', jwk: key.publicJwk }
          const unsigned = `${Buffer.from(JSON.stringify(header)).toString('base64url')}.${payload}.`
          return bearing(unsigned)
        },
      ],
      [
        'a signature that was changed',
        async () => {
          const signed = await proof()
          const last = signed.at(-3) === 'A' ? 'B' : 'A'
          return bearing(`${signed.slice(0, -3)}${last}${signed.slice(-2)}`)
        },
      ],
      [
        'claims that were changed',
        async () => {
          const [header, , signature] = (await proof()).split('.')
          const [, payload] = (await proof({ claims: { jti: 'another' } })).split('.')
          return bearing(`${header}.${payload}.${signature}`)
        },
      ],
      ['an extension it must understand', withProof({ header: { crit: ['x-unknown'], 'x-unknown': 1 } })],
      ['an oversized proof', withProof({ claims: { padding: 'x'.repeat(8_192) } })],
      ['the access token for a proof', () => [`Authorization: DPoP ${bound}`, `DPoP: ${bound}`]],
      [
        'a token that is not bound',
        async () => [`Authorization: DPoP ${unbound}`, `DPoP: ${await proof({ token: unbound })}`],
        NOT_BOUND,
      ],
      [
        'a bound token as a Bearer token',
        () => [`Authorization: Bearer ${bound}`],
        NO_ERROR('The access token is invalid'),
      ],
      [
        'a bound token as a Bearer token, with its proof',
        async () => [`Authorization: Bearer ${bound}`, `DPoP: ${await proof()}`],
        NO_ERROR('The access token is invalid'),
      ],
      [
        'an unknown token, with a good proof for it',
        async () => ['Authorization: DPoP unknown', `DPoP: ${await proof({ token: 'unknown' })}`],
        NO_ERROR('The access token is invalid'),
      ],
      ['no token', async () => [`DPoP: ${await proof()}`], NO_ERROR('An access token is required')],
      ...[
        ['DPoP'],
        ['DPoP '],
        ['DPoP a b'],
        ['DPoP a, DPoP b'],
        ['DPoP a', 'DPoP a'],
        ['DPoP a', 'Bearer a'],
        ['Basic YTpi', 'DPoP a'],
        [`DPoP ${'a'.repeat(16_385)}`],
      ].map(
        (values): Attack => [
          `the header ${values.join(' and ').slice(0, 40)}`,
          () => values.map((value) => `Authorization: ${value}`),
          NO_ERROR('The Authorization header must contain exactly one bearer token'),
        ],
      ),
    ]
    function withLateClaims(seconds: number) {
      return async () => withProof({ claims: { iat: nowSeconds() + seconds } })()
    }
    function withLateExpiry() {
      return async () => withProof({ claims: { exp: nowSeconds() - 1 } })()
    }
    async function claimsOf(signed: Promise<string>): Promise<Record<string, unknown>> {
      return JSON.parse(Buffer.from((await signed).split('.')[1] ?? '', 'base64url').toString())
    }
    for (const [attack, headers, refusal = NOT_VALID] of attacks)
      it(`DPoP: ${attack}: 401 ${refusal[1] ?? 'without a DPoP error'}`, async () => {
        const given = await headers()
        const bearer = given.some((line) => line.startsWith('Authorization: Bearer'))
        for (const mode of bearer ? (['allowed'] as const) : (['allowed', 'required'] as const)) {
          expectRefusal(await send(given, mode), refusal)
        }
      })

    it('every Bearer token is rejected if DPoP is required', async () => {
      for (const token of [bound, unbound]) {
        expectRefusal(await send([`Authorization: Bearer ${token}`], 'required'), [
          'The access token must come with a DPoP proof',
          'invalid_token',
        ])
      }
    })

    it('a proof that was used before is rejected, even for another request of the same kind', async () => {
      const { port } = await listen(gatedApp(options('allowed')))
      const headers = [HOST, `Authorization: DPoP ${bound}`, `DPoP: ${await proof()}`]
      expect(await rawRequest(port, { headers })).to.include({ status: 200 })
      expectRefusal(await rawRequest(port, { headers }), NOT_VALID)
      const jti = 'the same'
      const first = [`Authorization: DPoP ${bound}`, `DPoP: ${await proof({ claims: { jti } })}`]
      const second = [
        `Authorization: DPoP ${bound}`,
        `DPoP: ${await proof({ claims: { jti, iat: nowSeconds() - 5 } })}`,
      ]
      expect(await rawRequest(port, { headers: [HOST, ...first] })).to.include({ status: 200 })
      expectRefusal(await rawRequest(port, { headers: [HOST, ...second] }), NOT_VALID)
      // Another client can use the same value.
      const token = await issuer.issueToken({ claims: { cnf: { jkt: other.thumbprint } } })
      const theirs = await proofFor(other, 'GET', URL_OF_ROUTE, { token, claims: { jti } })
      const answer = await rawRequest(port, {
        headers: [HOST, `Authorization: DPoP ${token}`, `DPoP: ${theirs}`],
      })
      expect(answer.status).to.equal(200)
    })

    it('one of ten simultaneous uses of a proof is accepted, and the others are rejected', async () => {
      const { port } = await listen(gatedApp(options('allowed')))
      const headers = [HOST, `Authorization: DPoP ${bound}`, `DPoP: ${await proof()}`]
      const answers = await Promise.all(Array.from({ length: 10 }, () => rawRequest(port, { headers })))
      expect(answers.map(({ status }) => status).sort()).to.deep.equal([200, ...new Array(9).fill(401)])
    })

    it('an algorithm that is not configured is rejected, and the challenge lists the configured ones', async () => {
      const response = await send([`Authorization: DPoP ${bound}`, `DPoP: ${await proof()}`], {
        mode: 'allowed',
        algorithms: ['PS256', 'EdDSA'],
      })
      expectRefusal(response, NOT_VALID, 'PS256 EdDSA')
    })

    it('a proof that is older than proofMaxAgeSeconds is rejected', async () => {
      const sent = [
        `Authorization: DPoP ${bound}`,
        `DPoP: ${await proof({ claims: { iat: nowSeconds() - 20 } })}`,
      ]
      expectRefusal(await send(sent, { mode: 'allowed', proofMaxAgeSeconds: 10 }), NOT_VALID)
      expect(await send(sent, { mode: 'allowed', proofMaxAgeSeconds: 30 })).to.include({ status: 200 })
    })

    it('a DPoP request is rejected as an unknown scheme if DPoP is disabled', async () => {
      for (const dpop of ['off', { mode: 'off' }] as const) {
        const response = await send([`Authorization: DPoP ${bound}`, `DPoP: ${await proof()}`], dpop)
        expect(response.status).to.equal(401)
        expect(response.header('www-authenticate')).to.match(/^Bearer [^D]+"An access token is required"$/)
      }
    })
  })

  describe('htu', () => {
    it('htu is compared with the origin of the configured resource and the path of the request', async () => {
      const { port } = await listen(gatedApp(options('allowed', { resource: 'https://mcp.example.com/mcp' })))
      for (const [url, status] of [
        ['https://mcp.example.com/mcp', 200],
        ['http://mcp.example.com/mcp', 401],
        ['http://127.0.0.1/mcp', 401],
      ] as const) {
        const headers = [
          'Host: 127.0.0.1',
          `Authorization: DPoP ${bound}`,
          `DPoP: ${await proof({}, key, 'GET', url)}`,
        ]
        expect(await rawRequest(port, { headers }), url).to.include({ status })
      }
    })

    it('htu is compared with forwarded headers only if the proxy is trusted', async () => {
      for (const trusted of [true, false]) {
        const gate = mcpAuth(options('allowed', { trustProxy: trusted }))
        const { port } = await listen((req, res) => gate(req, res, () => res.end('in')))
        const headers = [
          'Host: internal:8080',
          'X-Forwarded-Proto: https',
          'X-Forwarded-Host: public.example.com',
          `Authorization: DPoP ${bound}`,
          `DPoP: ${await proof({}, key, 'GET', 'https://public.example.com/mcp')}`,
        ]
        expect(await rawRequest(port, { headers })).to.include({ status: trusted ? 200 : 401 })
      }
    })

    it('a proof is rejected if the request has no usable host', async () => {
      const { port } = await listen(gatedApp(options()))
      const headers = ['Host: a"b', `Authorization: DPoP ${bound}`, `DPoP: ${await proof()}`]
      expect(await rawRequest(port, { headers })).to.include({ status: 401 })
    })
  })

  describe('paths that routers and URL parsers read differently', () => {
    const targets: readonly string[] = [
      ...['..', '%2e%2e', '%2E%2E', '.%2e', '%2e.', '.%2E', '%2E.'].map((dots) => `/admin/${dots}/pub/x`),
      ...['.', '%2e', '%2E'].flatMap((dot) => [`/pub/${dot}/x`, `/${dot}/pub/x`, `/pub/x/../x/${dot}/../x`]),
      ...['/pub/x/y/..', '/pub/y/../x', '/../pub/x', '/a/b/../../pub/x', '/admin/../pub/x?a=b'],
      ...['/admin\\..\\pub\\x', '/admin\\../pub/x', '/admin/..\\pub/x', '\\admin\\..\\pub\\x'],
      ...['/admin\\%2e%2e\\pub/x', '/pub\\x', '/\\pub/x', '/admin/..%5Cpub/x', '/admin/..%2Fpub/x'],
      ...['/admin/%252e%252e/pub/x', '/admin/.\t./pub/x', '/pub/x\t', '/admin/..;/pub/x'],
    ]
    const absolute = (target: string): string => `http://mcp.example.com${target}`

    /** Serves every path. The response says if the request was accepted, and if the verifier received its token. */
    async function serveAll(changes: Partial<OAuthOptions> = {}, before?: (req: IncomingMessage) => void) {
      const seen: unknown[] = []
      const verify = jwtVerifier(issuer.verifierOptions)
      const verifyToken: OAuthOptions['verifyToken'] = async (input) => {
        seen.push(input.bearerToken)
        return await verify(input)
      }
      const gate = mcpAuth(options('required', { verifyToken, ...changes }))
      const { port } = await listen((req, res) => {
        before?.(req)
        gate(req, res, () => res.end('in'))
      })
      return { port, seen }
    }

    async function ask(port: number, target: string, url: string): Promise<number> {
      const signed = await proof({}, key, 'GET', url)
      const headers = [HOST, `Authorization: DPoP ${bound}`, `DPoP: ${signed}`]
      return (await rawRequest(port, { target, headers })).status
    }

    for (const target of [...targets, ...targets.filter((target) => !target.startsWith('\\')).map(absolute)])
      it(`DPoP and paths: a proof for /pub/x at ${JSON.stringify(target)}: 401 or 400, and the verifier does not see the token`, async () => {
        const { port, seen } = await serveAll()
        const shown = target.replace('\t', '')
        for (const url of ['/pub/x', shown.startsWith('http') ? new URL(shown).pathname : shown]) {
          // Node.js rejects some of these targets itself.
          const status = await ask(port, target, absolute(url))
          if (!/%2F|%5C|%25|;/.test(target) || url === '/pub/x') expect(status).to.be.oneOf([400, 401])
        }
        if (!/%2F|%5C|%25|;/.test(target)) expect(seen.filter(Boolean)).to.deep.equal([])
      })

    it('paths with control characters and spaces, which HTTP/2 allows, are rejected', async () => {
      for (const path of ['/admin/.\t./pub/x', '/admin/.\n./pub/x', '/admin/.. ', '/pub/x\0', '/pub/\x7F']) {
        const { port, seen } = await serveAll({}, (req) => {
          req.url = path
        })
        expect(await ask(port, '/', absolute('/pub/x')), JSON.stringify(path)).to.equal(401)
        expect(seen.filter(Boolean)).to.deep.equal([])
      }
    })

    it('proofs for unambiguous paths that only look similar are accepted', async () => {
      for (const path of [
        '/...',
        '/..a/x',
        '/a..',
        '/.well-known/x',
        '/a.b/%2ea',
        '/%2e%2e%2e',
        '//pub',
        '/a/',
      ]) {
        for (const target of [path, absolute(path), `${path}?x=/../y`]) {
          const { port } = await serveAll()
          expect(await ask(port, target, absolute(path)), target).to.equal(200)
        }
      }
    })

    it('ambiguous paths are rejected under an Express route and with a configured resource too', async () => {
      const app = express()
      for (const folder of ['/pub', '/admin'])
        app.use(folder, mcpAuth(options('required')) as RequestHandler, (_req, res) => {
          res.end(folder)
        })
      const { port } = await listen(app)
      expect(await ask(port, '/pub/x', absolute('/pub/x'))).to.equal(200)
      for (const target of ['/admin/../pub/x', absolute('/admin/%2e%2e/pub/x')])
        expect(await ask(port, target, absolute('/pub/x'))).to.equal(401)
      const configured = await serveAll({ resource: 'https://mcp.example.com/mcp' })
      expect(await ask(configured.port, '/admin/../mcp', 'https://mcp.example.com/mcp')).to.equal(401)
      expect(await ask(configured.port, '/mcp', 'https://mcp.example.com/mcp')).to.equal(200)
    })
  })

  describe('large RSA keys', () => {
    const big = (bytes: number, first = 0xff): string =>
      Buffer.concat([Buffer.from([first]), Buffer.alloc(bytes - 1, 0xff)]).toString('base64url')
    const E = 'AQAB'
    const keys: readonly (readonly [what: string, jwk: object])[] = [
      ['a modulus of 4,097 bits', { n: big(513, 1), e: E }],
      ['a modulus of 8,192 bits', { n: big(1_024), e: E }],
      ['a modulus of 16,384 bits', { n: big(2_048), e: E }],
      [
        'a modulus of 4,104 bits behind zeros',
        { n: Buffer.concat([Buffer.alloc(9), Buffer.alloc(513, 255)]).toString('base64url'), e: E },
      ],
      ['an exponent of 2,048 bits', { n: big(256), e: big(256) }],
      ['an exponent of 33 bits', { n: big(256), e: big(5, 1) }],
      ['no modulus', { e: E }],
      ['a modulus that is not a string', { n: [big(256)], e: E }],
    ]
    const forgedWith = async (jwk: object): Promise<string> => {
      const [, payload, signature] = (await proof()).split('.')
      const header = { typ: 'dpop+jwt', alg: 'RS256', jwk: { kty: 'RSA', ...jwk } }
      return `${Buffer.from(JSON.stringify(header)).toString('base64url')}.${payload}.${signature}`
    }

    for (const [attack, jwk] of keys)
      it(`DPoP and RSA keys: ${attack}: 401 before a signature is verified`, async () => {
        const imported: string[] = []
        const { importKey } = crypto.subtle
        crypto.subtle.importKey = (...given: any[]) => {
          imported.push(given[1].kty)
          return Reflect.apply(importKey, crypto.subtle, given)
        }
        try {
          const signed = await forgedWith(jwk)
          const response = await send([`Authorization: DPoP ${bound}`, `DPoP: ${signed}`])
          expectRefusal(response, NOT_VALID)
        } finally {
          crypto.subtle.importKey = importKey
        }
        expect(imported).to.deep.equal([])
      })

    it('RSA keys of 4,096 bits with an exponent of 3 are accepted', async function () {
      this.timeout(60_000)
      const pair = generateKeyPairSync('rsa', { modulusLength: 4_096, publicExponent: 3 })
      const jwk = pair.publicKey.export({ format: 'jwk' }) as JWK
      const thumbprint = await calculateJwkThumbprint(jwk)
      const token = await issuer.issueToken({ claims: { cnf: { jkt: thumbprint } } })
      const rsa: ProofKey = {
        ...{ alg: 'PS256', publicJwk: jwk, privateJwk: jwk, thumbprint },
        sign: (header, claims) =>
          new SignJWT(claims).setProtectedHeader(header as { alg: string }).sign(pair.privateKey),
      }
      const signed = await proofFor(rsa, 'GET', URL_OF_ROUTE, { token })
      const response = await send([`Authorization: DPoP ${token}`, `DPoP: ${signed}`])
      expect(response.status).to.equal(200)
    })
  })

  describe('nonces', () => {
    const REFUSAL = ['The DPoP proof must include a nonce issued by this server', 'use_dpop_nonce'] as const
    const secret = 'the same secret on every node, of 32 characters'

    it('with the option nonce, issues a nonce that every node with the same secret accepts', async () => {
      const dpop = { mode: 'required', nonce: { secret } } as const
      const first = await send([`Authorization: DPoP ${bound}`, `DPoP: ${await proof()}`], dpop)
      expectRefusal(first, REFUSAL)
      expect(first.header('access-control-expose-headers')).to.equal('DPoP-Nonce')
      const nonce = first.header('dpop-nonce')
      expect(nonce).to.match(/^[\w-]{43}$/)
      const again = [`Authorization: DPoP ${bound}`, `DPoP: ${await proof({ claims: { nonce } })}`]
      const second = await send(again, dpop)
      expect(second.status).to.equal(200)
      expect(second.header('dpop-nonce')).to.equal(undefined)
      for (const wrong of ['', 'x', `${nonce}x`, 5]) {
        const sent = [`Authorization: DPoP ${bound}`, `DPoP: ${await proof({ claims: { nonce: wrong } })}`]
        expectRefusal(await send(sent, dpop), REFUSAL)
      }
      // A nonce of another secret, and a nonce of the process's own secret.
      for (const other of [{ secret: secret.toUpperCase() }, true]) {
        const sent = [`Authorization: DPoP ${bound}`, `DPoP: ${await proof({ claims: { nonce } })}`]
        expectRefusal(await send(sent, { mode: 'allowed', nonce: other }), REFUSAL)
      }
    })

    it('a nonce is requested only for proofs that are otherwise valid', async () => {
      const dpop = { mode: 'required', nonce: true } as const
      const sent = [`Authorization: DPoP ${bound}`, `DPoP: ${await proof({}, key, 'POST')}`]
      const response = await send(sent, dpop)
      expectRefusal(response, NOT_VALID)
      expect(response.header('dpop-nonce')).to.equal(undefined)
    })
  })

  describe('replay stores', () => {
    const withStore = async (use: () => boolean | Promise<boolean>, verifyTimeoutMs = 1_000) => {
      const dpop = { mode: 'allowed', replayStore: { use } } as const
      const { port } = await listen(gatedApp(options(dpop, { verifyTimeoutMs })))
      return await rawRequest(port, {
        headers: [HOST, `Authorization: DPoP ${bound}`, `DPoP: ${await proof()}`],
      })
    }

    it('a replay store that fails or hangs causes a 503 without a challenge', async () => {
      const secret = 'redis://user:secret@host'
      for (const use of [
        () => {
          throw new Error(secret)
        },
        () => Promise.reject(new Error(secret)),
        () => new Promise<boolean>(() => undefined),
      ]) {
        const response = await withStore(use, 30)
        expect(response.status).to.equal(503)
        expect(response.header('retry-after')).to.equal('5')
        expect(response.header('www-authenticate')).to.equal(undefined)
        expect(response.body).not.to.include('secret')
      }
    })

    it('a replay store accepts a proof only by returning true', async () => {
      for (const [answer, status] of [
        [true, 200],
        [false, 401],
        [undefined, 401],
        [1, 401],
        ['OK', 401],
      ] as const) {
        expect(await withStore(async () => answer as boolean), String(answer)).to.include({ status })
      }
    })

    it('a replay store is not called for proofs of rejected tokens', async () => {
      let asked = 0
      const replayStore = {
        use: () => {
          asked++
          return true
        },
      }
      for (const token of ['unknown', unbound]) {
        const headers = [`Authorization: DPoP ${token}`, `DPoP: ${await proof({ token })}`]
        expect(await send(headers, { mode: 'allowed', replayStore })).to.include({ status: 401 })
      }
      expect(asked).to.equal(0)
    })
  })

  describe('verifiers of the application', () => {
    const gateFor = async (cnf: unknown, dpop: DpopMode) => {
      const verifyToken = async () => ({ valid: true, cnf: cnf as null })
      return await listen(gatedApp({ issuer: 'https://auth.example.com', verifyToken, dpop }))
    }

    it('the cnf of a verifier decides if the token is accepted as DPoP or as Bearer', async () => {
      for (const [cnf, asDpop, asBearer] of [
        [() => ({ jkt: key.thumbprint }), 200, 401],
        [() => ({ jkt: other.thumbprint }), 401, 401],
        [() => ({ 'x5t#S256': 'abc' }), 401, 401],
        [() => ({ jkt: key.thumbprint, 'x5t#S256': 'abc' }), 401, 401],
        [() => ({}), 401, 200],
        [() => null, 401, 200],
        [() => undefined, 401, 200],
        [() => 'jkt', 401, 401],
      ] as const) {
        const { port } = await gateFor(cnf(), 'allowed')
        const sent = await proofFor(key, 'GET', URL_OF_ROUTE, { token: 'opaque' })
        const dpop = [HOST, 'Authorization: DPoP opaque', `DPoP: ${sent}`]
        expect(await rawRequest(port, { headers: dpop }), JSON.stringify(cnf())).to.include({
          status: asDpop,
        })
        const bearer = [HOST, 'Authorization: Bearer opaque']
        expect(await rawRequest(port, { headers: bearer }), JSON.stringify(cnf())).to.include({
          status: asBearer,
        })
        const off = await gateFor(cnf(), 'off')
        expect(await rawRequest(off.port, { headers: bearer })).to.include({ status: asBearer })
      }
    })

    it('a verifier of the application gets the key of the proof, and is not called with an invalid proof', async () => {
      const inputs: unknown[] = []
      const verifyToken: OAuthOptions['verifyToken'] = async ({ bearerToken, proofKey }) => {
        inputs.push([bearerToken, proofKey])
        return { valid: true, cnf: { jkt: proofKey } }
      }
      const { port } = await listen(
        gatedApp({ issuer: 'https://auth.example.com', verifyToken, dpop: 'allowed' }),
      )
      const sent = await proofFor(key, 'GET', URL_OF_ROUTE, { token: 'opaque' })
      for (const headers of [
        ['Authorization: DPoP opaque', `DPoP: ${sent}`],
        ['Authorization: DPoP opaque'],
        ['Authorization: Bearer opaque'],
      ]) {
        await rawRequest(port, { headers: [HOST, ...headers] })
      }
      expect(inputs).to.deep.equal([
        ['opaque', key.thumbprint],
        [undefined, undefined],
        ['opaque', undefined],
      ])
    })
  })

  describe('other members in cnf', () => {
    // The keys are made later, so these stand for their thumbprints.
    const [OWN, FOREIGN] = ['<own key>', '<foreign key>']
    const filled = (cnf: object): Record<string, unknown> =>
      JSON.parse(JSON.stringify(cnf).replaceAll(OWN, key.thumbprint).replaceAll(FOREIGN, other.thumbprint))

    const cases: readonly (readonly [cnf: Record<string, unknown>, asDpop: number, asBearer: number])[] = [
      [{ jkt: OWN, 'kc-jkt-type': 'DPoP' }, 200, 401],
      [{ 'kc-jkt-type': 'DPoP', jkt: OWN, later: { nested: [1] } }, 200, 401],
      [{ jkt: OWN, JKT: 'x', 'X5T#S256': 'x' }, 200, 401],
      [{ jkt: FOREIGN, 'kc-jkt-type': 'DPoP' }, 401, 401],
      [{ jkt: [OWN], 'kc-jkt-type': 'DPoP' }, 401, 401],
      [{ jkt: null, 'kc-jkt-type': 'DPoP' }, 401, 401],
      ...['x5t#S256', 'jwk', 'jwe', 'kid', 'jku', 'osc'].flatMap(
        (method) =>
          [
            [{ jkt: OWN, [method]: 'x' }, 401, 401],
            [{ [method]: 'x' }, 401, 401],
          ] as const,
      ),
      [{ 'kc-jkt-type': 'DPoP' }, 401, 401],
      [{}, 401, 200],
    ]

    type Start = (cnf: Record<string, unknown>) => Promise<readonly [OAuthOptions['verifyToken'], string]>
    const verifiers: Readonly<Record<string, Start>> = {
      jwtVerifier: async (cnf) => [
        jwtVerifier(issuer.verifierOptions),
        await issuer.issueToken({ claims: { cnf } }),
      ],
      introspectionVerifier: async (cnf) => {
        const aud = 'https://mcp.example.com/mcp'
        const { origin } = await listen((_, res) => {
          res.setHeader('content-type', 'application/json')
          res.end(JSON.stringify({ active: true, aud, cnf }))
        })
        const endpoint = `${origin}/introspect`
        const credentials = { clientId: 'mcp', clientSecret: 'secret' }
        return [introspectionVerifier({ endpoint, ...credentials, audience: aud }), 'opaque']
      },
      'a verifier of the application': async (cnf) => [async () => ({ valid: true, cnf }), 'opaque'],
      'cachedVerifier()': async (cnf) => [cachedVerifier(async () => ({ valid: true, cnf })), 'opaque'],
    }

    for (const [name, start] of Object.entries(verifiers))
      for (const [cnf, asDpop, asBearer] of cases)
        it(`DPoP with other members in cnf: ${name}, cnf ${JSON.stringify(cnf)}: ${asDpop} as DPoP, ${asBearer} as Bearer`, async () => {
          const [verifyToken, token] = await start(filled(cnf))
          const { port } = await listen(gatedApp(options('allowed', { verifyToken })))
          const signed = await proof({ token })
          const dpop = [HOST, `Authorization: DPoP ${token}`, `DPoP: ${signed}`]
          expect(await rawRequest(port, { headers: dpop })).to.include({ status: asDpop })
          const bearer = [HOST, `Authorization: Bearer ${token}`]
          expect(await rawRequest(port, { headers: bearer })).to.include({ status: asBearer })
        })
  })

  it('DPoP is announced in the metadata document if it is enabled', async () => {
    for (const [dpop, members] of [
      ['off', {}],
      ['allowed', { dpop_signing_alg_values_supported: ALGORITHMS.split(' ') }],
      [
        { mode: 'required', algorithms: ['ES256'] },
        { dpop_signing_alg_values_supported: ['ES256'], dpop_bound_access_tokens_required: true },
      ],
    ] as const) {
      const { origin } = await listen(express().use(protectedResourceRouter(options(dpop)) as RequestHandler))
      const document = await (await fetch(`${origin}/.well-known/oauth-protected-resource`)).json()
      expect(document).to.deep.equal({
        resource: origin,
        authorization_servers: [issuer.issuer],
        bearer_methods_supported: ['header'],
        ...members,
      })
    }
  })

  it('a 403 has a DPoP challenge after the Bearer challenge', async () => {
    const { port } = await listen(gatedApp(options('allowed', { scopes: ['mcp:read'] })))
    const headers = [HOST, `Authorization: DPoP ${bound}`, `DPoP: ${await proof()}`]
    const response = await rawRequest(port, { headers })
    expect(response.status).to.equal(403)
    const [bearer, dpop] = parseChallenges(response.header('www-authenticate') ?? '')
    expect(bearer).to.deep.include({ scheme: 'Bearer' })
    expect(bearer?.parameters).to.include({ error: 'insufficient_scope', scope: 'mcp:read' })
    expect(dpop).to.deep.equal({ scheme: 'DPoP', token68: undefined, parameters: { algs: ALGORITHMS } })
  })
})
