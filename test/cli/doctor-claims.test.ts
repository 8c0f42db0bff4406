import { inspect } from 'node:util'
import { expect } from 'chai'
import fc from 'fast-check'
import { compareClaims, durationOf } from '../../cli/doctor/checks/claims.ts'
import { decodeToken } from '../../cli/doctor/decoded-token.ts'
import { nearMiss } from '../../cli/doctor/values.ts'
import { createTestIssuer } from '../../src/testing/test-issuer.ts'
import { Recording } from '../support/cli/recording.ts'

const NOW = 1_800_000_000
const EXPECTED = {
  resource: 'https://b.example/mcp',
  issuers: ['https://auth.example/'],
  scopes: ['mcp:read', 'mcp:write'],
  now: NOW,
}
const HEADER = { alg: 'ES256', typ: 'at+jwt' }
const CLAIMS = {
  iss: 'https://auth.example/',
  aud: 'https://b.example/mcp',
  exp: NOW + 300,
  scope: 'mcp:read mcp:write',
}

/** Returns the differences of a token that is correct except for the given members. */
const differencesOf = (claims: object, header: object = {}, expected: object = {}) =>
  compareClaims({ ...HEADER, ...header }, { ...CLAIMS, ...claims }, { ...EXPECTED, ...expected }).flatMap(
    ([, found]) => found,
  )

describe('compareClaims()', () => {
  for (const [what, claims, header = {}, expected = {}] of [
    ['a correct token', {}],
    ['a token for several audiences', { aud: ['https://a.example', 'https://b.example/mcp'] }],
    [
      'an audience that is the origin with a slash',
      { aud: 'https://b.example/' },
      {},
      { resource: 'https://b.example' },
    ],
    ['scopes in scp', { scope: undefined, scp: ['mcp:write', 'mcp:read'] }],
    [
      'the issuer of a tenant of Entra ID',
      { iss: 'https://i.example/t1', tid: 't1' },
      {},
      { issuers: ['https://i.example/{tenantid}'] },
    ],
    ['a media type as typ', {}, { typ: 'application/AT+JWT' }],
    ['an nbf in the past', { nbf: NOW }],
    ['no known issuer', { iss: 'https://other.example' }, {}, { issuers: [] }],
  ] as const) {
    it(`finds nothing in ${what}`, () => expect(differencesOf(claims, header, expected)).to.deep.equal([]))
  }

  const recording = new Recording('claims')
  for (const [claims, header = {}, expected = {}] of [
    [{ aud: 'https://a.example' }],
    [{ aud: undefined }],
    [{ aud: [] }],
    [{ aud: 'client-1', client_id: 'client-1' }],
    [{ aud: 'https://b.example/mcp/' }],
    [{ aud: 'http://b.example/mcp' }],
    [{ aud: 'http://localhost:3000/mcp/' }, {}, { resource: 'http://127.0.0.1:3000/mcp' }],
    [{ iss: 'https://evil.example' }],
    [{ iss: 'https://auth.example' }],
    [{ iss: undefined }],
    [{ iss: 'https://sts.windows.net/t1/' }, {}, { issuers: ['https://login.microsoftonline.com/t1/v2.0'] }],
    [{ exp: NOW - 10_800 }],
    [{ exp: undefined }],
    [{ exp: 'soon' }],
    [{ exp: -1e300 }],
    [{ nbf: NOW + 90 }],
    [{ exp: NOW }],
    [{ exp: NOW - 1 }],
    [{ exp: -8.64e12 }],
    [{ nbf: 8.64e12 }],
    [{ nbf: 8.64e12 + 1 }],
    [{ iss: 'https://evil.example' }, {}, { issuers: ['https://auth.example/', 'https://b.example/'] }],
    [{ iss: 5 }],
    [{ aud: 'client-1', azp: 'client-1' }],
    [{ aud: ['client-1', 'client-2'], azp: 'client-1' }],
    [{ aud: 5 }],
    [{ aud: { url: 'x' } }],
    [{ sub: 5 }],
    [{ client_id: ['a'] }],
    [{ scope: 'mcp:read,mcp:write' }],
    [{ scope: undefined, scp: 'api://a/mcp:read api://a/mcp:write' }],
    [{ scope: 'openid', permissions: ['mcp:read', 'mcp:write'] }],
    [{ scope: '', scp: ['mcp:read', 'mcp:write'] }],
    [{ scope: '' }],
    [{ c_hash: 'x' }],
    [{ typ: 'ID' }],
    [{ typ: 'offline' }],
    [{}, { typ: undefined }],
    [{}, { typ: 5 }],
    [{}, { alg: undefined }],
    [{}, { alg: 5 }],
    [{ nbf: null }],
    [{ scope: 'mcp:read openid' }],
    [{ scope: undefined }],
    [{ at_hash: 'x' }],
    [{ typ: 'Refresh' }],
    [{}, { typ: 'logout+jwt' }],
    [{}, { typ: 'JWT' }],
    [{}, { alg: 'HS256' }],
    [{}, { alg: 'none' }],
    [{ cnf: { jkt: 'x' } }],
    [{ cnf: { 'x5t#S256': 'x' } }],
  ] as readonly (readonly [claims: object, header?: object, expected?: object])[]) {
    const given = inspect([claims, header, expected], { breakLength: Infinity })
    it(`says what is recorded for ${given}`, () => {
      const found = differencesOf(claims, header, expected)
      recording.compare(given, found.map((difference) => inspect(difference, { compact: false })).join('\n'))
    })
  }

  it('finds all differences of a token at once', () => {
    const claims = {
      iss: 'x',
      aud: 'y',
      exp: 1,
      iat: NOW + 61,
      nbf: NOW + 1,
      sub: 5,
      client_id: [],
      jti: null,
      scope: '',
      cnf: { jkt: 'k', 'x5t#S256': 'c' },
    }
    const found = differencesOf(claims, { typ: 'x', alg: 'none' })
    expect(found.map(({ seen }) => /^\w+/.exec(seen)?.[0]).join(' ')).to.equal(
      'aud iss exp iat nbf sub client_id jti scope typ alg cnf cnf',
    )
  })

  it('quotes long claims only in part, whatever a token contains', () => {
    const members = 'iss aud exp iat nbf sub jti scope scp permissions cnf typ tid azp client_id'.split(' ')
    const value = fc.oneof(fc.jsonValue({ maxDepth: 2 }), fc.string(), fc.double())
    const record = fc.record(Object.fromEntries(members.map((name) => [name, value])), { requiredKeys: [] })
    fc.assert(
      fc.property(record, record, (header, claims) => {
        for (const { seen } of compareClaims(header, claims, EXPECTED).flatMap(([, found]) => found))
          expect(seen.length).to.be.at.most(4_000)
      }),
    )
    const [{ seen } = { seen: '' }] = differencesOf({ aud: `https://a.example/${'x'.repeat(10_000)}` })
    expect(seen.length).to.be.at.most(300)
  })
})

