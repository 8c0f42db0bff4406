import { expect } from 'chai'
import fc from 'fast-check'
import { bearerChallengeOf, ChallengeSyntaxError, parseChallenges } from '../../cli/doctor/challenges.ts'

/** Returns the challenges as plain objects. */
const read = (header: string) =>
  parseChallenges(header).map(({ scheme, parameters }) => ({
    scheme,
    parameters: Object.fromEntries(parameters),
  }))

describe('parseChallenges()', () => {
  for (const [header, expected] of [
    ['Bearer', [{ scheme: 'Bearer', parameters: {} }]],
    ['', []],
    [
      'Bearer realm="a \\"b\\" \\\\", Error=invalid_token',
      [{ scheme: 'Bearer', parameters: { realm: 'a "b" \\', error: 'invalid_token' } }],
    ],
    [
      'Negotiate YWJj==, bearer scope="a b" , realm = x,,DPoP algs="ES256"',
      [
        { scheme: 'Negotiate', parameters: {} },
        { scheme: 'bearer', parameters: { scope: 'a b', realm: 'x' } },
        { scheme: 'DPoP', parameters: { algs: 'ES256' } },
      ],
    ],
    [
      'Bearer, Basic realm="x"',
      [
        { scheme: 'Bearer', parameters: {} },
        { scheme: 'Basic', parameters: { realm: 'x' } },
      ],
    ],
  ] as const) {
    it(`parses ${header || 'an empty header'}`, () => expect(read(header)).to.deep.equal(expected))
  }

  for (const [header, complaint] of [
    ['Bearer, error="x"', 'at character 9 of 17: a parameter has no scheme'],
    ['error="x"', 'at character 1 of 9: a parameter has no scheme'],
    ['Bearer realm="x" error="y"', 'at character 17 of 26: a comma is missing'],
    ['Bearer realm="x', 'at character 14 of 15: the value of realm must be a token or a quoted string'],
    ['Bearer realm="x", realm="y"', 'at character 19 of 27: realm occurs twice in one challenge'],
    ['Bearer realm=x, a=b, Realm=y, c=d', 'at character 22 of 33: realm occurs twice in one challenge'],
    ['Bearer realm=a b', 'at character 15 of 16: a comma is missing'],
    ['Negotiate YWJj, realm="x"', 'at character 17 of 25: a parameter has no scheme'],
    ['Bearer resource_metadata=https://example.com', 'at character 31 of 44: a comma is missing'],
    ['"Bearer"', 'at character 1 of 8: expected a scheme or a parameter'],
  ] as const) {
    it(`throws for ${header}`, () =>
      expect(() => parseChallenges(header)).to.throw(ChallengeSyntaxError, complaint))
  }

  const token = fc.stringMatching(/^[!#$%&'*+\-.^_`|~0-9A-Za-z]{1,8}$/)
  const text = fc.stringMatching(/^[\t\x20-\x7E]{0,20}$/)
  const challenge = fc.record({
    scheme: token,
    parameters: fc.uniqueArray(fc.tuple(token, text, fc.boolean()), {
      maxLength: 4,
      selector: ([name]) => name.toLowerCase(),
    }),
  })

  it('parses every header that follows the grammar', () => {
    fc.assert(
      fc.property(fc.array(challenge, { minLength: 1, maxLength: 4 }), (challenges) => {
        const header = challenges
          .map(({ scheme, parameters }) =>
            [
              scheme,
              parameters.map(([name, value]) => `${name}="${value.replace(/["\\]/g, '\\$&')}"`).join(', '),
            ]
              .join(' ')
              .trimEnd(),
          )
          .join(', ')
        expect(read(header)).to.deep.equal(
          challenges.map(({ scheme, parameters }) => ({
            scheme,
            parameters: Object.fromEntries(parameters.map(([name, value]) => [name.toLowerCase(), value])),
          })),
        )
      }),
    )
  })

  it('bearerChallengeOf() finds the Bearer challenge among others, in upper and lower case', () => {
    expect(bearerChallengeOf('DPoP algs="ES256", BEARER realm="x"')?.parameters.get('realm')).to.equal('x')
    expect(bearerChallengeOf('Basic realm="x"')).to.equal(undefined)
    expect(bearerChallengeOf('Bearer "')).to.equal(undefined)
    expect(bearerChallengeOf(undefined)).to.equal(undefined)
  })
})
