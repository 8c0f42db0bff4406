import { expect } from 'chai'
import fc from 'fast-check'
import { rulesOf } from '../../../src/telemetry/envelope/pattern-rules.ts'
import { hintsOf } from '../../../src/telemetry/envelope/secret-hints.ts'
import { COMMON_SECRET_PATTERNS } from '../../../src/telemetry/envelope/secret-patterns.ts'
import { runs } from '../../support/runs.ts'

const JWT = 'eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJhZGEifQ.c2ln'

/** Secrets, their separators, and what surrounds them. */
const PIECES = [
  ...['a@b.co', 'ada%40example.com', 'a%40b.co', '@', '%40', '%', '\\n', '\\', '%3D', '%20'],
  ...['4242424242424242', '4242 4242 4242 4242', '4222222222222', '3782-822463-10005', '4', '42', '0', '.'],
  ...['DE89370400440532013000', 'NO93 8601 1117 947', 'LC', '55', 'HEMM', 'DE89 3704 0044 0532 0130 00'],
  ...[JWT, 'eyJ', 'eyJhbGci..', 'Bearer ', 'bearer%20', 'DPOP\t', 'dpop+', 'Basic ', 'dTpw', 'abc1', 'x'],
  ...['redis://:pw@', 'redis://:', 'x%3A%2F%2Fu%3A', 'pw', '%2520', '\\u0022'],
  ...['-----BEGIN ', 'PRIVATE KEY-----', '-----BEGIN RSA PRIVATE KEY-----', '----', '-', '_', ' '],
  ...['whsec_', 'sntrys_', 'sk-', 'xoxp-', '123456789:AA', 'A1b2C3d4E5f6G7h8I9j0', 'AKIA', 'ya29.', 'SG.'],
  ...['550e8400-e29b-41d4-a716-446655440000', 'ä', 'Ł', '🎉', 'order', '\n'],
]

/** Returns the names and hints of the secrets that the patterns find without the help of hints. */
function secretsIn(text: string): { readonly name: string; readonly hint: number }[] {
  return COMMON_SECRET_PATTERNS.flatMap(({ name, pattern }) => {
    const rules = rulesOf(pattern)
    const expression = new RegExp(pattern.source, `${pattern.flags}g`)
    for (let match = expression.exec(text); match !== null; match = expression.exec(text)) {
      const end = match.index + match[0].length
      if (rules?.endOf === undefined || rules.endOf(text, match.index, end) !== undefined)
        return [{ name, hint: rules?.hint ?? 0 }]
      expression.lastIndex = match.index + 1
    }
    return []
  })
}

describe('hintsOf()', () => {
  it('a generated string that contains a common secret has the hint of its pattern', () => {
    const seen = new Set<string>()
    fc.assert(
      fc.property(fc.array(fc.constantFrom(...PIECES), { minLength: 1, maxLength: 6 }), (pieces) => {
        const text = pieces.join('')
        for (const { name, hint } of secretsIn(text)) {
          seen.add(name)
          expect(hintsOf(text) & hint, `${name} in ${JSON.stringify(text)}`).not.to.equal(0)
        }
      }),
      { numRuns: runs(5_000) },
    )
    expect([...seen].sort()).to.deep.equal(COMMON_SECRET_PATTERNS.map(({ name }) => name).sort())
  })

  for (const [secret, ...texts] of [
    ['email', 'a@b.co', 'a%40b.co'],
    ['url-credentials', 'redis://:p@', 'x%3A%2F%2Fu%3Ap%40'],
    ['bearer', 'bEARER\tabc1', 'dpop+abc1', 'Basic%20dTpw', 'dpop abc1'],
    ['jwt', 'eyJhbGci..', JWT],
    ['private-key', '-----BEGIN PRIVATE KEY-----'],
    ['api-key', 'whsec_+/+/+/+/+/+/+/+/+/+/', 'sntrys_=/=/=/=/=/=/=/=/=/=/', 'xoxb-1234567890'],
    ['iban', 'NO9386011117947', 'RO35-BANK-ACCO-UNTN-UMBE-RABC', 'ro35bankacco untn umbe rabc'],
    [
      'iban',
      'RO35 BANK ACCO UNTN UMBE RABC',
      'RO35BANK ACCO UNTN UMBE RABC',
      'RO35-BANK ACCO UNTN UMBE RABC',
    ],
    ['card', '4222222222222', '4-2-2-2-2-2-2-2-2-2-2-2-2', '4 2 2 2 2 2 2 2 2 2 2 2 2', '4222-2222 2222-2'],
  ]) {
    for (const text of texts) {
      it(`hintsOf() returns the hint of ${secret} for ${JSON.stringify(text)}`, () => {
        const found = secretsIn(text).find(({ name }) => name === secret)
        expect(hintsOf(text) & (found?.hint ?? 0)).to.not.equal(0)
      })
    }
  }
})
