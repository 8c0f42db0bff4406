import { expect } from 'chai'
import { cachedVerifier, firstMatch, jwtVerifier } from '../../../src/index.ts'
import { Gate } from '../../../src/oauth/gate.ts'
import { RequestContext } from '../../../src/oauth/inputs.ts'
import { resolveOAuthOptions, type VerifyToken } from '../../../src/oauth/options.ts'
import {
  AUDIENCE,
  createSigningKey,
  ISSUER,
  nowSeconds,
  type SigningKey,
  signToken,
} from '../../support/tokens.ts'

const FOREIGN = 'https://other.example.com'

/** Returns the reason, and the cause of an `invalid` token. */
async function refusalOf(
  token: string,
  verifyToken: VerifyToken<any, any>,
  more: object = {},
): Promise<string> {
  const options = resolveOAuthOptions({ issuer: ISSUER, resource: AUDIENCE, verifyToken, ...more })
  const gate = new Gate(options, [], (request) => new RequestContext(request, {}))
  const decision = await gate.authenticate({
    authorization: `Bearer ${token}`,
    method: 'POST',
    request: new Request(AUDIENCE),
    origin: new URL(AUDIENCE).origin,
    path: '/mcp',
  })
  if (decision.outcome !== 'refused') return decision.outcome
  return [decision.reason, ...('invalidCause' in decision ? [decision.invalidCause] : [])].join(' ')
}

describe('the cause of an invalid token', () => {
  let key: SigningKey
  let twin: SigningKey
  let ed: SigningKey
  before(async () => {
    ;[key, twin, ed] = await Promise.all([
      createSigningKey('ES256', 'one'),
      createSigningKey('ES256', 'one'),
      createSigningKey('EdDSA', 'two'),
    ])
  })

  const jwt = (more: object = {}) =>
    jwtVerifier({ issuer: ISSUER, audience: AUDIENCE, publicKey: { keys: [key.jwk, ed.jwk] }, ...more })

  /** Tokens, the options of the verifier, and the reason. */
  const tokens: readonly (readonly [
    what: string,
    token: (key: SigningKey) => Promise<string> | string,
    options: object,
    expected: string,
  ])[] = [
    ['that was not signed with the key', () => signToken(twin), {}, 'invalid signature'],
    ['that was changed', async (key) => `${await signToken(key)}A`, {}, 'invalid signature'],
    ['whose key is unknown', (key) => signToken(key, {}, { kid: 'three' }), {}, 'invalid signature'],
    ['of another issuer', (key) => signToken(key, { iss: FOREIGN }), {}, 'invalid issuer'],
    ['without an issuer', (key) => signToken(key, { iss: undefined }), {}, 'invalid issuer'],
    ['with another algorithm', (key) => signToken(key), { algorithms: ['RS256'] }, 'invalid algorithm'],
    ['that is opaque', () => 'opaque', {}, 'invalid type'],
    ['with two parts', () => 'a.b', {}, 'invalid type'],
    [
      'that is an ID token, with strict',
      (key) => signToken(key, {}, { typ: 'JWT' }),
      { strict: true },
      'invalid type',
    ],
    ['without an expiry', (key) => signToken(key, { exp: undefined }), {}, 'invalid type'],
    ['that lacks a required claim', (key) => signToken(key), { requiredClaims: ['tenant'] }, 'invalid type'],
    ['whose subject is an object', (key) => signToken(key, { sub: {} }), {}, 'invalid type'],
    ['that is bound to a key', (key) => signToken(key, { cnf: { jkt: 'x' } }), {}, 'invalid key_bound'],
    ['that is not valid yet', (key) => signToken(key, { nbf: nowSeconds() + 60 }), {}, 'invalid not_active'],
    ['from the future', (key) => signToken(key, { iat: nowSeconds() + 3600 }), {}, 'invalid not_active'],
    [
      'whose user cannot be mapped',
      (key) => signToken(key),
      {
        mapUser: () => {
          throw new Error('no such user')
        },
      },
      'invalid verifier',
    ],
    ['that has expired', (key) => signToken(key, { exp: nowSeconds() - 9 }), {}, 'expired'],
    ['for another resource', (key) => signToken(key, { aud: FOREIGN }), {}, 'wrong_resource'],
  ]
  for (const [what, make, options, expected] of tokens) {
    it(`a token ${what} is refused as "${expected}"`, async () => {
      const token = await make(key)
      expect(await refusalOf(token, jwt(options))).to.equal(expected)
      expect(await refusalOf(token, cachedVerifier(jwt(options))), 'cached').to.equal(expected)
    })
  }

  for (const [what, make, expected] of [
    ['of another issuer', () => signToken({ ...ed, alg: 'Ed25519' }, { iss: FOREIGN }), 'invalid issuer'],
    [
      'that is not valid yet',
      () => signToken({ ...ed, alg: 'Ed25519' }, { nbf: nowSeconds() + 60 }),
      'invalid not_active',
    ],
    ['with another typ', () => signToken({ ...ed, alg: 'Ed25519' }, {}, { typ: 'JWT' }), 'invalid type'],
    [
      'without an expiry',
      () => signToken({ ...ed, alg: 'Ed25519' }, { exp: undefined }, { typ: 'at+jwt' }),
      'invalid type',
    ],
    [
      'that was changed',
      async () => `${(await signToken({ ...ed, alg: 'Ed25519' })).slice(0, -86)}${'A'.repeat(86)}`,
      'invalid signature',
    ],
  ] as const) {
    it(`a token with alg: Ed25519 ${what} is refused as "${expected}"`, async () => {
      const { alg: _, ...jwk } = ed.jwk
      const options = { publicKey: jwk, ...(what === 'with another typ' && { strict: true }) }
      expect(await refusalOf(await make(), jwt(options))).to.equal(expected)
    })
  }

  for (const [what, verifyToken, more, expected] of [
    [
      'throws',
      () => {
        throw new Error('x')
      },
      {},
      'invalid verifier',
    ],
    [
      'rejects',
      async () => {
        throw new Error('x')
      },
      {},
      'invalid verifier',
    ],
    ['returns nothing', () => undefined, {}, 'invalid verifier'],
    [
      'returns an expiry that is not a number',
      () => ({ valid: true, expiresAt: Number.NaN }),
      {},
      'invalid verifier',
    ],
    ['returns a key binding', () => ({ valid: true, cnf: { jkt: 'x' } }), {}, 'invalid key_bound'],
    [
      'is not asked, because the DPoP proof is missing',
      () => ({ valid: true }),
      { dpop: 'required' },
      'invalid key_bound',
    ],
  ] as const) {
    it(`a token is refused as "${expected}" if the function of the application ${what}`, async () =>
      expect(await refusalOf('opaque', verifyToken as VerifyToken, more)).to.equal(expected))
  }

  it('the verifier of the issuer of a token names the cause, if there are several', async () => {
    const others = jwt({ issuer: FOREIGN })
    expect(await refusalOf(await signToken(twin), firstMatch(others, jwt()))).to.equal('invalid signature')
    expect(await refusalOf(await signToken(twin), firstMatch(jwt(), others))).to.equal('invalid signature')
  })
})
