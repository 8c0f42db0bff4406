import { generateKeyPairSync, randomBytes } from 'node:crypto'
import { expect } from 'chai'
import type { JWK } from 'jose'
import { type AuthorizationKeys, authorizationFacade, google } from '../../src/authorization/index.ts'
import { createKeys, resolveKeys } from '../../src/authorization/keys.ts'
import { startFacade } from '../support/authorization/facade.ts'
import { expectConfigError } from '../support/config-error.ts'

const JWK_OF_KEY = generateKeyPairSync('ec', { namedCurve: 'P-256' }).privateKey.export({
  format: 'jwk',
}) as JWK

const keysOf = (...signing: JWK[]): AuthorizationKeys => ({
  signing,
  encryption: [randomBytes(32).toString('base64url')],
})

describe('keys of authorizationFacade', () => {
  for (const [what, member] of [
    ['for encryption', { use: 'enc' }],
    ['that only decrypts', { key_ops: ['decrypt'] }],
    ['whose key_ops is not an array', { key_ops: 'sign' }],
  ] as const)
    it(`a signing key ${what} is refused, and the error says which members are wrong`, () => {
      const build = () =>
        authorizationFacade({
          url: 'http://127.0.0.1:3000',
          resource: 'http://127.0.0.1:3000/mcp',
          upstream: google({ clientId: 'a', clientSecret: 'b' }),
          scopes: { 'mcp:read': 'Read' },
          allow: 'everyone',
          keys: keysOf({ ...JWK_OF_KEY, ...(member as object) }),
        })
      expectConfigError(build, {
        code: 'MCP_CONFIG_INVALID_OPTION',
        option: 'keys.signing',
        message: /must contain keys that sign, with 'sig' as use or without use and key_ops/,
      })
      expect(build).to.throw().with.property('message').that.does.not.contain(JWK_OF_KEY.d)
    })

  const rsa = (modulusLength: number) =>
    generateKeyPairSync('rsa', { modulusLength }).privateKey.export({ format: 'jwk' }) as JWK
  const ec = (namedCurve: string) =>
    generateKeyPairSync('ec', { namedCurve }).privateKey.export({ format: 'jwk' }) as JWK
  for (const [what, jwk, alg] of [
    ['a key of P-256', () => ec('P-256'), 'ES256'],
    ['a key of P-384', () => ec('P-384'), 'ES384'],
    ['a key of P-521', () => ec('P-521'), 'ES512'],
    ['a key of another curve', () => ec('secp256k1'), undefined],
    [
      'an Ed25519 key',
      () => generateKeyPairSync('ed25519').privateKey.export({ format: 'jwk' }) as JWK,
      'EdDSA',
    ],
    [
      'an X25519 key',
      () => generateKeyPairSync('x25519').privateKey.export({ format: 'jwk' }) as JWK,
      undefined,
    ],
    ['an RSA key of 2,048 bits', () => rsa(2_048), 'RS256'],
    ['an RSA key of 2,040 bits', () => rsa(2_040), undefined],
    ['a key with its algorithm', () => ({ ...ec('P-256'), alg: 'ES256' }), 'ES256'],
    ['a key with another algorithm', () => ({ ...ec('P-256'), alg: 'ES384' }), undefined],
    ['a public key', () => ({ ...ec('P-256'), d: undefined }) as never, undefined],
    ['no key', () => 'x' as never, undefined],
  ] as [string, () => JWK, string | undefined][])
    it(`${what} ${alg === undefined ? 'is refused' : `signs with ${alg}`}`, () => {
      const given = jwk()
      const resolve = () => resolveKeys(keysOf({ ...Object(given), extra: 'x' }))
      if (alg === undefined)
        expectConfigError(resolve, {
          code: 'MCP_CONFIG_INVALID_OPTION',
          option: 'keys.signing',
          message: /must contain private JWKs for ES256, ES384, ES512, EdDSA, or RS256/,
        })
      else {
        const [signing] = resolve().signing
        expect(signing).to.deep.include({ kty: given.kty, alg, use: 'sig' })
        expect(signing).to.not.have.any.keys('extra', 'kid')
      }
    })

  for (const [what, kids, isAccepted] of [
    ['no kid', [undefined], true],
    ['different kids', ['a', 'b'], true],
    ['equal kids', ['a', 'a'], false],
    ['one kid', ['a', undefined], false],
    ['no kids', [undefined, undefined], false],
  ] as const)
    it(`${kids.length} signing keys with ${what} are ${isAccepted ? 'accepted' : 'refused'}`, () => {
      const jwks = kids.map((kid) => ({ ...JWK_OF_KEY, ...(kid !== undefined && { kid }) }))
      const resolve = () => resolveKeys(keysOf(...jwks))
      if (isAccepted) expect(resolve().signing.map(({ kid }) => kid)).to.deep.equal(kids)
      else
        expectConfigError(resolve, {
          code: 'MCP_CONFIG_INVALID_OPTION',
          option: 'keys.signing',
          message: /must have a different kid for each of several keys/,
        })
    })

  it('a secret has at least 32 characters', () => {
    const resolve = (length: number) => () =>
      resolveKeys({ signing: [JWK_OF_KEY], encryption: ['x'.repeat(32), 'y'.repeat(length)] })
    expect(resolve(32)().encryption).to.have.length(2)
    expectConfigError(resolve(31), {
      code: 'MCP_CONFIG_INVALID_OPTION',
      option: 'keys.encryption',
      message: /must contain secrets of at least 32 characters; received a string of 31 characters/,
    })
    for (const keys of [
      { signing: [], encryption: ['x'.repeat(32)] },
      { signing: [JWK_OF_KEY], encryption: [] },
    ])
      expect(() => resolveKeys(keys)).to.throw(/must be a non-empty array/)
  })

  it('created keys sign with ES256, and are different each time', () => {
    const [one, other] = [createKeys(), createKeys()]
    for (const keys of [one, other]) {
      expect(keys.signing).to.have.length(1)
      expect(keys.signing[0]).to.include({ alg: 'ES256', use: 'sig', crv: 'P-256' })
      expect(keys.signing[0]?.kid).to.have.length(16)
      expect(keys.encryption.map(({ length }) => length)).to.deep.equal([43])
    }
    expect(one.encryption[0]).to.not.equal(other.encryption[0])
    expect(one.signing[0]?.kid).to.not.equal(other.signing[0]?.kid)
  })

  it('a single signing key needs no kid: its tokens are accepted, and can be refreshed', async () => {
    const facade = await startFacade({ keys: keysOf({ ...JWK_OF_KEY, key_ops: ['sign'] }) })
    const { body } = await facade.connect()
    const called = await fetch(facade.resource, {
      method: 'POST',
      headers: {
        authorization: `Bearer ${body.access_token}`,
        'content-type': 'application/json',
        accept: 'application/json, text/event-stream',
        'mcp-protocol-version': '2025-06-18',
      },
      body: JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'tools/list' }),
    })
    expect(called.status).to.equal(200)
    await facade.close()
  })
})