describe('decodeToken()', () => {
  const encode = (value: unknown) => Buffer.from(JSON.stringify(value)).toString('base64url')
  const [header, payload] = [encode({ alg: 'ES256' }), encode({ iss: 'x' })]
  const signature = 'A'.repeat(86)

  for (const [what, token, kind, problem] of [
    ['a JWT', `${header}.${payload}.${signature}`, 'jwt'],
    ['an unsigned JWT', `${encode({ alg: 'none' })}.${payload}.`, 'jwt'],
    ['a random string', 'doctor-0b9e', 'opaque'],
    ['a string of three parts', 'v4.public.abc', 'opaque'],
    ['an encrypted JWT', `${encode({ alg: 'dir', enc: 'A256GCM' })}..a.b.c`, 'encrypted'],
    ['a JWT without a payload', header, 'garbage', /has 1 of 3 parts/],
    ['a JWT without a signature', `${header}.${payload}`, 'garbage', /has 2 of 3 parts/],
    ['a JWT whose end is cut', `${header}.${payload}.${'A'.repeat(80)}`, 'garbage', /signature has 60 bytes/],
    ['a JWT whose payload is cut', `${header}.${payload.slice(0, -3)}.${signature}`, 'garbage', /payload/],
    ['a JWT whose header is cut', `${header.slice(0, 9)}.${payload}.${signature}`, 'garbage', /header/],
    [
      'a JWT with a payload that is not an object',
      `${header}.${encode([1])}.${signature}`,
      'garbage',
      /payload/,
    ],
    [
      'an encrypted JWT of six parts',
      `${encode({ alg: 'dir', enc: 'A256GCM' })}..a.b.c.d`,
      'garbage',
      /more than 5/,
    ],
    ['a JWT of four parts', `${header}.${payload}.${signature}.x`, 'garbage', /has 4 of 3 parts/],
    ['a JWT of five parts', `${header}.${payload}.${signature}.x.y`, 'garbage', /has 5 of 3 parts/],
    ['a string of many parts', `ey${'.'.repeat(100_000)}`, 'garbage', /header/],
    ['a JWT of many parts', `${header}${'.'.repeat(100_000)}`, 'garbage', /more than 5 of 3 parts/],
  ] as const) {
    it(`recognizes ${what} as ${kind}`, () => {
      const decoded = decodeToken(token)
      expect(decoded.kind).to.equal(kind)
      if (decoded.kind === 'garbage') {
        expect(decoded.problem).to.match(problem as RegExp)
        expect(decoded.problem).not.to.contain(payload.slice(0, 6))
      }
    })
  }

  for (const [alg, valid, invalid] of [
    ['ES256', [64], [0, 63, 65, 96]],
    ['ES256K', [64], [63, 132]],
    ['ES384', [96], [64, 95, 97]],
    ['ES512', [132], [128, 131, 133]],
    ['RS256', [128, 192, 256, 512], [0, 64, 127, 129, 255]],
    ['PS512', [128, 256], [64, 130]],
    ['EdDSA', [1, 64, 114], [0]],
    ['none', [0, 5], []],
    [undefined, [1], [0]],
  ] as const)
    it(`a signature of ${alg ?? 'no algorithm'} has ${valid.join(' or ')} bytes`, () => {
      const kindOf = (bytes: number) =>
        decodeToken(`${encode({ alg })}.${payload}.${Buffer.alloc(bytes).toString('base64url')}`).kind
      expect(valid.map(kindOf)).to.deep.equal(valid.map(() => 'jwt'))
      expect(invalid.map(kindOf)).to.deep.equal(invalid.map(() => 'garbage'))
    })

  it('returns the header and the claims of an issued token', async () => {
    const decoded = decodeToken(await createTestIssuer().issueToken({ sub: 'zoë' }))
    expect(decoded).to.deep.nested.include({ kind: 'jwt', 'header.typ': 'at+jwt', 'claims.sub': 'zoë' })
  })

  it('never throws', () => {
    fc.assert(fc.property(fc.string(), fc.string(), (one, other) => void decodeToken(`${one}.${other}.x`)))
    fc.assert(fc.property(fc.base64String(), (text) => void decodeToken(`ey${text}.${text}.${text}`)))
  })
})

