import { expect } from 'chai'
import { fail, ok, skip, warn, worst } from '../../cli/doctor/finding.ts'

describe('worst()', () => {
  for (const [what, findings, expected] of [
    ['nothing', [], skip('there was nothing to check')],
    ['one finding', [ok('a')], ok('a')],
    ['a warning and a success', [ok('a'), warn('b', 'c')], warn('b', 'c')],
    ['a failure and a warning', [fail('a', 'b'), warn('c', 'd')], fail('a', 'b')],
    ['a success and a skipped check', [skip('a'), ok('b')], ok('b')],
    ['two skipped checks', [skip('a'), skip('b')], skip('a; b')],
    ['two failures', [fail('a', 'b'), ok('x'), fail('c', 'd')], fail('a; c', 'b; d')],
    ['equal failures', [fail('a', 'b'), fail('a', 'b')], fail('a', 'b')],
    ['failures with one hint', [fail('a', 'b'), fail('c', 'b')], fail('a; c', 'b')],
  ] as const)
    it(`the worst of ${what} is ${expected.status}: ${expected.seen}`, () => {
      expect(worst(findings)).to.deep.equal(expected)
    })
})
