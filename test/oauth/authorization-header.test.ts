import { expect } from 'chai'
import fc from 'fast-check'
import { readAccessToken, readBearerToken } from '../../src/oauth/authorization-header.ts'
import { allowedToken } from '../support/authorization.ts'

const LONGEST = 'a'.repeat(16_384)

describe('the Authorization header', () => {
  it('a token may have 16,384 characters, and no more', () => {
    for (const value of [`Bearer ${LONGEST}`, [`bEaReR   ${LONGEST}`]])
      expect(readBearerToken(value)).to.deep.equal({ kind: 'token', token: LONGEST })
    for (const value of [`Bearer ${LONGEST}a`, 'Bearer', 'Bearer abc, Bearer def', 'Bearer abc, Basic YTpi'])
      expect(readBearerToken(value)).to.deep.equal({ kind: 'malformed' })
  })

  const missing: readonly (readonly [what: string, value: string | readonly string[] | undefined])[] = [
    ['no header', undefined],
    ['an empty header', ''],
    ['another scheme', 'Basic YTpi'],
    ['DPoP', 'DPoP abc'],
    ['a scheme that only begins alike', 'BearerX abc'],
    ['the token without a scheme', 'abc'],
    ['no space after the scheme', 'Bearer:abc'],
    ['a space in front', ' Bearer abc'],
    ['two headers of other schemes', ['Basic YTpi', 'DPoP abc']],
    ['no value at all', []],
  ]
  for (const [what, value] of missing) {
    it(`an Authorization header with ${what} counts as missing`, () => {
      expect(readBearerToken(value)).to.deep.equal({ kind: 'missing' })
    })
  }

  it('an Authorization header that is sent twice is malformed, whichever of the two has a token', () => {
    for (const values of [
      ['Bearer abc', 'Bearer abc'],
      ['Bearer abc', 'Basic YTpi'],
      ['Basic YTpi', 'Bearer abc'],
      ['', 'Bearer abc'],
    ]) {
      expect(readBearerToken(values)).to.deep.equal({ kind: 'malformed' })
    }
  })

  it('readBearerToken accepts exactly what RFC 6750 §2.1 allows', () => {
    const piece = fc.constantFrom(
      'Bearer',
      'bearer',
      ' ',
      '\t',
      ',',
      '=',
      'abc',
      '~',
      '"',
      '\u00e9',
      '\n',
      '',
    )
    const value = fc.oneof(
      fc.array(piece, { maxLength: 8 }).map((pieces) => pieces.join('')),
      fc.string(),
    )
    fc.assert(
      fc.property(value, (text) => {
        const read = readBearerToken(text)
        expect(read.kind === 'token' ? read.token : undefined).to.equal(allowedToken(text))
      }),
      { numRuns: 2_000 },
    )
  })

  it('readAccessToken reads Bearer credentials like readBearerToken', () => {
    fc.assert(
      fc.property(fc.string(), (text) => {
        expect(readAccessToken(`Bearer ${text}`)).to.deep.equal(readBearerToken(`Bearer ${text}`))
        const { kind } = readAccessToken(`DPoP ${text}`)
        expect(kind).to.equal(readBearerToken(`Bearer ${text}`).kind === 'token' ? 'dpop' : 'malformed')
      }),
    )
    for (const values of [
      undefined,
      '',
      'Basic YTpi',
      ['Basic YTpi', 'Basic YTpi'],
      ['Bearer a', 'Bearer a'],
      [],
    ]) {
      expect(readAccessToken(values)).to.deep.equal(readBearerToken(values))
    }
    expect(readAccessToken('dPoP  abc==')).to.deep.equal({ kind: 'dpop', token: 'abc==' })
    expect(readAccessToken(`DPoP ${LONGEST}a`)).to.deep.equal({ kind: 'malformed' })
  })
})