describe('durationOf()', () => {
  for (const [seconds, words] of [
    [0, '0 seconds'],
    [1, '1 second'],
    [119, '119 seconds'],
    [120, '2 minutes'],
    [7_199, '120 minutes'],
    [7_200, '2 hours'],
    [172_799, '48 hours'],
    [172_800, '2 days'],
    [3.2e9, '37037 days'],
    [3.2e9 + 1, 'more than 100 years'],
  ] as const)
    it(`${seconds} seconds are ${words}`, () => expect(durationOf(seconds)).to.equal(words))
})

describe('nearMiss()', () => {
  for (const [one, other, words] of [
    ['https://a.example/mcp', 'https://a.example/mcp', undefined],
    ['https://a.example/mcp', 'https://a.example/other', undefined],
    ['https://a.example', 'https://b.example', undefined],
    ['http://localhost:3000', 'http://127.0.0.1:4000', undefined],
    ['https://a.example/mcp?x=1', 'https://a.example/mcp', undefined],
    ['not a URL', 'https://a.example', undefined],
    ['https://a.example/', 'https://a.example', 'only the slash at the end differs'],
    ['https://A.example', 'https://a.example', 'only the spelling differs'],
    ['http://[::1]:80/', 'http://localhost/', 'only the host name ([::1] against localhost) differs'],
  ] as const) {
    it(`describes ${one} against ${other} as ${words ?? 'different'}`, () =>
      expect(nearMiss(one, other)).to.equal(words))
  }
})
