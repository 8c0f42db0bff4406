import { expect } from 'chai'
import fc from 'fast-check'
import { lastingClaims } from '../../src/oauth/lasting-claims.ts'
import { runs } from '../support/runs.ts'

describe('lastingClaims()', () => {
  it('lastingClaims() does not depend on the order of members', () => {
    expect(lastingClaims({ b: 1, a: { 2: true, 10: false, d: null } })).to.equal(
      lastingClaims({ a: { d: null, 10: false, 2: true }, b: 1 }),
    )
  })

  it('lastingClaims() ignores exp, iat, nbf, jti, and auth_time at any depth, and no other member', () => {
    const passing = { exp: 1, iat: 2, nbf: 3, jti: '4', auth_time: 5 }
    const claims = { sub: 'ada', nested: [{ deep: { more: 1 } }] }
    expect(
      lastingClaims({ ...claims, ...passing, nested: [{ deep: { more: 1, ...passing }, ...passing }] }),
    ).to.equal(lastingClaims(claims))
    expect(lastingClaims({ ...claims, Exp: 1 })).to.not.equal(lastingClaims(claims))
    expect(lastingClaims(JSON.parse('{"__proto__":{"a":1}}'))).to.not.equal(lastingClaims({}))
  })

  it('lastingClaims() differs for different JSON values', () => {
    fc.assert(
      fc.property(fc.jsonValue({ maxDepth: 4 }), fc.jsonValue({ maxDepth: 4 }), (one, another) => {
        const equal = lastingClaims(one) === lastingClaims(another)
        if (!equal || JSON.stringify(one) === JSON.stringify(another)) return
        expect(JSON.parse(lastingClaims(one))).to.deep.equal(JSON.parse(lastingClaims(another)))
      }),
      { numRuns: runs(500) },
    )
  })

  it('lastingClaims() returns at most 4,096 characters, which depend on the whole value', () => {
    const [one, another] = ['a', 'b'].map((end) => lastingClaims({ text: 'x'.repeat(1_000_000) + end }))
    expect(one).to.not.equal(another)
    expect(one?.length).to.be.at.most(4_096)
  })

  const cycle: Record<string, unknown> = {}
  cycle.self = cycle
  const { proxy: revoked, revoke } = Proxy.revocable({}, {})
  revoke()
  for (const [what, value] of Object.entries({
    'a cycle': cycle,
    'a BigInt': { id: 1n },
    'a number that JSON.parse rounds': { id: 2 ** 53 },
    'a revoked proxy': { revoked },
    '100,000 levels': JSON.parse(`${'['.repeat(100_000)}${']'.repeat(100_000)}`),
  })) {
    it(`lastingClaims() of a value with ${what} equals no other value`, () => {
      expect(lastingClaims(value)).to.not.equal(lastingClaims(value))
    })
  }
})
