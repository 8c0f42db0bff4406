import { createHmac, type KeyObject, sign } from 'node:crypto'
import { once } from 'node:events'
import { createServer, type RequestListener, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { expect } from 'chai'
import express from 'express'
import { CompactEncrypt } from 'jose'
import { type JwtVerifierOptions, jwtVerifier, mcpAuth } from '../../src/index.ts'
import {
  AUDIENCE,
  claimsWith,
  createSigningKey,
  ISSUER,
  nowSeconds,
  type SigningKey,
} from '../support/tokens.ts'

const SECRET = 'a shared secret of more than thirty-two bytes'

/** The outcomes of requests; `accepted` is 200. */
const DESCRIPTIONS = {
  invalid: 'The access token is invalid',
  expired: 'The access token has expired',
  wrong_resource: 'The access token was issued for another resource',
  malformed: 'The Authorization header must contain exactly one bearer token',
  insufficient_scope: 'The access token does not have the required scope',
  accepted: undefined,
} as const

type Answer = keyof typeof DESCRIPTIONS

/** The keys of the issuer and of the attacker, and the URLs of the test servers. */
interface Kit {
  readonly rsa: SigningKey
  readonly ec: SigningKey
  readonly p384: SigningKey
  readonly ed: SigningKey
  /** A key of the set that is for encryption. */
  readonly enc: SigningKey
  /** The key of the attacker. */
  readonly evil: SigningKey
  /** A server that must never receive a request. */
  readonly canary: string
}

type Maker = (kit: Kit) => string | Promise<string>
/** A token is invalid unless the row says otherwise. */
type Row = readonly [name: string, make: Maker, answer?: Answer]

const base64url = (text: string | Uint8Array): string => Buffer.from(text).toString('base64url')
const json = (value: unknown): string => base64url(JSON.stringify(value))
const good = (changes = {}): object =>
  claimsWith({ scope: 'mcp:read', exp: nowSeconds() + 3_600, ...changes })

/** Returns a token of three parts that the attacker chooses. */
function craft(header: unknown, payload: string | Uint8Array, signer: (data: Buffer) => Uint8Array): string {
  const signed = `${typeof header === 'string' ? header : json(header)}.${base64url(payload)}`
  return `${signed}.${base64url(signer(Buffer.from(signed)))}`
}

const byRsa =
  (key: KeyObject) =>
  (data: Buffer): Uint8Array =>
    sign('sha256', data, key)
const byEc =
  (key: KeyObject, hash = 'sha256') =>
  (data: Buffer): Uint8Array =>
    sign(hash, data, { key, dsaEncoding: 'ieee-p1363' })
const byHmac =
  (secret: string | Uint8Array, hash = 'sha256') =>
  (data: Buffer): Uint8Array =>
    createHmac(hash, secret).update(data).digest()
const unsigned = (): Uint8Array => new Uint8Array(0)

/** Returns a token with any content, signed with the issuer's RSA key. */
const signed =
  (payload: string | Uint8Array, header: object = {}): Maker =>
  ({ rsa }) =>
    craft({ alg: 'RS256', kid: rsa.kid, ...header }, payload, byRsa(rsa.privateKey))
const issued =
  (changes: object, header: object = {}): Maker =>
  (kit) =>
    signed(JSON.stringify({ ...good(), ...changes }), header)(kit)
/** Returns a token signed with the attacker's key. */
const forged =
  (header: (kit: Kit) => object, changes: object = {}): Maker =>
  (kit) =>
    craft({ alg: 'RS256', ...header(kit) }, JSON.stringify(good(changes)), byRsa(kit.evil.privateKey))
const parts = async (make: Maker, kit: Kit): Promise<[string, string, string]> =>
  (await make(kit)).split('.') as [string, string, string]
const ecToken = ({ ec }: Kit, header: object = {}, change = (made: Uint8Array) => made): string =>
  craft({ alg: 'ES256', kid: ec.kid, ...header }, JSON.stringify(good()), (data) =>
    change(byEc(ec.privateKey)(data)),
  )
const pem = ({ publicKey }: SigningKey): string => publicKey.export({ type: 'spki', format: 'pem' }) as string

/** The order of the P-256 curve. */
const P256_ORDER = 0xffffffff00000000ffffffffffffffffbce6faada7179e84f3b9cac2fc632551n

/** Returns the other valid signature: (r, n − s) for (r, s). */
function mirrored(signature: Uint8Array): Uint8Array {
  const s = BigInt(`0x${Buffer.from(signature.subarray(32)).toString('hex')}`)
  const other = (P256_ORDER - s).toString(16).padStart(64, '0')
  return Buffer.concat([signature.subarray(0, 32), Buffer.from(other, 'hex')])
}

/** Returns the same bytes encoded with another last character. */
function respelt(part: string): string {
  const alphabet = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_'
  const last = alphabet.indexOf(part.at(-1) as string)
  return `${part.slice(0, -1)}${alphabet[last + 1]}`
}

const nested = (depth: number): string => `${'['.repeat(depth)}${']'.repeat(depth)}`

const ROWS: Readonly<Record<string, readonly Row[]>> = {
  'with keys from a JWKS endpoint': [
    ['a good RS256 token', issued({}), 'accepted'],
    ['a good ES256 token', (kit) => ecToken(kit), 'accepted'],
    [
      'a good Ed25519 token, by its old name',
      ({ ed }) =>
        craft({ alg: 'EdDSA', kid: ed.kid }, JSON.stringify(good()), (data) =>
          sign(null, data, ed.privateKey),
        ),
      'accepted',
    ],
    ...['none', 'None', 'NONE', 'nOnE', 'none ', ''].flatMap((alg): Row[] => [
      [`alg: ${JSON.stringify(alg)}, unsigned`, () => craft({ alg }, JSON.stringify(good()), unsigned)],
      [
        `alg: ${JSON.stringify(alg)} beside a signature by the issuer`,
        ({ rsa }) => craft({ alg, kid: rsa.kid }, JSON.stringify(good()), byRsa(rsa.privateKey)),
      ],
    ]),
    ['no alg', ({ rsa }) => craft({ kid: rsa.kid }, JSON.stringify(good()), byRsa(rsa.privateKey))],
    ...[null, 5, ['RS256'], { RS256: true }, 'rs256', 'RS256\u0000', '__proto__', 'toString'].map(
      (alg): Row => [`alg: ${JSON.stringify(alg)}`, signed(JSON.stringify(good()), { alg })],
    ),
    ...(['HS256', 'HS384', 'HS512'] as const).flatMap((alg): Row[] => {
      const hash = alg.replace('HS', 'sha')
      return [
        [
          `${alg} with the public key as PEM`,
          ({ rsa }) => craft({ alg, kid: rsa.kid }, JSON.stringify(good()), byHmac(pem(rsa), hash)),
        ],
        [
          `${alg} with the public key as JWK`,
          ({ rsa }) =>
            craft({ alg, kid: rsa.kid }, JSON.stringify(good()), byHmac(JSON.stringify(rsa.jwk), hash)),
        ],
        [
          `${alg} with the modulus`,
          ({ rsa }) =>
            craft(
              { alg },
              JSON.stringify(good()),
              byHmac(Buffer.from(rsa.jwk.n as string, 'base64url'), hash),
            ),
        ],
        [`${alg} with an empty secret`, () => craft({ alg }, JSON.stringify(good()), byHmac('', hash))],
      ]
    }),

    ['iss of another issuer', issued({ iss: 'https://evil.example.com' })],
    ['no iss', issued({ iss: undefined })],
    ['iss with a slash', issued({ iss: `${ISSUER}/` })],
    ['iss in capitals', issued({ iss: ISSUER.toUpperCase() })],
    ['iss as a list', issued({ iss: [ISSUER] })],
    ['iss as an object', issued({ iss: { toString: ISSUER } })],
    ['iss of an address on the canary', async (kit) => issued({ iss: kit.canary })(kit)],

    ['aud of another server', issued({ aud: 'https://other.example.com/mcp' }), 'wrong_resource'],
    ['aud as a list of others', issued({ aud: ['https://a.example.com', 'b'] }), 'wrong_resource'],
    ['aud as a list with ours', issued({ aud: ['https://a.example.com', AUDIENCE] }), 'accepted'],
    ['no aud', issued({ aud: undefined }), 'wrong_resource'],
    ['an empty list for aud', issued({ aud: [] }), 'wrong_resource'],
    ['aud with a slash', issued({ aud: `${AUDIENCE}/` }), 'wrong_resource'],
    ['aud that begins with ours', issued({ aud: `${AUDIENCE}.evil.example.com` }), 'wrong_resource'],
    ['aud with the client’s id', issued({ aud: 'some-client', client_id: 'some-client' }), 'wrong_resource'],
    ['aud as an object', issued({ aud: { 0: AUDIENCE, length: 1 } }), 'wrong_resource'],
    ['aud as a list in a list', issued({ aud: [[AUDIENCE]] }), 'wrong_resource'],
    ['aud null', issued({ aud: null }), 'wrong_resource'],

    ['no exp', issued({ exp: undefined })],
    ['exp of just now', (kit) => issued({ exp: nowSeconds() - 1 })(kit), 'expired'],
    ['exp in 1970', issued({ exp: 0 }), 'expired'],
    ['exp below zero', issued({ exp: -1e18 }), 'expired'],
    ['exp as text', (kit) => issued({ exp: String(nowSeconds() + 300) })(kit)],
    ['exp as "NaN"', issued({ exp: 'NaN' })],
    ['exp null', issued({ exp: null })],
    ['exp true', issued({ exp: true })],
    ['exp beyond all numbers', signed(JSON.stringify(good({ exp: 1 })).replace('"exp":1', '"exp":1e999'))],
    ['nbf in the future', (kit) => issued({ nbf: nowSeconds() + 60 })(kit)],
    ['nbf as text', issued({ nbf: '0' })],
    ['iat in the future', (kit) => issued({ iat: nowSeconds() + 3_600 })(kit)],
    ['iat as text', issued({ iat: '0' })],
    ['sub as an object', issued({ sub: { id: 'ada' } })],
    ['sub as a list', issued({ sub: ['ada'] })],
    ['client_id as a number', issued({ client_id: 5 })],
    ['jti as an object', issued({ jti: {} })],

    ['crit that names an unknown extension', issued({}, { crit: ['urn:x'], 'urn:x': true })],
    ['crit that is empty', issued({}, { crit: [] })],
    ['crit that is text', issued({}, { crit: 'exp' })],
    ['crit that names exp', issued({}, { crit: ['exp'], exp: 9e9 })],
    ['b64: false with crit', issued({}, { crit: ['b64'], b64: false })],
    [
      'b64: false, its payload not encoded',
      ({ rsa }) => {
        const header = json({ alg: 'RS256', kid: rsa.kid, crit: ['b64'], b64: false })
        const payload = JSON.stringify(good()).replace(/[^\w-]/g, '')
        return `${header}.${payload}.${base64url(byRsa(rsa.privateKey)(Buffer.from(`${header}.${payload}`)))}`
      },
    ],
    ['an attacker’s key in jwk', forged(({ evil }) => ({ jwk: evil.jwk }))],
    [
      'an attacker’s key in jwk, under a known kid',
      forged(({ evil, rsa }) => ({ jwk: evil.jwk, kid: rsa.kid })),
    ],
    ['jku', forged(({ canary }) => ({ jku: `${canary}/jwks`, kid: 'evil' }))],
    ['jku under a known kid', forged(({ canary, rsa }) => ({ jku: `${canary}/jwks`, kid: rsa.kid }))],
    ['x5u', forged(({ canary }) => ({ x5u: `${canary}/cert` }))],
    ['x5c', forged(({ evil }) => ({ x5c: [pem(evil).replace(/-----[^-]+-----|\n/g, '')] }))],
    ['an attacker’s key, nothing said', forged(() => ({}))],
    ['an attacker’s key under a known kid', forged(({ rsa }) => ({ kid: rsa.kid }))],
    ...(
      [
        '../../../../dev/null',
        "x' UNION SELECT 'key' --",
        '/dev/null',
        'x'.repeat(8_000),
        '__proto__',
        'constructor',
        'toString',
        '',
        'http://127.0.0.1/',
        ['rsa-1'],
        { toString: 'rsa-1' },
        null,
        0,
      ] as const
    ).map((kid): Row => [`kid: ${JSON.stringify(kid).slice(0, 40)}`, forged(() => ({ kid }))]),
    ['kid as a number, on a token of the issuer', issued({}, { kid: 1 })],

    [
      'a key that is for encryption',
      ({ enc }) => craft({ alg: 'RS256', kid: enc.kid }, JSON.stringify(good()), byRsa(enc.privateKey)),
    ],
    [
      'the key of another curve',
      ({ p384 }) => craft({ alg: 'ES256', kid: p384.kid }, JSON.stringify(good()), byEc(p384.privateKey)),
    ],
    [
      'RS256 under the kid of an EC key',
      ({ rsa, ec }) => craft({ alg: 'RS256', kid: ec.kid }, JSON.stringify(good()), byRsa(rsa.privateKey)),
    ],
    ['ES256 under the kid of an RSA key', (kit) => ecToken(kit, { kid: kit.rsa.kid })],
    ['PS256 named, RS256 signed', signed(JSON.stringify(good()), { alg: 'PS256' })],
    [
      'RS512 with a key that is for RS256',
      ({ rsa }) =>
        craft({ alg: 'RS512', kid: rsa.kid }, JSON.stringify(good()), (data) =>
          sign('sha512', data, rsa.privateKey),
        ),
    ],
    [
      'RS1',
      ({ rsa }) =>
        craft({ alg: 'RS1', kid: rsa.kid }, JSON.stringify(good()), (data) =>
          sign('sha1', data, rsa.privateKey),
        ),
    ],

    [
      'an encrypted token for the encryption key',
      async ({ enc }) =>
        await new CompactEncrypt(Buffer.from(JSON.stringify(good())))
          .setProtectedHeader({ alg: 'RSA-OAEP-256', enc: 'A256GCM', kid: enc.kid })
          .encrypt(enc.publicKey),
    ],
    ['one part', () => 'abc'],
    ['two parts', async (kit) => (await parts(issued({}), kit)).slice(0, 2).join('.')],
    ['four parts', async (kit) => `${await issued({})(kit)}.AAAA`],
    ['five parts', async (kit) => `${await issued({})(kit)}.AAAA.AAAA`],
    ['only dots', () => '..'],
    ['no header', async (kit) => `.${(await parts(issued({}), kit)).slice(1).join('.')}`],
    ['no payload', async (kit) => (([h, , s]) => `${h}..${s}`)(await parts(issued({}), kit))],
    ['no signature', async (kit) => (([h, p]) => `${h}.${p}.`)(await parts(issued({}), kit))],
    ['a signature cut short', async (kit) => (await issued({})(kit)).slice(0, -4)],
    ['a signature with more behind it', async (kit) => `${await issued({})(kit)}AAAA`],
    [
      'the payload of another token',
      async (kit) => {
        const [header, , signature] = await parts(issued({}), kit)
        return `${header}.${json(good({ sub: 'eve' }))}.${signature}`
      },
    ],
    [
      'the header of another token',
      async (kit) => {
        const [, payload, signature] = await parts(issued({}), kit)
        return `${json({ alg: 'RS256', kid: kit.rsa.kid, typ: 'at+jwt' })}.${payload}.${signature}`
      },
    ],
    ['padding behind the signature', async (kit) => `${await issued({})(kit)}==`],
    ['padding in the middle', async (kit) => (await issued({})(kit)).replace('.', '=.'), 'malformed'],
    [
      'base64 where base64url is due',
      async (kit) => (await ecToken(kit, { x: '>>>???' })).replace('.', '+.'),
    ],
    [
      'a signature in another spelling',
      async (kit) => (([h, p, s]) => `${h}.${p}.${respelt(s)}`)(await parts(issued({}), kit)),
    ],
    ['an ECDSA signature of zeros', (kit) => ecToken(kit, {}, () => new Uint8Array(64))],
    [
      'an ECDSA signature of r = n, s = n',
      (kit) => ecToken(kit, {}, () => Buffer.from(P256_ORDER.toString(16).repeat(2), 'hex')),
    ],
    [
      'an ECDSA signature in DER',
      ({ ec }) =>
        craft({ alg: 'ES256', kid: ec.kid }, JSON.stringify(good()), (data) =>
          sign('sha256', data, ec.privateKey),
        ),
    ],
    // For every ECDSA signature, a second valid one can be computed. That is not an attack.
    ['an ECDSA signature mirrored: (r, n − s)', (kit) => ecToken(kit, {}, mirrored), 'accepted'],

    ['1 MB', () => 'a'.repeat(1_000_000), 'malformed'],
    ['one character more than is read', () => 'a'.repeat(16_385), 'malformed'],
    ['as many characters as are read', () => 'a'.repeat(16_384)],
    ['JSON 5 000 levels deep', signed(`{"x":${nested(5_000)}}`)],
    [
      'a header 5 000 levels deep, by the issuer',
      ({ rsa }) =>
        craft(
          base64url(`{"alg":"RS256","x":${nested(5_000)}}`),
          JSON.stringify(good()),
          byRsa(rsa.privateKey),
        ),
      'accepted',
    ],
    [
      'a member twice, the last one wrong',
      signed(JSON.stringify(good()).replace('}', ',"iss":"https://evil.example.com"}')),
    ],
    [
      'alg twice, the last one none',
      ({ rsa }) =>
        craft(base64url(`{"alg":"RS256","kid":"${rsa.kid}","alg":"none"}`), JSON.stringify(good()), unsigned),
    ],
    ...['[]', '"text"', 'null', '5', 'true', '', '{', '{}{}', '\ufeff{}'].map(
      (payload): Row => [`a payload of ${JSON.stringify(payload)}`, signed(payload)],
    ),
    ['a payload that is no UTF-8', signed(Buffer.from(JSON.stringify(good({ sub: '\u00ff' })), 'latin1'))],
    [
      'a header that is no JSON',
      ({ rsa }) => craft(base64url('{alg:RS256}'), JSON.stringify(good()), byRsa(rsa.privateKey)),
    ],
    ['__proto__ in the payload', signed(`{"__proto__":${JSON.stringify(good())}}`)],

    ['a token bound to a DPoP key', issued({ cnf: { jkt: 'thumbprint' } })],
    ['a token bound to a certificate', issued({ cnf: { 'x5t#S256': 'thumbprint' } })],
    ['a token bound to a key that is in it', issued({ cnf: { jwk: { kty: 'RSA' } } })],
    ['a token bound to nothing that can be read', issued({ cnf: 'thumbprint' })],
    ['a token with jkt null', issued({ cnf: { jkt: null } })],
    ...[
      5,
      true,
      {},
      { 'mcp:read': true },
      [['mcp:read']],
      ['mcp:read mcp:write'],
      null,
      'MCP:READ',
      'mcp:read,mcp:write',
    ].map((scope): Row => [`scope: ${JSON.stringify(scope)}`, issued({ scope }), 'insufficient_scope']),
  ],

  'when strict': [
    ['an access token', issued({}, { typ: 'at+jwt' }), 'accepted'],
    ['an access token by its long name', issued({}, { typ: 'application/at+jwt' }), 'accepted'],
    ['an ID token', issued({ nonce: 'n' }, { typ: 'JWT' })],
    ['a token that does not say what it is', issued({})],
    ['a DPoP proof', issued({}, { typ: 'dpop+jwt' })],
    ['a logout token', issued({}, { typ: 'logout+jwt' })],
    ['typ as a list', issued({}, { typ: ['at+jwt'] })],
    ['typ with more behind it', issued({}, { typ: 'at+jwt; x' })],
  ],

  'with a shared secret': [
    ['a good HS256 token', () => craft({ alg: 'HS256' }, JSON.stringify(good()), byHmac(SECRET)), 'accepted'],
    ['another secret', () => craft({ alg: 'HS256' }, JSON.stringify(good()), byHmac('guess'))],
    ['an empty secret', () => craft({ alg: 'HS256' }, JSON.stringify(good()), byHmac(''))],
    [
      'HS512, which was not asked for',
      () => craft({ alg: 'HS512' }, JSON.stringify(good()), byHmac(SECRET, 'sha512')),
    ],
    ['an RS256 token', issued({})],
    ['alg: none', () => craft({ alg: 'none' }, JSON.stringify(good()), unsigned)],
    ['a signature cut to nothing', () => craft({ alg: 'HS256' }, JSON.stringify(good()), unsigned)],
    [
      'a signature cut to one byte',
      () => craft({ alg: 'HS256' }, JSON.stringify(good()), (data) => byHmac(SECRET)(data).subarray(0, 1)),
    ],
    [
      'an attacker’s secret in jwk',
      () =>
        craft(
          { alg: 'HS256', jwk: { kty: 'oct', k: base64url('evil') } },
          JSON.stringify(good()),
          byHmac('evil'),
        ),
    ],
  ],
}

describe('attacks with tokens', () => {
  const servers: Server[] = []
  const fetched: string[] = []
  let kit: Kit
  let guarded: string

  async function serve(listener: RequestListener): Promise<string> {
    const server = createServer({ maxHeaderSize: 2_097_152 }, listener).listen(0, '127.0.0.1')
    servers.push(server)
    await once(server, 'listening')
    return `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  }

  before(async () => {
    const [rsa, ec, p384, ed, enc, evil] = await Promise.all([
      createSigningKey('RS256', 'rsa-1'),
      createSigningKey('ES256', 'ec-1'),
      createSigningKey('ES384', 'ec-384'),
      createSigningKey('EdDSA', 'ed-1'),
      createSigningKey('RS256', 'enc-1'),
      createSigningKey('RS256', 'rsa-1'),
    ])
    const canary = await serve((req, res) => {
      fetched.push(`canary ${req.url}`)
      res.end(JSON.stringify({ keys: [evil.jwk] }))
    })
    const published = [rsa, ec, p384, ed].map(({ jwk }) => jwk)
    const keys = await serve((req, res) => {
      fetched.push(`keys ${req.url}`)
      res.end(JSON.stringify({ keys: [...published, { ...enc.jwk, use: 'enc' }] }))
    })
    kit = { rsa, ec, p384, ed, enc, evil, canary }

    const app = express()
    const guard = (options: Partial<JwtVerifierOptions>) => [
      mcpAuth({
        issuer: ISSUER,
        resource: AUDIENCE,
        scopes: ['mcp:read'],
        verifyToken: jwtVerifier({ issuer: ISSUER, audience: AUDIENCE, ...options }),
      }),
      ((_req, res) => {
        res.json({ ok: true })
      }) as express.RequestHandler,
    ]
    app.use('/0', guard({ jwksUri: `${keys}/jwks` }))
    app.use('/1', guard({ jwksUri: `${keys}/jwks`, strict: true }))
    app.use('/2', guard({ secret: SECRET }))
    guarded = await serve(app)
  })

  after(async () => {
    for (const server of servers) server.close()
    for (const server of servers) server.closeAllConnections()
  })

  async function expectAnswer(route: number, token: string, answer: Answer): Promise<void> {
    const response = await fetch(`${guarded}/${route}`, {
      method: 'POST',
      headers: { authorization: `Bearer ${token}` },
    })
    const body = await response.text()
    const description = DESCRIPTIONS[answer]
    if (description === undefined) {
      expect(response.status).to.equal(200)
      expect(response.headers.get('www-authenticate')).to.equal(null)
    } else {
      const error = answer === 'insufficient_scope' ? answer : 'invalid_token'
      expect(response.headers.get('www-authenticate')).to.equal(
        `Bearer realm="mcp-server", error="${error}", scope="mcp:read", ` +
          'resource_metadata="https://mcp.example.com/.well-known/oauth-protected-resource", ' +
          `error_description="${description}"`,
      )
      expect(response.status).to.equal(answer === 'insufficient_scope' ? 403 : 401)
      expect(JSON.parse(body)).to.include({ error, error_description: description })
    }
    expect(fetched.filter((address) => address !== 'keys /jwks')).to.deep.equal([])
  }

  for (const [route, [where, rows]] of Object.entries(ROWS).entries()) {
    for (const [attack, make, outcome = 'invalid'] of rows)
      it(`tokens ${where}: ${attack}: ${outcome}`, async () => expectAnswer(route, await make(kit), outcome))
  }

  describe('requests of the verifiers', () => {
    it('tokens with unknown key IDs cause only one more fetch of the keys', () => {
      // Two verifiers use the endpoint, and each may fetch the keys twice.
      expect(fetched.length).to.be.within(2, 4)
    })
  })
})
