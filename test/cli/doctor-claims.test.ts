import { expect } from 'chai'
import fc from 'fast-check'
import { compareClaims, durationOf } from '../../cli/doctor/checks/claims.ts'
import { decodeToken, nearMiss } from '../../cli/doctor/values.ts'
import { createTestIssuer } from '../../src/testing/test-issuer.ts'

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

  for (const [claims, seen, hint, header = {}, expected = {}] of [
    [{ aud: 'https://a.example' }, 'aud is https://a.example, expected https://b.example/mcp', /RFC 8707/],
    [{ aud: undefined }, 'aud is missing, expected https://b.example/mcp', /RFC 8707/],
    [{ aud: [] }, 'aud is an empty list, expected https://b.example/mcp', /RFC 8707/],
    [
      { aud: 'client-1', client_id: 'client-1' },
      'aud is client-1, expected https://b.example/mcp: it is the ID of the client',
      /RFC 8707/,
    ],
    [
      { aud: 'https://b.example/mcp/' },
      'aud is https://b.example/mcp/, expected https://b.example/mcp: only the slash at the end differs',
      /one spelling everywhere/,
    ],
    [
      { aud: 'http://b.example/mcp' },
      'aud is http://b.example/mcp, expected https://b.example/mcp: only the scheme (http against https) differs',
      /one spelling everywhere/,
    ],
    [
      { aud: 'http://localhost:3000/mcp/' },
      'aud is http://localhost:3000/mcp/, expected http://127.0.0.1:3000/mcp: only the host name (localhost against 127.0.0.1) and the slash at the end differ',
      /localhost and 127\.0\.0\.1 everywhere/,
      {},
      { resource: 'http://127.0.0.1:3000/mcp' },
    ],
    [
      { iss: 'https://evil.example' },
      'iss is https://evil.example, expected https://auth.example/',
      /get the token from the authorization server/,
    ],
    [
      { iss: 'https://auth.example' },
      'iss is https://auth.example, expected https://auth.example/: only the slash at the end differs',
      /exact spelling of iss/,
    ],
    [{ iss: undefined }, 'iss is missing, expected https://auth.example/', /add the claim iss/],
    [
      { iss: 'https://sts.windows.net/t1/' },
      'iss is https://sts.windows.net/t1/, expected https://login.microsoftonline.com/t1/v2.0',
      /requestedAccessTokenVersion/,
      {},
      { issuers: ['https://login.microsoftonline.com/t1/v2.0'] },
    ],
    [{ exp: NOW - 10_800 }, 'exp is 2027-01-15T05:00:00Z: the token expired 3 hours ago', /get a new token/],
    [{ exp: undefined }, 'exp is missing', /expire/],
    [{ exp: 'soon' }, 'exp is soon, expected a number of seconds', /expire/],
    [{ exp: -1e300 }, 'exp is -1e+300: the token expired more than 100 years ago', /get a new token/],
    [{ nbf: NOW + 90 }, 'nbf is 2027-01-15T08:01:30Z: the token is valid in 90 seconds', /clocks/],
    [{ exp: NOW }, 'exp is 2027-01-15T08:00:00Z: the token expired 0 seconds ago', /get a new token/],
    [{ exp: NOW - 1 }, 'exp is 2027-01-15T07:59:59Z: the token expired 1 second ago', /get a new token/],
    [
      { exp: -8.64e12 },
      'exp is -271821-04-20T00:00:00Z: the token expired more than 100 years ago',
      /get a new token/,
    ],
    [{ nbf: 8.64e12 }, 'nbf is +275760-09-13T00:00:00Z: the token is valid in more than 100 years', /clocks/],
    [{ nbf: 8.64e12 + 1 }, 'nbf is 8640000000001: the token is valid in more than 100 years', /clocks/],
    [
      { iss: 'https://evil.example' },
      'iss is https://evil.example, expected one of https://auth.example/, https://b.example/',
      /get the token from/,
      {},
      { issuers: ['https://auth.example/', 'https://b.example/'] },
    ],
    [{ iss: 5 }, 'iss is 5, expected https://auth.example/', /add the claim iss/],
    [
      { aud: 'client-1', azp: 'client-1' },
      'aud is client-1, expected https://b.example/mcp: it is the ID of the client',
      /RFC 8707/,
    ],
    [
      { aud: ['client-1', 'client-2'], azp: 'client-1' },
      'aud is client-1, client-2, expected https://b.example/mcp',
      /set the audience of the verifier to its aud/,
    ],
    [{ aud: 5 }, 'aud is 5, expected https://b.example/mcp', /RFC 8707/],
    [{ aud: { url: 'x' } }, 'aud is {"url":"x"}, expected https://b.example/mcp', /RFC 8707/],
    [{ sub: 5 }, 'sub is 5 (number), expected a string', /write sub as a string/],
    [{ client_id: ['a'] }, 'client_id is ["a"] (object), expected a string', /write client_id as a string/],
    [
      { scope: 'mcp:read,mcp:write' },
      'scope is mcp:read,mcp:write, expected also mcp:read mcp:write: separated by commas',
      /^separate scopes with spaces/,
    ],
    [
      { scope: undefined, scp: 'api://a/mcp:read api://a/mcp:write' },
      'scope is api://a/mcp:read api://a/mcp:write, expected also mcp:read mcp:write: only the prefix differs',
      /mapScopes/,
    ],
    [
      { scope: 'openid', permissions: ['mcp:read', 'mcp:write'] },
      'scope is openid, expected also mcp:read mcp:write: they are in permissions, which many servers read only without scope',
      /mapScopes/,
    ],
    [
      { scope: '', scp: ['mcp:read', 'mcp:write'] },
      'scope is empty, expected also mcp:read mcp:write: they are in scp, which many servers read only without scope',
      /mapScopes/,
    ],
    [{ scope: '' }, 'scope is empty, expected also mcp:read mcp:write', /mcp:read mcp:write/],
    [{ c_hash: 'x' }, 'the token is an ID token, expected an access token', /only for the client/],
    [{ typ: 'ID' }, 'the token is an ID token, expected an access token', /only for the client/],
    [{ typ: 'offline' }, 'the token is a refresh token, expected an access token', /authorization server/],
    [{}, 'typ is missing, expected at+jwt if the server is strict', /option strict/, { typ: undefined }],
    [{}, 'typ is 5, expected at+jwt', /RFC 9068 §2\.1/, { typ: 5 }],
    [{}, 'alg is missing', /asymmetric key/, { alg: undefined }],
    [{}, 'alg is 5, expected an asymmetric algorithm', /asymmetric key/, { alg: 5 }],
    [{ nbf: null }, 'nbf is null, expected a number of seconds', /clocks/],
    [{ scope: 'mcp:read openid' }, 'scope is mcp:read openid, expected also mcp:write', /mcp:read mcp:write/],
    [{ scope: undefined }, 'scope is missing, expected also mcp:read mcp:write', /mcp:read mcp:write/],
    [
      { at_hash: 'x' },
      'the token is an ID token, expected an access token',
      /an ID token is only for the client/,
    ],
    [{ typ: 'Refresh' }, 'the token is a refresh token, expected an access token', /access token/],
    [{}, 'typ is logout+jwt, expected at+jwt', /access token/, { typ: 'logout+jwt' }],
    [{}, 'typ is JWT, expected at+jwt if the server is strict', /strict/, { typ: 'JWT' }],
    [{}, 'alg is HS256, expected an asymmetric algorithm', /RS256/, { alg: 'HS256' }],
    [{}, 'alg is none, expected an asymmetric algorithm', /RS256/, { alg: 'none' }],
    [
      { cnf: { jkt: 'x' } },
      'cnf.jkt binds the token to a key for DPoP, expected a token that works without a proof',
      /RFC 9449/,
    ],
    [
      { cnf: { 'x5t#S256': 'x' } },
      'cnf["x5t#S256"] binds the token to a TLS certificate of the client, expected a token that works without it',
      /RFC 8705/,
    ],
  ] as const) {
    it(`says "${seen}"`, () => {
      const found = differencesOf(claims, header, expected)
      expect(found.map((difference) => difference.seen)).to.deep.equal([seen])
      expect(found[0]?.hint).to.match(hint)
    })
  }

  for (const [header, claims, isUncertain] of [
    [{ typ: 'JWT' }, {}, true],
    [{ typ: undefined }, {}, true],
    [{ typ: 'x' }, {}, undefined],
    [{ alg: 'HS256' }, {}, true],
    [{ alg: 'none' }, {}, undefined],
    [{}, { at_hash: 'x' }, undefined],
    [{}, { exp: 1 }, undefined],
  ] as const)
    it(`${isUncertain ? 'only some servers reject' : 'every server rejects'} a token with ${JSON.stringify({ ...header, ...claims })}`, () => {
      expect(differencesOf(claims, header).map((one) => one.isUncertain)).to.deep.equal([isUncertain])
    })

  it('finds all differences of a token at once', () => {
    const claims = {
      ...{
        iss: 'x',
        aud: 'y',
        exp: 1,
        iat: NOW + 61,
        nbf: NOW + 1,
        sub: 5,
        client_id: [],
        jti: null,
        scope: '',
      },
      cnf: { jkt: 'k', 'x5t#S256': 'c' },
    }
    const found = differencesOf(claims, { typ: 'x', alg: 'none' })
    expect(found.map(({ seen }) => /^\w+/.exec(seen)?.[0])).to.deep.equal([
      'aud',
      'iss',
      'exp',
      'iat',
      'nbf',
      'sub',
      'client_id',
      'jti',
      'scope',
      'typ',
      'alg',
      'cnf',
      'cnf',
    ])
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
