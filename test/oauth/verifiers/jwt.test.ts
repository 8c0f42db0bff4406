import { generateKeyPairSync, webcrypto } from 'node:crypto'
import { mock } from 'node:test'
import { expect } from 'chai'
import type { JWK, JWTPayload } from 'jose'
import { type JwtVerifierOptions, jwtVerifier, type PublicKeyInput } from '../../../src/index.ts'
import { expectConfigError, expectConfigRejection } from '../../support/config-error.ts'
import {
  AUDIENCE,
  claimsWith,
  createSigningKey,
  ISSUER,
  nowSeconds,
  type SigningKey,
  signToken,
  verifyInput,
} from '../../support/tokens.ts'

const SECRET = 'a shared secret of more than thirty-two bytes'

describe('jwtVerifier()', () => {
  let rsa: SigningKey
  let ec: SigningKey
  let ed: SigningKey
  let stranger: SigningKey

  before(async () => {
    ;[rsa, ec, ed, stranger] = await Promise.all([
      createSigningKey('RS256', 'rsa-1'),
      createSigningKey('ES256', 'ec-1'),
      createSigningKey('EdDSA', 'ed-1'),
      createSigningKey('RS256', 'rsa-1'),
    ])
  })

  /** Returns the result of the verifier with `options` for `token`. */
  function verify(token: string | undefined, options: Partial<JwtVerifierOptions<any>> = {}) {
    const usual = { issuer: ISSUER, audience: AUDIENCE, publicKey: { keys: [rsa.jwk, ec.jwk, ed.jwk] } }
    const given = { ...usual, ...options }
    if ('issuers' in options) delete (given as { issuer?: string }).issuer
    if ('resource' in options) delete (given as { audience?: string }).audience
    if ('secret' in options) delete (given as { publicKey?: unknown }).publicKey
    return jwtVerifier(given)(verifyInput(token))
  }

  async function expectAccepted(token: string, options?: Partial<JwtVerifierOptions<any>>) {
    expect(await verify(token, options)).to.include({ valid: true })
  }

  async function expectRefused(token: string | undefined, options?: Partial<JwtVerifierOptions<any>>) {
    expect(await verify(token, options)).to.equal(undefined)
  }

  describe('results', () => {
    it('a valid token has its user, scopes, client, expiry, and resource in the result', async () => {
      const iat = nowSeconds()
      const exp = iat + 60
      const token = await signToken(rsa, { scope: 'mcp:read mcp:write', client_id: 'cli', iat, exp })
      const found = await verify(token)
      expect(found).to.include({ valid: true, clientId: 'cli', expiresAt: exp, resource: AUDIENCE })
      expect(found?.scopes).to.deep.equal(['mcp:read', 'mcp:write'])
      expect(found?.user).to.deep.equal({
        id: 'ada',
        claims: { ...claimsWith({ scope: 'mcp:read mcp:write', client_id: 'cli', iat, exp }) },
      })
    })

    const scopes: readonly (readonly [claims: JWTPayload, scopes: readonly string[]])[] = [
      [{ scope: 'a b' }, ['a', 'b']],
      [{ scope: '' }, []],
      [{ scp: ['a', 'b'] }, ['a', 'b']],
      [{ scp: 'a b' }, ['a', 'b']],
      [{ permissions: ['a:b'] }, ['a:b']],
      [{ scope: 'a', scp: ['b'], permissions: ['c'] }, ['a']],
      [{}, []],
    ]
    for (const [claims, expected] of scopes) {
      it(`the claims ${JSON.stringify(claims)} are read as scopes`, async () => {
        expect((await verify(await signToken(rsa, claims)))?.scopes).to.deep.equal(expected)
      })
    }

    it('the client of a token is read from client_id, azp, cid, or appid', async () => {
      expect((await verify(await signToken(rsa, { azp: 'a' })))?.clientId).to.equal('a')
      expect((await verify(await signToken(rsa, { cid: 'b', appid: 'c' })))?.clientId).to.equal('b')
      expect((await verify(await signToken(rsa, { appid: 'c' })))?.clientId).to.equal('c')
      expect((await verify(await signToken(rsa)))?.clientId).to.equal(undefined)
    })

    it('the audience of a token is its resource only if it is a URL', async () => {
      const token = await signToken(rsa, { aud: ['notes-api', 'other'] })
      const found = await verify(token, { audience: 'notes-api' })
      expect(found).to.include({ valid: true }).and.not.to.have.property('resource')
    })

    it('the user of a token is the result of mapUser, direct or as a promise', async () => {
      const token = await signToken(rsa, { email: 'ada@example.com' })
      const mapped = await verify(token, { mapUser: ({ sub, email }) => ({ name: sub, email }) })
      expect(mapped?.user).to.deep.equal({ name: 'ada', email: 'ada@example.com' })
      const later = await verify(token, { mapUser: async ({ sub }) => ({ name: sub }) })
      expect(later?.user).to.deep.equal({ name: 'ada' })
    })
  })

  describe('accepted tokens', () => {
    it('a token with every common algorithm is accepted', async () => {
      for (const key of [rsa, ec, ed]) await expectAccepted(await signToken(key))
    })

    it('a token with RS512 or PS256 is accepted if the key is not limited to one algorithm', async () => {
      const { alg: _, ...jwk } = rsa.jwk
      for (const alg of ['RS384', 'RS512', 'PS256', 'PS512']) {
        await expectAccepted(await signToken({ ...rsa, alg }), { publicKey: jwk })
      }
    })

    it('a token with one of several audiences is accepted, on either side', async () => {
      await expectAccepted(await signToken(rsa, { aud: ['https://other.example.com', AUDIENCE] }))
      await expectAccepted(await signToken(rsa), { audience: ['https://other.example.com', AUDIENCE] })
    })

    it('the option resource works like audience', async () => {
      await expectAccepted(await signToken(rsa), { resource: AUDIENCE })
      await expectRefused(await signToken(rsa, { aud: 'https://other.example.com' }), { resource: AUDIENCE })
    })

    it('a token of one of several issuers is accepted', async () => {
      const issuers = [ISSUER, 'https://login.example.org/']
      await expectAccepted(await signToken(rsa), { issuers })
      await expectAccepted(await signToken(rsa, { iss: 'https://login.example.org/' }), { issuers })
      await expectRefused(await signToken(rsa, { iss: 'https://login.example.org' }), { issuers })
      await expectRefused(await signToken(rsa, { iss: undefined }), { issuers })
    })

    it('a token within the clock tolerance is accepted, with an expiry that the gate accepts', async () => {
      const token = await signToken(rsa, { exp: nowSeconds() - 5, nbf: nowSeconds() + 5 })
      const found = await verify(token, { clockToleranceSeconds: 30 })
      expect(found).to.include({ valid: true })
      expect(found?.expiresAt).to.be.above(nowSeconds())
      await expectRefused(token)
    })

    it('a token within the clock tolerance at the second of its exp gets the expiry with the tolerance', async () => {
      mock.timers.enable({ apis: ['Date'], now: nowSeconds() * 1_000 })
      try {
        const token = await signToken(rsa, { exp: nowSeconds() })
        const found = await verify(token, { clockToleranceSeconds: 30 })
        expect(found).to.include({ valid: true, expiresAt: nowSeconds() + 30 })
      } finally {
        mock.timers.reset()
      }
    })

    it('the dates of a token are exact: exp is excluded, and nbf and iat are included', async () => {
      mock.timers.enable({ apis: ['Date'], now: nowSeconds() * 1_000 })
      try {
        const now = nowSeconds()
        for (const [claims, seconds, isAccepted] of [
          [{ exp: now + 1 }, 0, true],
          [{ exp: now }, 0, false],
          [{ exp: now - 29 }, 30, true],
          [{ exp: now - 30 }, 30, false],
          [{ nbf: now }, 0, true],
          [{ nbf: now + 1 }, 0, false],
          [{ nbf: now + 30 }, 30, true],
          [{ nbf: now + 31 }, 30, false],
          [{ iat: now + 60 }, 0, true],
          [{ iat: now + 61 }, 0, false],
          [{ iat: now + 90 }, 90, true],
          [{ iat: now + 91 }, 90, false],
        ] as const) {
          const found = await verify(await signToken(rsa, claims), { clockToleranceSeconds: seconds })
          expect(found?.valid === true, JSON.stringify(claims)).to.equal(isAccepted)
        }
      } finally {
        mock.timers.reset()
      }
    })

    it('a token with typ at+jwt in both spellings is accepted with strict', async () => {
      for (const typ of ['at+jwt', 'application/at+jwt', 'AT+JWT']) {
        await expectAccepted(await signToken(rsa, {}, { typ }), { strict: true })
      }
    })

    it('a token with alg: Ed25519 (RFC 9864) is accepted, also with strict and within the tolerance', async () => {
      const named = { ...ed, alg: 'Ed25519' }
      const { alg: _, ...jwk } = ed.jwk
      for (const publicKey of [jwk, { keys: [rsa.jwk, jwk] }, ed.publicKey]) {
        await expectAccepted(await signToken(named), { publicKey })
        await expectAccepted(await signToken(named, {}, { kid: undefined }), { publicKey })
        await expectAccepted(await signToken(named, {}, { typ: 'at+jwt' }), { publicKey, strict: true })
        await expectRefused(await signToken(named, {}, { typ: 'JWT' }), { publicKey, strict: true })
        await expectRefused(await signToken(named), { publicKey, algorithms: ['EdDSA'] })
        const late = await signToken(named, { exp: nowSeconds() - 5 })
        await expectAccepted(late, { publicKey, clockToleranceSeconds: 30 })
        for (const wrong of [
          { exp: nowSeconds() - 5 },
          { exp: undefined },
          { exp: 'soon' },
          { iss: 'https://evil.example.com' },
          { aud: 'https://other.example.com' },
          { nbf: nowSeconds() + 60 },
          { iat: nowSeconds() + 3_600 },
          { iat: String(nowSeconds()) },
          { sub: { id: 'ada' } },
          { cnf: { jkt: 'thumbprint' } },
        ])
          await expectRefused(await signToken(named, wrong), { publicKey })
      }
      await expectRefused(await signToken(named), { publicKey: { keys: [rsa.jwk] } })
    })

    describe('several keys', () => {
      const keySet = (...keys: readonly SigningKey[]) => ({
        keys: keys.map(({ jwk: { kid: _, ...jwk } }, index) => ({ ...jwk, kid: `k${index}` })),
      })

      it('a token without kid is verified with every key', async () => {
        const [other, third] = [await createSigningKey('RS256', 'x'), await createSigningKey('RS256', 'y')]
        for (const publicKey of [keySet(other, rsa), keySet(rsa, other, third), keySet(other, third, rsa)]) {
          await expectAccepted(await signToken(rsa, {}, { kid: undefined }), { publicKey })
          await expectRefused(await signToken(stranger, {}, { kid: undefined }), { publicKey })
          await expectRefused(await signToken(rsa, { aud: 'x' }, { kid: undefined }), { publicKey })
          await expectRefused(await signToken(rsa, { exp: 1 }, { kid: undefined }), { publicKey })
        }
      })

      it('a token whose kid names two keys is verified with both', async () => {
        const publicKey = { keys: [stranger.jwk, rsa.jwk] }
        await expectAccepted(await signToken(rsa), { publicKey })
        await expectAccepted(await signToken(stranger), { publicKey })
        await expectRefused(await signToken(await createSigningKey('RS256', 'rsa-1')), { publicKey })
      })

      it('a token that matches several keys is accepted if one of them cannot be used', async () => {
        const short = generateKeyPairSync('rsa', { modulusLength: 1024 }).publicKey.export({ format: 'jwk' })
        const publicKey = { keys: [{ ...(short as JWK), kid: 'rsa-1' }, rsa.jwk] }
        await expectAccepted(await signToken(rsa), { publicKey })
      })

      it('a token that matches several keys is verified with at most sixteen', async () => {
        const others = await Promise.all(Array.from({ length: 16 }, () => createSigningKey('ES256', 'x')))
        const token = await signToken(ec, {}, { kid: undefined })
        await expectAccepted(token, { publicKey: keySet(...others.slice(1), ec) })
        await expectRefused(token, { publicKey: keySet(...others, ec) })
      })
    })

    it('a token without kid is verified with the only key', async () => {
      await expectAccepted(await signToken(rsa, {}, { kid: undefined }))
    })

    it('a token with HS256 is accepted with a secret, and other HMAC algorithms if they are named', async () => {
      const secret = new TextEncoder().encode(SECRET)
      await expectAccepted(await signToken(secret), { secret: SECRET })
      const long = new TextEncoder().encode(SECRET.repeat(2))
      const algorithms = ['HS256', 'HS384', 'HS512']
      for (const alg of algorithms) {
        await expectAccepted(await signToken(long, {}, { alg }), { secret: SECRET.repeat(2), algorithms })
      }
      await expectRefused(await signToken(long, {}, { alg: 'HS512' }), { secret: SECRET.repeat(2) })
    })
  })

  describe('publicKey', () => {
    const forms: readonly (readonly [
      what: string,
      form: (key: SigningKey) => PublicKeyInput | Promise<PublicKeyInput>,
    ])[] = [
      ['PEM', ({ publicKey }) => publicKey.export({ type: 'spki', format: 'pem' }) as string],
      [
        'PEM as indented source has it',
        ({ publicKey }) =>
          `\n${publicKey.export({ type: 'spki', format: 'pem' })}`.replaceAll('\n', '\n      '),
      ],
      [
        'PEM as environment variables have it',
        ({ publicKey }) => String(publicKey.export({ type: 'spki', format: 'pem' })).replaceAll('\n', '\\n'),
      ],
      ['a JWK', ({ jwk }) => jwk],
      ['a JWK with nothing but the key', ({ jwk: { kid: _kid, alg: _alg, use: _use, ...bare } }) => bare],
      ['a JWK Set', ({ jwk }) => ({ keys: [jwk] })],
      ['a JWK Set among other keys', () => ({ keys: [rsa.jwk, ec.jwk, ed.jwk] })],
      ['a KeyObject', ({ publicKey }) => publicKey],
      ['a private KeyObject, of which only the public half is used', ({ privateKey }) => privateKey],
      [
        'a CryptoKey',
        async ({ alg, publicKey }) => {
          const spki = publicKey.export({ type: 'spki', format: 'der' })
          const name =
            alg === 'EdDSA'
              ? { name: 'Ed25519' }
              : alg === 'ES256'
                ? { name: 'ECDSA', namedCurve: 'P-256' }
                : { name: 'RSASSA-PKCS1-v1_5', hash: 'SHA-256' }
          return await webcrypto.subtle.importKey('spki', spki, name, true, ['verify'])
        },
      ],
    ]
    for (const [what, form] of forms) {
      it(`publicKey may be ${what}`, async () => {
        for (const key of [rsa, ec, ed]) {
          const publicKey = await form(key)
          await expectAccepted(await signToken(key), { publicKey })
          await expectAccepted(await signToken(key, {}, { kid: undefined }), { publicKey })
        }
        const publicKey = await form(rsa)
        await expectRefused(await signToken(stranger), { publicKey })
      })
    }

    it('publicKey is copied, so that later changes to the set have no effect', async () => {
      const keys = [rsa.jwk]
      const verifier = jwtVerifier({ issuer: ISSUER, audience: AUDIENCE, publicKey: { keys } })
      keys[0] = { ...stranger.jwk }
      expect(await verifier(verifyInput(await signToken(rsa)))).to.include({ valid: true })
      expect(await verifier(verifyInput(await signToken(stranger)))).to.equal(undefined)
    })
  })

  describe('rejected tokens', () => {
    it('a token bound to a certificate is rejected, even with a DPoP proof', async () => {
      const cnf = { jkt: 'thumbprint', 'x5t#S256': 'thumbprint' }
      for (const changes of [{ cnf }, { cnf: { 'x5t#S256': 'thumbprint' } }]) {
        const verify = jwtVerifier({ issuer: ISSUER, audience: AUDIENCE, publicKey: rsa.publicKey })
        const token = await signToken(rsa, changes)
        expect(await verify({ ...verifyInput(token), proofKey: 'thumbprint' })).to.equal(undefined)
      }
    })

    it('a token whose signature has another spelling is rejected', async () => {
      for (const key of [rsa, ec, ed]) {
        const token = await signToken(key)
        // The last character has bits that are not part of a byte.
        const next = { A: 'B', Q: 'R', g: 'h', w: 'x' }[token.at(-1) as 'A']
        await expectAccepted(token)
        await expectRefused(token.slice(0, -1) + next)
        await expectRefused(`${token}=`)
        await expectRefused(`${token}A`)
      }
    })

    it('a token with an algorithm that is not listed is rejected', async () => {
      await expectRefused(await signToken(ec), { algorithms: ['RS256'] })
      await expectAccepted(await signToken(ec), { algorithms: ['RS256', 'ES256'] })
    })

    it('an identity assertion (ID-JAG) is not accepted as an access token', async () => {
      const assertion = {
        iss: 'https://acme.idp.example',
        aud: ISSUER,
        resource: AUDIENCE,
        client_id: 'client',
        scope: 'mcp:read',
      }
      const header = { typ: 'oauth-id-jag+jwt' }
      await expectRefused(await signToken(rsa, assertion, header))
      // Also if the identity provider is the authorization server.
      await expectRefused(await signToken(rsa, { ...assertion, iss: ISSUER }, header))
      await expectRefused(await signToken(rsa, {}, header), { strict: true })
    })

    it('a token that is not an access token is rejected with strict', async () => {
      for (const typ of [undefined, 'JWT', 'id_token+jwt', 'dpop+jwt']) {
        await expectRefused(await signToken(rsa, {}, typ === undefined ? {} : { typ }), { strict: true })
        await expectAccepted(await signToken(rsa, {}, typ === undefined ? {} : { typ }))
      }
    })

    it('a token without a required claim is rejected', async () => {
      const requiredClaims = ['tenant']
      await expectRefused(await signToken(rsa), { requiredClaims })
      await expectAccepted(await signToken(rsa, { tenant: 'acme' }), { requiredClaims })
      // Members of Object.prototype are not claims.
      await expectRefused(await signToken(rsa), { requiredClaims: ['constructor'] })
      for (const tenant of [null, ''])
        await expectRefused(await signToken(rsa, { tenant }), { requiredClaims })
      for (const tenant of [0, false, ' '])
        await expectAccepted(await signToken(rsa, { tenant }), { requiredClaims })
    })
  })

  it('environment variables never change what is accepted', async () => {
    const foreign: Readonly<Record<string, string>> = {
      ISSUER: 'https://evil.example.com',
      ISSUER_BASE_URL: 'https://evil.example.com',
      AUDIENCE: 'https://other.example.com',
      JWKS_URI: 'https://evil.example.com/jwks',
      SECRET,
      TOKEN_SIGNING_ALG: 'HS256',
    }
    const before = { ...process.env }
    Object.assign(process.env, foreign)
    try {
      await expectAccepted(await signToken(rsa))
      await expectAccepted(await signToken(ec))
      await expectAccepted(await signToken(new TextEncoder().encode(`${SECRET}!`)), { secret: `${SECRET}!` })
      await expectRefused(await signToken(new TextEncoder().encode(SECRET)))
      await expectRefused(await signToken(rsa, { iss: foreign.ISSUER as string }))
      await expectRefused(await signToken(rsa, { aud: foreign.AUDIENCE as string }))
      const token = await signToken(rsa, { iss: foreign.ISSUER as string, aud: foreign.AUDIENCE as string })
      await expectConfigRejection(jwtVerifier({ issuer: ISSUER, publicKey: rsa.jwk })(verifyInput(token)), {
        code: 'MCP_CONFIG_MISSING_OPTION',
        option: 'audience',
        message: /aud/,
      })
      await expectConfigRejection(
        jwtVerifier({ audience: AUDIENCE, publicKey: rsa.jwk })(verifyInput(token)),
        {
          code: 'MCP_CONFIG_MISSING_OPTION',
          option: 'issuer',
          message: /iss/,
        },
      )
    } finally {
      for (const name of Object.keys(foreign)) delete process.env[name]
      Object.assign(process.env, before)
    }
  })

  describe('wrong options', () => {
    const INVALID = 'MCP_CONFIG_INVALID_OPTION'
    const base = { issuer: ISSUER, audience: AUDIENCE }
    for (const [option, options, message] of [
      ['publicKey', () => ({ jwksUri: `${ISSUER}/jwks`, publicKey: rsa.jwk }), /together with jwksUri/],
      ['secret', () => ({ publicKey: rsa.jwk, secret: SECRET }), /together with publicKey/],
      ['algorithms', () => ({ secret: SECRET, algorithms: ['RS256'] }), /HS256/],
    ] as const)
      it(`jwtVerifier() throws for the combination of ${option} with another option`, () =>
        expectConfigError(() => jwtVerifier({ ...base, ...options() } as never), {
          code: INVALID,
          option,
          message,
        }))

    for (const option of ['issuer', 'jwksUri', 'publicKey', 'secret'] as const) {
      it(`jwtVerifier() throws with a function for issuers and with ${option}`, () => {
        const given = { issuer: ISSUER, jwksUri: `${ISSUER}/jwks`, publicKey: rsa.jwk, secret: SECRET }
        const options = { audience: AUDIENCE, issuers: () => true, [option]: given[option] }
        expectConfigError(() => jwtVerifier(options), {
          code: INVALID,
          option,
          message: new RegExp(
            `^${option} cannot be .* function for issuers\\. Remove ${option}, or set issuers`,
          ),
        })
      })
    }
  })
})
